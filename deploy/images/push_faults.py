"""Why a push stopped, by what the engine says of it. No I/O."""

from __future__ import annotations

import re

from deploy.errors import DeployError, MissingRight, QuotaReached, Refused, Unreachable
from deploy.images.references import Destination

_ACTION = re.compile(r"not authorized to perform: (?P<action>ecr:\w+)")
_EXPIRED = re.compile(r"(authorization )?token (has|is) expired")
_NO_RIGHT = re.compile(r"\b(denied|unauthorized|forbidden|no basic auth credentials)\b")
_GONE = re.compile(r"name unknown|repository with name '\S+' does not exist")
_IMMUTABLE = re.compile(r"\bimmutable\b")
_QUOTA = re.compile(r"limit ?exceeded|toomanyrequests|quota|rate exceeded")
_NO_TLS = re.compile(r"server gave http response to https client")
_KEPT = "layers that are there stay: the same command sends the rest"


def fault_of(destination: Destination, words: str) -> DeployError:
    """words: the engine's. What is not known is the registry's, or the network's."""
    place, lower = destination.reference, words.lower()
    if _EXPIRED.search(lower):
        return Unreachable(
            f"{place}: the login ended in the middle of the push ({words}); {_KEPT}, with a new "
            "login"
        )
    if _IMMUTABLE.search(lower):
        return Refused(
            f"{place}: the repository has another image under the tag {destination.tag}, and its "
            "tags are immutable: say another with --tag"
        )
    if _GONE.search(lower):
        return Refused(
            f"{place}: the repository is gone ({words}): the same command makes it again"
        )
    if _QUOTA.search(lower):
        return QuotaReached(
            f"{place}: a quota of the registry is reached ({words}): ask for more in Service "
            f"Quotas, or wait; {_KEPT}"
        )
    if (found := _ACTION.search(words)) or _NO_RIGHT.search(lower):
        return MissingRight(
            f"{found['action'] if found else 'the push'} to {place} is not allowed: {words}; "
            + _remedy(destination)
        )
    if _NO_TLS.search(lower):
        return Unreachable(
            f"{place}: the registry speaks HTTP, and the engine wants TLS ({words}): name it by "
            "127.0.0.1, or add it to the engine's insecure-registries"
        )
    return Unreachable(f"{place}: the push stopped ({words}); {_KEPT}")


def _remedy(destination: Destination) -> str:
    if destination.registry is not None:
        return f"docker login {destination.registry} is what the engine is asked with"
    return "`python -m deploy policy` prints the rights that are needed"
