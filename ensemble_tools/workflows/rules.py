"""What a rule is: how one of NVTabular's operators is compiled, and what it is handed for that.

The rules are those of nvtabular 23.8.0 (nvtabular/ops/) with pandas 1.5, on the path on which a
model serves: a DataFrame of one request, made of numpy arrays, on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from ensemble_tools.archive.executor_graph import Node
from ensemble_tools.archive.workflow_files import place_of
from ensemble_tools.errors import shown
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.runtime.operations.filling import NoneLeft, NoneMissing
from ensemble_tools.workflows.runtime.records import Parameters

#: Kinds of keys that pandas merges by -> how a table compares them.
_MERGED_BY = {Kind.INT: "whole", Kind.FLOAT: "real", Kind.TEXT: "text"}


class KeptColumns(Enum):
    """What an operator that runs on a frame of pandas, for a program, puts out."""

    #: The columns of its output schema, and nothing else.
    ALONE = "alone"
    #: The same beside all that it was given.
    BESIDE_INPUT = "beside its input"
    #: All that it was given, of some rows.
    SOME_ROWS = "some rows of its input"
    #: The columns of its output schema, with rows that are not those that it was given; its lists
    #: are Python's.
    OTHER_ROWS = "other rows"


class Unnamed(Enum):
    """What an operator does with columns that no schema names.

    An operator of the user's may put out more than its schema says: its whole frame, say.
    """

    #: It reads columns by their names and puts out others.
    DROPPED = "dropped"
    #: They stand in what it puts out, as they were.
    PASSED_ON = "passed on"
    #: What it does may depend on them.
    SEEN = "seen"


@dataclass(frozen=True)
class Rule:
    """What is known of some classes of operators.

    classes: their paths, as pickles name them. compile: a call -> the frame that the operator puts
    out, with its steps emitted; raises NotCompiled and Unknown; None where it is never compiled,
    and why_not says why. kept: what it puts out where it runs on a frame of pandas; None where
    that is not done, since it puts out what its schema does not say, or reads a category file (all
    that do share NVTabular's cache of them). label: what users call it, where
    that is not the name of the class. runs_without_rows: whether NVTabular's code does on a frame
    of none, whatever the types of its columns. order: what it puts out, in its order, where that is
    not its schema's; raises as compile does. adds: where it is kept, and puts out columns beside
    its input, what of these is known better than by its schema; raises where it is not kept.
    unnamed: what becomes of columns that no schema names.
    """

    classes: tuple[str, ...]
    compile: Callable[[Call], Frame] | None = None
    kept: KeptColumns | None = None
    why_not: str = "this operator is not known"
    label: str = ""
    runs_without_rows: bool = True
    order: Callable[[Call], list[str]] | None = None
    adds: Callable[[Call], Frame] | None = None
    unnamed: Unnamed = Unnamed.DROPPED


def nvtabular(module: str, *names: str) -> tuple[str, ...]:
    """The paths of some classes of NVTabular."""
    return tuple(f"nvtabular.ops.{module}.{name}" for name in names)


class Emitter(Protocol):
    """Where steps and tables are put."""

    def emit(
        self,
        call: Call,
        operation: Parameters,
        reads: Iterable[ColumnType],
        writes: Iterable[ColumnType],
        columns: tuple[str, ...],
    ) -> list[ColumnType]:
        """A step; the columns that it writes, in registers of their own. columns: its subject."""

    def table(self, table: Table) -> int:
        """The table's number in the program; raises Unknown where its file is read otherwise."""

    def new_rows(self) -> int:
        """A number for rows that are not those of the request."""

    def may_leave_out(self) -> bool:
        """Whether a column may be absent that the program cannot have, as nobody may read it."""


@dataclass(frozen=True)
class Call:
    """One operator of the graph, the columns it is handed, and the workflow's directory."""

    node: Node
    frame: Frame
    directory: Path
    emitter: Emitter

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are selected for it."""
        return self.node.selection

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The same, those that are selected together in one tuple."""
        return [(group,) if isinstance(group, str) else group for group in self.node.groups]

    def parameter(self, name: str) -> Any:
        """An attribute of the fitted operator."""
        state = self.node.operator.state
        if name not in state:
            raise Unknown(f"it has no {name}: another NVTabular than 23.8 wrote it")
        return state[name]

    def refuse(self, columns: Iterable[str], why: str) -> NotCompiled:
        """The error that says why it is not compiled."""
        return NotCompiled(self.node.operator.label, columns, why)

    def check_names(self, columns: Iterable[str], own: Collection[str]) -> None:
        """Refuse columns with the names of those that NVTabular adds to its frames for a while.

        One takes the other's place there, and what becomes of that is NVTabular's affair.
        """
        if taken := [name for name in columns if name in own]:
            raise self.refuse(taken, "NVTabular uses the name for a column of its own")

    # -- columns that it reads

    def scalars(
        self, names: Iterable[str], *kinds: Kind, with_gaps: bool = False
    ) -> list[ColumnType]:
        """Those columns; refused where one has lists, or values of another kind.

        with_gaps: it is compiled for texts of which some are missing.
        """
        return [self._check(name, kinds, False, with_gaps) for name in names]

    def columns(
        self, names: Iterable[str], *kinds: Kind, with_gaps: bool = False
    ) -> list[ColumnType]:
        """Those columns, with lists or without. with_gaps: texts and lists that may be missing."""
        return [self._check(name, kinds, None, with_gaps) for name in names]

    def items(
        self, names: Iterable[str], *kinds: Kind, with_gaps: bool = False
    ) -> list[ColumnType]:
        """The same, for an operator that reads all items of lists one after the other.

        It makes arrays, whatever the lists are (flatten_list_column_values, encode_list_column).
        """
        return [self._check(name, kinds, None, with_gaps, any_rows=True) for name in names]

    def lists(self, names: Iterable[str], *kinds: Kind) -> list[ColumnType]:
        """Those columns; refused where one has no lists. A request is, if one is missing in it."""
        return [self.without_gaps(self._check(name, kinds, True, True), name) for name in names]

    def without_gaps(self, column: ColumnType, name: str) -> ColumnType:
        """Lists of which none is missing: a request is refused otherwise."""
        if not column.with_gaps:
            return column
        whole = replace(column, with_gaps=False)
        return self.emit(NoneMissing(name), [column], whole, name)

    def all_there(self, column: ColumnType, name: str) -> ColumnType:
        """Texts of which none is missing: a request is left to NVTabular otherwise."""
        if not column.with_gaps:
            return column
        if not column.gaps_left:
            raise self.refuse([name], f"it is applied to {column.items} that may be missing")
        return self.emit(NoneLeft(name), [column], replace(column, with_gaps=False), name)

    def passed_on(self, name: str) -> ColumnType:
        """A column to whose values nothing is done."""
        if name not in self.frame:
            raise self.refuse([name], "the column is not there")
        return self.frame[name]

    def each(self, columns: Iterable[ColumnType]) -> Iterable[tuple[str, ColumnType]]:
        """The selected columns' names and types, in pairs."""
        return zip(self.names, columns, strict=True)

    def keys(self, names: Iterable[str]) -> tuple[list[ColumnType], tuple[str, ...]]:
        """Columns that pandas merges by, and how a table compares each of them (Table.kinds)."""
        columns = self.scalars(names, *_MERGED_BY)
        return columns, tuple(_MERGED_BY[column.kind] for column in columns)

    def category_file(self, path: Any) -> Path:
        """Where Workflow.load reads it."""
        place = place_of(path, self.parameter("out_path"), self.directory)
        if place is None:
            where = f" ({shown(path)})" if isinstance(path, str) else ""
            raise Unknown(f"its category file is not among the workflow's files{where}")
        return place

    # -- what it is compiled to

    def emit(
        self, operation: Parameters, reads: list[ColumnType], writes: ColumnType, name: str
    ) -> ColumnType:
        """A step that makes one column."""
        (column,) = self.emitter.emit(self, operation, reads, [writes], (name,))
        return column

    def emit_several(
        self,
        operation: Parameters,
        reads: list[ColumnType],
        writes: Iterable[ColumnType],
        columns: tuple[str, ...],
    ) -> list[ColumnType]:
        """A step that makes several columns. columns: what the operator is applied to."""
        return self.emitter.emit(self, operation, reads, writes, columns)

    def _check(
        self,
        name: str,
        kinds: tuple[Kind, ...],
        lists: bool | None,
        with_gaps: bool,
        any_rows: bool = False,
    ) -> ColumnType:
        if name not in self.frame:
            raise self.refuse([name], "the column is not there")
        column = self.frame[name]
        if column.absent:
            raise self.refuse([name], column.absent)
        if column.kind is Kind.PANDAS or (column.kind is Kind.DATE and Kind.DATE not in kinds):
            raise self.refuse([name], "it is applied to a column that numpy has no plain type for")
        if column.any_rows and not any_rows:
            raise self.refuse([name], "it is applied to lists that a function made")
        if kinds and column.kind not in kinds:
            raise self.refuse([name], f"it is applied to {column.kind.value} values")
        if lists is not None and column.is_list is not lists:
            raise self.refuse(
                [name], "it is applied to lists" if column.is_list else "it has no lists"
            )
        return column.as_array() if with_gaps else self.all_there(column.as_array(), name)
