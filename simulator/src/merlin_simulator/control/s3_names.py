"""Names that S3 does not take, as AWS refuses them: moto would fail at them. No I/O."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, unquote_to_bytes

_BUCKET = re.compile(r"[A-Za-z0-9._:-]*")
#: Of a key, in UTF-8: AWS, "Naming Amazon S3 objects".
_LONGEST_KEY = 1024
#: Parameters that become headers of the answer, which are of ISO-8859-1 without control characters.
_HEADERS = "response-"
_HEADER = re.compile(r"[^\x00-\x1f\x7f\u0100-\U0010ffff]*")


def find_odd_name(target: str) -> tuple[int, str, str] | None:
    """Status, code and message for a path, bucket first, and query; None: all is well."""
    path, _, query = target.partition("?")
    bucket, _, key = path.lstrip("/").partition("/")
    try:
        named, decoded = (unquote_to_bytes(part).decode() for part in (bucket, key))
    except UnicodeDecodeError:
        return 400, "InvalidURI", "Couldn't parse the specified URI: it is no UTF-8."
    if _BUCKET.fullmatch(named) is None:
        message = "letters, digits, dots and dashes are expected."
        return 400, "InvalidBucketName", f"The specified bucket is not valid: {message}"
    if len(decoded.encode()) > _LONGEST_KEY:
        return 400, "KeyTooLongError", f"Your key is too long: {_LONGEST_KEY} bytes are expected."
    for name, value in parse_qsl(query) if _HEADERS in query.lower() else ():
        if name.lower().startswith(_HEADERS) and _HEADER.fullmatch(value) is None:
            return 400, "InvalidArgument", "A header of the answer is no ISO-8859-1."
    return None
