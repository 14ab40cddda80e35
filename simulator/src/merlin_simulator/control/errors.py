"""What calls are refused by, in AWS's words."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from xml.sax.saxutils import escape


class ServiceError(Exception):
    """A call that is not carried out. message: for people.

    code: as the service model has it; status: HTTP's.
    """

    def __init__(self, message: str, code: str = "ValidationException", status: int = 400) -> None:
        super().__init__(message)
        self.code, self.status = code, status


@dataclass(frozen=True)
class ErrorAnswer:
    """An answer to a call that failed."""

    status: int  # HTTP's
    headers: Mapping[str, str]  # with the content's type and length
    body: bytes


def make_error(
    headers: Mapping[str, str], service: str | None, status: int, code: str, message: str
) -> ErrorAnswer:
    """For a request with these headers (lower-case names) to a service; None: taken as S3's."""
    request_id = str(uuid.uuid4())
    media_type, text = "application/xml", ""
    if "x-amz-target" in headers:
        media_type = headers.get("content-type", "application/x-amz-json-1.1")
        text = json.dumps({"__type": code, "message": message})
    elif service in ("s3", None):
        text = (
            f"<Error><Code>{code}</Code><Message>{escape(message)}</Message>"
            f"<RequestId>{request_id}</RequestId></Error>"
        )
    elif headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        kind = "Sender" if status < 500 else "Receiver"
        text = (
            f"<ErrorResponse><Error><Type>{kind}</Type><Code>{code}</Code>"
            f"<Message>{escape(message)}</Message></Error><RequestId>{request_id}</RequestId>"
            "</ErrorResponse>"
        )
    else:
        media_type, text = "application/json", json.dumps({"__type": code, "message": message})
    if media_type == "application/xml":
        text = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'
    body = text.encode()
    headers = {
        "content-type": media_type,
        "content-length": str(len(body)),
        "x-amzn-requestid": request_id,
        "x-amzn-errortype": code,
    }
    return ErrorAnswer(status, headers, body)
