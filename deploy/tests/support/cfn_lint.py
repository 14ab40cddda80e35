"""cfn-lint, whose rules are read once, and its lists."""

from __future__ import annotations

import importlib.resources
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a second to import, in each process that collects tests
    from importlib.abc import Traversable

    from cfnlint.rules import RulesCollection


def lint_template(template: Mapping[str, Any], region: str = "us-east-1") -> list[str]:
    """What it finds, warnings too."""
    from cfnlint.api import lint

    matches = lint(json.dumps(template), rules=read_rules(), regions=[region])
    return [str(match) for match in matches]


@cache
def read_rules() -> RulesCollection:
    """All that are on by default."""
    from cfnlint.core import get_rules

    return get_rules([], [], [])


@cache
def read_actions() -> Mapping[str, Any]:
    """IAM's actions by service: Actions (in lower case, each with its Resources), Resources."""
    return dict(json.loads((_data() / "AdditionalSpecs/Policies.json").read_text()))


def read_schema(kind: str) -> Mapping[str, Any]:
    """Of a resource such as AWS::SageMaker::Model."""
    folder = _data() / "schemas"
    name = json.loads((folder / "providers/us-east-1.json").read_text())[kind]
    return dict(json.loads((folder / f"resources/{name}.json").read_text()))


def _data() -> Traversable:
    return importlib.resources.files("cfnlint.data")
