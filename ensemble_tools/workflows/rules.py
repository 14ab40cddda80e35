"""Rules: how NVTabular's operators are compiled, and what they are handed for that.

The rules are those of nvtabular 23.8.0 (nvtabular/ops/) with pandas 1.5, on the path on which a
model serves: a DataFrame of one request, made of numpy arrays, on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from ensemble_tools.archive.executor_graph import Node
from ensemble_tools.archive.workflow_files import find_category_path
from ensemble_tools.errors import shown
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.frames import ColumnType, Frame, Kind
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.program import Step, Table
from ensemble_tools.workflows.runtime.operations.filling import NoneLeft, NoneMissing
from ensemble_tools.workflows.runtime.records import Parameters

#: Kinds of keys that pandas merges by -> how a table compares them.
_MERGED_BY = {Kind.INT: "whole", Kind.FLOAT: "real", Kind.TEXT: "text"}
#: What a rule may add to: steps, tables, and the numbers of registers and of sets of rows.
Emitted = tuple[tuple[Step, ...], tuple[Table, ...], int, int]


class KeptColumns(Enum):
    """The columns that an operator puts out that runs on a frame of pandas, for a program."""

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
    """How an operator treats columns that no schema names.

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
    """How operators of some classes are compiled, or kept."""

    #: The classes' paths, as pickles name them.
    classes: tuple[str, ...]
    #: Emits the steps of a call and returns the frame that the operator puts out; raises
    #: NotCompiled and Unknown. None where the operator is never compiled.
    compile: Callable[[OperatorCall], Frame] | None = None
    #: What the operator puts out where it runs on a frame of pandas. None where it never does: it
    #: puts out more than its schema says, or it reads a category file (those that do share
    #: NVTabular's cache of them).
    kept: KeptColumns | None = None
    #: Why the operator is never compiled.
    why_not: str = "this operator is not known"
    #: What users call the operator, if not by its class.
    label: str = ""
    #: Whether NVTabular's code runs on a frame of no rows, whatever the types of its columns.
    runs_without_rows: bool = True
    #: The names of the columns that the operator puts out, in order, where that is not its
    #: schema's order; raises as compile does.
    order: Callable[[OperatorCall], list[str]] | None = None
    #: For an operator that is kept and puts out columns beside its input: what is known better of
    #: these than by its schema. Raises where it is not kept.
    adds: Callable[[OperatorCall], Frame] | None = None
    #: What becomes of columns that no schema names.
    unnamed: Unnamed = Unnamed.DROPPED


def nvtabular(module: str, *names: str) -> tuple[str, ...]:
    """The paths of some classes of NVTabular."""
    return tuple(f"nvtabular.ops.{module}.{name}" for name in names)


