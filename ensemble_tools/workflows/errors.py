"""Why a workflow is not compiled: it is then served as it was delivered."""

from __future__ import annotations

from collections.abc import Iterable

from ensemble_tools.errors import NAMED_COLUMNS, quoted, shortened


class NotCompiled(Exception):
    """why: one clause. operator: the operator's name, empty for the workflow as a whole."""

    def __init__(self, why: str, operator: str = "", columns: Iterable[str] = ()) -> None:
        self.operator, self.columns, self.why = operator, tuple(columns), why
        named = ", ".join(quoted(column) for column in self.columns[:NAMED_COLUMNS])
        applied = f"{shortened(operator)} of {named}" if operator else named
        subject = applied if named else shortened(operator)
        super().__init__(f"{subject}: {why}" if subject else why)
