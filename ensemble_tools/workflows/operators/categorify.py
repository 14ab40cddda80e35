"""Values to labels of categories: Categorify."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import ColumnType, Frame
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.program import Table
from ensemble_tools.workflows.rules import OperatorCall, Rule, Unnamed, nvtabular
from ensemble_tools.workflows.runtime.operations.categorify import Categorify

#: Labels that Categorify keeps for itself: 0 padding, 1 nulls, 2 what was not seen.
_NULL, _UNSEEN = 1, 2
#: NVTabular turns labels from floats to integers, and what int32 has no room for into its least
#: number; a category file has fewer rows than are missing here to 2^31.
_NARROW, _MOST_BUCKETS = ("int8", "int16", "int32", "uint8", "uint16", "uint32"), 2**30
#: `_encode` numbers the rows in the first and sorts by it; the second is read from the index.
_OWN = ("order", "labels")


@dataclass(frozen=True)
class _Encoding:
    """One column of labels."""

    name: str
    #: The columns that it is made of.
    columns: tuple[str, ...]
    #: The name that its categories and its parameters are saved under.
    stored: str

    @property
    def is_combined(self) -> bool:
        return len(self.columns) > 1

    @property
    def is_joint(self) -> bool:
        """Whether other columns have the same labels."""
        return not self.is_combined and self.stored != self.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The category file's columns."""
        return self.columns if self.is_combined else (self.stored,)


def categorify(call: OperatorCall) -> Frame:
    """Categorify, of columns alone, encoded jointly or in combinations."""
    encode_type = call.parameter("encode_type")
    if encode_type not in ("joint", "combo"):
        raise Unknown(f"encode_type is {encode_type!r}")
    dtype = read.dtype(call.parameter("dtype"), "dtype", "int64")
    files = read.mapping(call.parameter("categories"), "categories")
    storage = read.mapping(call.parameter("storage_name"), "storage_name")
    if call.parameter("search_sorted") is not False:
        raise call.refuse(call.names, "search_sorted looks labels up in another way")
    frame = dict(call.frame)
    encodings = _encodings(call, storage, encode_type == "joint")
    names = [encoding.name for encoding in encodings]
    for encoding in encodings:
        call.check_names(dict.fromkeys((*encoding.columns, *encoding.keys)), _OWN)
        may_have_gaps = call.items(encoding.columns, with_gaps=not encoding.is_combined)
        columns = [
            call.without_gaps(column, name) if column.is_list else column
            for name, column in zip(encoding.columns, may_have_gaps, strict=True)
        ]
        _check_form(call, encoding, columns)
        buckets = _buckets(call, encoding, columns, names)
        frame[encoding.name] = _encode(call, encoding, columns, buckets, files, dtype)
    return frame


def _encodings(call: OperatorCall, storage: Mapping[str, str], jointly: bool) -> list[_Encoding]:
    separator = call.parameter("name_sep")
    groups = [(name,) for name in call.names] if jointly else call.groups
    named = {separator.join(group) if len(group) > 1 else group[0]: group for group in groups}
    return [
        _Encoding(name, columns, storage.get(name, name) if jointly or len(columns) > 1 else name)
        for name, columns in named.items()
    ]


def _check_form(call: OperatorCall, encoding: _Encoding, columns: Sequence[ColumnType]) -> None:
    if encoding.is_combined and any(column.is_list for column in columns):
        raise call.refuse(encoding.columns, "lists are combined with other columns")
    split = call.parameter("split_out")
    if (split.get(encoding.stored, 1) if isinstance(split, dict) else split) != 1:
        raise call.refuse(
            [encoding.name], "its categories are split into several files (split_out)"
        )
    if not isinstance(call.parameter("cat_cache"), str | dict):
        raise call.refuse([encoding.name], "its categories are not cached (cat_cache)")


def _buckets(
    call: OperatorCall, encoding: _Encoding, columns: Sequence[ColumnType], names: Sequence[str]
) -> int | None:
    """How many buckets unseen values are hashed to, None for none. names: of all encodings."""
    buckets = call.parameter("num_buckets")
    if isinstance(buckets, int) and not isinstance(buckets, bool):
        buckets = dict.fromkeys(names, buckets)
    if not buckets:
        return None
    by_name = read.mapping(buckets, "num_buckets")
    if encoding.stored not in by_name:
        return None
    count = read.bucket_count(by_name[encoding.stored])
    if any(column.is_list for column in columns):
        raise call.refuse(encoding.columns, "lists are hashed into buckets")
    hashed = "_".join(encoding.columns)  # whatever name_sep is
    if by_name.get(hashed) != by_name[encoding.stored]:
        raise call.refuse(encoding.columns, "num_buckets differs between columns encoded jointly")
    return count


def _encode(
    call: OperatorCall,
    encoding: _Encoding,
    columns: list[ColumnType],
    buckets: int | None,
    files: Mapping[str, Any],
    dtype: str,
) -> ColumnType:
    # In a single table a column's labels begin where another's end, and its null is the first.
    if dtype in _NARROW and (buckets or 0) > _MOST_BUCKETS:
        raise call.refuse(encoding.columns, f"{dtype} has no room for num_buckets, {buckets}")
    is_alone = not read.flag(call.parameter("single_table"), "single_table")
    path = call.category_file(files.get(encoding.stored))
    kinds = tuple(column.kind.value for column in columns)
    table = call.emitter.table(
        Table(
            path,
            encoding.keys,
            kinds,
            shift=_UNSEEN + (buckets or 1),
            has_shared_sizes=encoding.is_joint,
        )
    )
    operation = Categorify(table, _NULL if is_alone else None, buckets, dtype, encoding.columns)
    return call.emit(operation, columns, columns[0].cast(dtype), encoding.name)


RULES = (
    # It looks at the first value of each column (`_encode`: `df[cl].dropna().iloc[0]`).
    Rule(
        nvtabular("categorify", "Categorify"),
        categorify,
        runs_without_rows=False,
        unnamed=Unnamed.PASSED_ON,
    ),
)