class Emitter:
    """The collector of the steps and tables that rules emit.

    may_leave_out: whether a column may be absent that the program cannot have. is_last: whether the
    operator at work makes the answer.
    """

    def __init__(self, may_leave_out: bool) -> None:
        self.steps: list[Step] = []
        self.tables: list[Table] = []
        self.registers = 0
        #: Rows that are not those of the request have numbers from 1 on.
        self._row_sets = 1
        self._may_leave_out = may_leave_out
        #: Whether a column is absent, which somebody may read.
        self.left_out = self.is_last = False

    def emit(
        self,
        operator: str,
        operation: Parameters,
        reads: Iterable[ColumnType],
        writes: Iterable[ColumnType],
        columns: tuple[str, ...],
    ) -> list[ColumnType]:
        """A step; the columns that it writes, in registers of their own. columns: its subject."""
        written = [column.at(self.new_register()) for column in writes]
        read_registers = tuple(column.register for column in reads)
        registers = tuple(column.register for column in written)
        self.steps.append(
            Step(operation, read_registers, registers, operator, columns, is_last=self.is_last)
        )
        return written

    def convert(
        self,
        operation: Parameters,
        register: int,
        operator: str = "",
        columns: tuple[str, ...] = (),
    ) -> int:
        """A step that makes a column of what a register holds; the register that it writes."""
        written = self.new_register()
        self.steps.append(Step(operation, (register,), (written,), operator, columns))
        return written

    def table(self, table: Table) -> int:
        """The table's number in the program; raises Unknown where its file is read otherwise.

        NVTabular keeps files in a cache by their paths, for all operators (merlin.io.worker): those
        that read one file in two ways would change it for each other. A pickle is no such file.
        """
        alike = [other for other in self.tables if table.path == other.path]
        if not table.given and any(table != other for other in alike):
            raise Unknown(f"{table.path.name} is read in two ways")
        if table not in self.tables:
            self.tables.append(table)
        return self.tables.index(table)

    def new_register(self) -> int:
        """A number for a column."""
        self.registers += 1
        return self.registers - 1

    def new_rows(self) -> int:
        """A number for rows that are not those of the request."""
        self._row_sets += 1
        return self._row_sets - 1

    def may_leave_out(self) -> bool:
        """Whether a column may be absent: at first it may, then nobody does without it."""
        self.left_out = True
        return self._may_leave_out

    def save(self) -> Emitted:
        """The steps, tables and numbers so far."""
        return tuple(self.steps), tuple(self.tables), self.registers, self._row_sets

    def restore(self, emitted: Emitted) -> None:
        """Nothing else was put here."""
        steps, tables, self.registers, self._row_sets = emitted
        self.steps, self.tables = [*steps], [*tables]


@dataclass(frozen=True)
class OperatorCall:
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
        """The selected columns; those that are selected together are one tuple."""
        return [(group,) if isinstance(group, str) else group for group in self.node.groups]

    def parameter(self, name: str) -> Any:
        """An attribute of the fitted operator."""
        state = self.node.operator.state
        if name not in state:
            raise Unknown(f"it has no {name}: another NVTabular than 23.8 wrote it")
        return state[name]

    def refuse(self, columns: Iterable[str], why: str) -> NotCompiled:
        """The error that says why it is not compiled."""
        return NotCompiled(why, self.node.operator.label, columns)

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
        """The named columns; refused where one has lists, or values of another kind.

        with_gaps: it is compiled for texts of which some are missing.
        """
        return [self._check(name, kinds, False, with_gaps) for name in names]

    def columns(
        self, names: Iterable[str], *kinds: Kind, with_gaps: bool = False
    ) -> list[ColumnType]:
        """The named columns, lists or not. with_gaps: texts and lists that may be missing."""
        return [self._check(name, kinds, None, with_gaps) for name in names]

    def items(
        self, names: Iterable[str], *kinds: Kind, with_gaps: bool = False
    ) -> list[ColumnType]:
        """The columns of an operator that reads all items of lists one after the other.

        It makes arrays, whatever the lists are (flatten_list_column_values, encode_list_column).
        """
        return [self._check(name, kinds, None, with_gaps, any_rows=True) for name in names]

    def lists(self, names: Iterable[str], *kinds: Kind) -> list[ColumnType]:
        """The named columns of lists; others are refused, and requests with a missing list."""
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
        """The path at which Workflow.load reads it."""
        category_path = find_category_path(path, self.parameter("out_path"), self.directory)
        if category_path is None:
            where = f" ({shown(path)})" if isinstance(path, str) else ""
            raise Unknown(f"its category file is not among the workflow's files{where}")
        return category_path

    # -- what it is compiled to

    def emit(
        self, operation: Parameters, reads: list[ColumnType], writes: ColumnType, name: str
    ) -> ColumnType:
        """A step that makes one column."""
        (column,) = self.emitter.emit(self.node.operator.label, operation, reads, [writes], (name,))
        return column

    def emit_several(
        self,
        operation: Parameters,
        reads: list[ColumnType],
        writes: Iterable[ColumnType],
        columns: tuple[str, ...],
    ) -> list[ColumnType]:
        """A step that makes several columns. columns: what the operator is applied to."""
        return self.emitter.emit(self.node.operator.label, operation, reads, writes, columns)

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
