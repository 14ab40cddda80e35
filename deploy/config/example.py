"""A CONFIG.toml with every choice and its reason, made of the choices themselves."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from deploy.config.choices import Choice, choices_of
from deploy.config.config import SECTIONS

_COLUMNS = 98
_HEAD = """\
# What an endpoint is to be, for `python -m deploy up`. Lines that begin with #: are defaults, or
# examples where there is no default.
"""
_TAGS = """
# Tags of the endpoint, its models and its configurations, for your bills.
[tags]
#: team = "recommendations"
"""


def make_example() -> str:
    """TOML; it has what is required and no more."""
    sections = [_make_section(name, section) for name, section in SECTIONS.items()]
    return _HEAD + "".join(sections) + _TAGS


def _make_section(name: str, section: type) -> str:
    words = [f"\n# {section.__doc__}", f"[{name}]"]
    # A section that is optional as a whole would otherwise be there with its first line.
    optional = name == "autoscaling"
    if optional:
        words[-1] = f"#: [{name}]"
    defaults = {it.name: it.default for it in fields(section)}
    for choice in choices_of(section):
        words += _make_choice(choice, defaults[choice.name], optional)
    return "\n".join(words) + "\n"


def _make_choice(choice: Choice, default: Any, optional: bool) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(choice.reason, _COLUMNS))
    if default is not MISSING and default not in (None, ()):
        value = json.dumps(default)
    else:
        value = choice.example
    yield f"{'' if choice.required and not optional else '#: '}{choice.name} = {value}"
