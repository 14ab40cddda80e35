"""IAM's decision for the parts of its language that `python -m deploy policy` uses.

"Policy evaluation logic" and "Condition operators" of IAM's guide: nothing is allowed that no
statement allows, what one denies is denied; a key that the request has not makes a condition
false. Everything else raises, and is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any

Policy = Mapping[str, Any]


class Decision(Enum):
    """What comes of all policies of whoever asks."""

    ALLOWED = "allowed"
    NOT_ALLOWED = "no policy allows it"
    DENIED = "a policy denies it"


def decide(
    policies: Iterable[Policy], action: str, resource: str, keys: Mapping[str, str]
) -> Decision:
    """keys: the request's condition keys, such as sagemaker:TargetModel."""
    effects = {
        statement["Effect"]
        for policy in policies
        for statement in policy["Statement"]
        if applies(statement, action, resource, keys)
    }
    if "Deny" in effects:
        return Decision.DENIED
    return Decision.ALLOWED if "Allow" in effects else Decision.NOT_ALLOWED


def is_allowed(policy: Policy, action: str, resource: str, **context: str) -> bool:
    """context: condition keys, with __ for the colon (sagemaker__TargetModel)."""
    keys = {name.replace("__", ":"): value for name, value in context.items()}
    return decide([policy], action, resource, keys) is Decision.ALLOWED


def applies(
    statement: Mapping[str, Any], action: str, resource: str, keys: Mapping[str, str]
) -> bool:
    """Whether a statement is about the request."""
    return (
        # Actions have no case.
        any(matches(one.lower(), action.lower()) for one in as_list(statement["Action"]))
        and any(matches(one, resource) for one in as_list(statement["Resource"]))
        and all(
            holds(operator, key, expected, keys)
            for operator, pairs in statement.get("Condition", {}).items()
            for key, expected in pairs.items()
        )
    )


def holds(operator: str, key: str, expected: Any, keys: Mapping[str, str]) -> bool:
    """One condition; of several values that are expected one is enough."""
    compare: Callable[[str, str], bool] = {
        "StringEquals": str.__eq__,
        "StringLike": matches,
        "Bool": lambda wanted, found: wanted.lower() == found.lower(),
    }[operator.removeprefix("ForAnyValue:")]
    return key in keys and any(compare(one, keys[key]) for one in as_list(expected))


def matches(pattern: str, value: str) -> bool:
    """With * for any characters, slashes too, and ? for one; ${*}, ${?} and ${$} stand for such a
    character itself."""
    parts = re.findall(r"\$\{([*?$])\}|(.)", pattern, re.DOTALL)
    written = "".join(
        re.escape(literal) if literal else {"*": ".*", "?": "."}.get(one, re.escape(one))
        for literal, one in parts
    )
    return re.fullmatch(written, value, re.DOTALL) is not None


def as_list(value: Any) -> list[str]:
    """IAM writes one value without a list."""
    return [value] if isinstance(value, str) else list(value)
