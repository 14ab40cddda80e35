"""Whether AWS's answers are whole. One that is not is asked for again.

botocore takes JSON that it cannot read for an answer without members: an answer that broke off, or
the login page of a hotel's network. Then whatever was looked for would seem not to exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from merlin_deploy.aws.refusals import no_aws

#: The member of an answer that says what is wrong with it.
_WRONG = "deploy:wrong"
#: Seconds before it is asked for again.
_PAUSE_S = 0.5
_JSON = "json"


def watch_answers(client: Any) -> None:
    """Let a client of boto3 ask again if an answer is not whole, as often as after a failure."""
    most = client.meta.config.retries["total_max_attempts"]

    def ask_again(response: Any, attempts: int, **_: Any) -> float | None:
        answer = response[1] if response else {}
        return _PAUSE_S if attempts < most and _WRONG in answer else None

    client.meta.events.register("before-parse", _mark)
    client.meta.events.register("needs-retry", ask_again)


def require_whole(answer: Mapping[str, Any], asked: str) -> None:
    """Raises NoAnswer if the last answer was not whole, either."""
    if _WRONG in answer:
        raise no_aws(asked, answer[_WRONG])


def require_members(answer: Mapping[str, Any], asked: str, *names: str) -> None:
    """Raises NoAnswer if an answer lacks members that AWS never leaves out.

    For S3, whose service model does not say which they are.
    """
    lacking = [name for name in names if answer.get(name) in (None, "")]
    if lacking:
        raise no_aws(asked, f"without {', '.join(lacking)}")


def _mark(
    operation_model: Any,
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    **_: Any,
) -> None:
    """Note what is wrong with an answer, and let botocore take it for a server's failure."""
    wrong = _find_wrong(operation_model, response_dict)
    if wrong is not None:
        customized_response_dict[_WRONG] = wrong
        response_dict |= {"status_code": 503, "body": b""}


def _find_wrong(operation_model: Any, response: Mapping[str, Any]) -> str | None:
    body, headers = response["body"], response["headers"]
    if response["status_code"] >= 300 or not isinstance(body, bytes):
        return None
    length = str(headers.get("content-length", ""))
    is_head = operation_model.http.get("method") == "HEAD"
    if length.isdecimal() and len(body) < int(length) and not is_head:
        return f"{len(body)} of {length} bytes came"
    # Some answers without a body say text/html, too.
    if body and str(headers.get("content-type", "")).startswith("text/html"):
        return "a page in HTML"
    if operation_model.service_model.resolved_protocol == _JSON:
        return _find_wrong_json(body or b"{}", operation_model.output_shape)
    return None


def _find_wrong_json(body: bytes, shape: Any) -> str | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return "no JSON"
    if not isinstance(answer, dict):
        return "no JSON object"
    required = () if shape is None else shape.required_members
    # One of them is enough: AWS may leave out others.
    if required and not any(name in answer for name in required):
        return f"without {', '.join(required)}"
    return None
