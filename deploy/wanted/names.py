"""Names that say what a thing is: equal content has an equal name, and is made once."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

VARIANT = "AllTraffic"
#: Of a digest; two of a name's some hundred versions share it once in a million times.
DIGEST_CHARACTERS = 8
#: A tag that all we make carries: whose it is.
ENDPOINT_TAG = "deploy:endpoint"
#: Tags of the endpoint: in which order configurations were deployed, and to which of them a
#: rollback goes that is not done yet.
HISTORY_TAG = "deploy:history"
STEP_TAG = "deploy:rollback"


def content_name(endpoint_name: str, members: Mapping[str, Any]) -> str:
    """NAME-<digest> of a request's members."""
    written = json.dumps(members, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(written.encode()).hexdigest()[:DIGEST_CHARACTERS]
    return f"{endpoint_name}-{digest}"


def is_ours(endpoint_name: str, name: str) -> bool:
    """Whether a model's or configuration's name is one that content_name makes."""
    digest = rf"[0-9a-f]{{{DIGEST_CHARACTERS}}}"
    return re.fullmatch(rf"{re.escape(endpoint_name)}-{digest}", name) is not None
