"""AWS's own words in one line, without what nobody else is to see.

Some of its errors have the whole request in them: SignatureDoesNotMatch the canonical one, with the
session token among the headers; IncompleteSignature the Authorization header.
"""

from __future__ import annotations

import re

_HIDDEN = "…"
#: Characters of what is told, and of what is looked at for secrets: AWS writes some hundred.
_MOST, _MOST_READ = 2000, 100_000
#: IAM, "Unique identifiers": keys, and whom temporary ones are of; AWS's have 16 or more characters
#: behind the prefix.
_IDS = re.compile(r"\b(AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}\b")
#: Names with what stands behind them, in headers, in queries and in canonical requests.
_NAMED = re.compile(
    r"(?i)\b(Credential|Signature|AWSAccessKeyId|X-Amz-Security-Token|X-Amz-Credential"
    r"|X-Amz-Signature|SecurityToken|SessionToken|SecretAccessKey|Authorization)"
    r"""(['"]?\s*[=:]\s*)(?!HIDDEN)(AWS4-HMAC-SHA256\s*|b?['"])?[^\s,&'"<>]+""".replace(
        "HIDDEN", _HIDDEN
    )
)
#: A request as it was signed: from here on everything is what was sent.
_REQUEST = re.compile(r"(?is)\s*The (Canonical String|String-to-Sign) for this request\b.*")


def one_line(words: object) -> str:
    """Without a full stop at its end."""
    shown = _REQUEST.sub("", str(words)[:_MOST_READ])
    shown = _IDS.sub(_HIDDEN, _NAMED.sub(rf"\1\2{_HIDDEN}", shown))
    line = " ".join(shown.split()).rstrip(".")
    return line if len(line) <= _MOST else f"{line[:_MOST]}…"
