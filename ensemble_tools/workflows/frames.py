"""Columns without values: what the compiler knows of a column before there is a request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from ensemble_tools.workflows.runtime.kept import BESIDE


class Kind(Enum):
    """The kind of a column's values. How wide numbers are is only known when a request is there."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    TEXT = "text"
    #: datetime64[ns], of a kept operator: Groupby reads it, and kept operators.
    DATE = "date"
    #: What an operator that is not compiled made, and only others of them read.
    PANDAS = "pandas"

    @property
    def is_number(self) -> bool:
        """Whether pandas calculates with it as with numbers."""
        return self in (Kind.INT, Kind.FLOAT)


@dataclass(frozen=True)
class ColumnType:
    """A column in a register."""

    register: int
    kind: Kind
    #: Bytes of an item where that is certain, 0 where it depends on values: an operation that may
    #: widen its values (casting.put) says 0.
    width: int = 0
    #: One list a row.
    is_list: bool = False
    #: The lists are Python's, as Groupby makes them, and not arrays.
    python_rows: bool = False
    #: The lists are Python's or arrays, of items of any type, as a kept operator made them: who
    #: looks at more than all items one after the other reads the series.
    any_rows: bool = False
    #: Which rows these are: columns of one frame have the same number.
    rows: int = 0
    #: Some texts or lists may be missing (Column.missing).
    with_gaps: bool = False
    #: NVTabular answers requests in which a value is missing, for operators that are not compiled
    #: for that.
    gaps_left: bool = False
    #: Who else has the same lists: REQUESTS of a table, BESIDE of a Subgraph's frame, or nobody.
    shared_by: str = ""
    #: The register in which a kept operator has put it as a series of pandas'; None for others.
    series: int | None = None
    #: The arrays of kept operators on which it depends whether these numbers are whole; a missing
    #: value makes floats of whole numbers in pandas.
    either: frozenset[int] = frozenset()
    #: Why the program has no such column, in words; empty where it has. An operator that reads it
    #: is neither compiled nor kept.
    absent: str = ""

    @property
    def items(self) -> str:
        """The name of what may be missing in it."""
        return "lists" if self.is_list else "texts"

    @property
    def handed_over(self) -> int:
        """The register that a kept operator reads."""
        return self.register if self.series is None else self.series

    def at(self, register: int) -> ColumnType:
        """The column in another register."""
        return replace(self, register=register, series=None)

    def shared_in_subgraph(self) -> ColumnType:
        """A column of a Subgraph's frame made of it; what a function made may be lists."""
        may_be_lists = self.is_list or self.series is not None
        return replace(self, shared_by=self.shared_by or BESIDE) if may_be_lists else self

    def of_other_kind(self) -> ColumnType:
        """Floats for whole numbers, and whole numbers for floats."""
        kind = Kind.FLOAT if self.kind is Kind.INT else Kind.INT
        return replace(self, kind=kind, width=0)

    def is_alike(self, other: ColumnType) -> bool:
        """Whether it is the same, or the same with numbers of the other kind."""
        if self.kind is not other.kind and self.kind.is_number and other.kind.is_number:
            other = replace(other, kind=self.kind, width=self.width)
        return self == replace(other, either=self.either)

    def as_array(self) -> ColumnType:
        """The column as compiled operators read it."""
        return self.at(self.register)

    def cast(self, dtype: str) -> ColumnType:
        """A column made of this one. dtype: a numeric type of numpy's, such as `int32`."""
        letters = dtype.rstrip("0123456789")
        return replace(
            self,
            kind=Kind.FLOAT if letters == "float" else Kind.INT,
            width=int(dtype[len(letters) :]) // 8,
            python_rows=False,
            any_rows=False,
            with_gaps=False,
            shared_by="",
        )


#: Columns by their names, in order.
Frame = dict[str, ColumnType]
