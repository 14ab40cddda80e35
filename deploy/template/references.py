"""CloudFormation's words for what it fills in itself."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

#: Names in a template are letters and digits.
_LOGICAL = re.compile(r"[^a-zA-Z0-9]+")


def ref(name: str) -> dict[str, str]:
    """A parameter's value, or a resource's main name."""
    return {"Ref": name}


def attribute(resource: str, name: str) -> dict[str, list[str]]:
    """Of a resource."""
    return {"Fn::GetAtt": [resource, name]}


def logical_name(words: str) -> str:
    """Such as AlarmErrors5xx for alarm-errors-5xx."""
    return "".join(word[:1].upper() + word[1:] for word in _LOGICAL.split(words))


def fill_in(value: Any) -> Any:
    """Strings that have AWS's variables, within anything, as CloudFormation fills them in."""
    if isinstance(value, str):
        return {"Fn::Sub": value} if "${AWS::" in value else value
    if isinstance(value, Mapping):
        return {name: fill_in(one) for name, one in value.items()}
    if isinstance(value, Sequence):
        return [fill_in(one) for one in value]
    return value
