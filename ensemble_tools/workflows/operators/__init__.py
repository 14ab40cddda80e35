"""Every operator that is known, family by family. CONTRIBUTING.md says how to add one.

A Subgraph has no rule: the compiler walks it.
"""

from __future__ import annotations

from ensemble_tools.workflows.operators import (
    bucketizing,
    categorify,
    filling,
    grouping,
    hashing,
    lists,
    scaling,
    structure,
    table_joins,
    target_encoding,
    users_code,
)
from ensemble_tools.workflows.rules import Rule

RULES: tuple[Rule, ...] = (
    *structure.RULES,
    *categorify.RULES,
    *hashing.RULES,
    *bucketizing.RULES,
    *scaling.RULES,
    *filling.RULES,
    *lists.RULES,
    *grouping.RULES,
    *table_joins.RULES,
    *target_encoding.RULES,
    *users_code.RULES,
)
#: The same by the paths of classes.
OPERATORS: dict[str, Rule] = {path: rule for rule in RULES for path in rule.classes}
