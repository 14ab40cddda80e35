"""Operators that run on frames of pandas, in the place of NVTabular's of the same names.

A workflow's pickle names NVTabular's classes. Where a program needs no more of them than functions
of the user's, these classes are made in their place, and NVTabular, which takes seconds and some
300 MB, is not imported. Each does with a frame what NVTabular 23.08 does with it on the CPU.

NeedsNVTabular says that user's code has asked for what is not here. It is no Exception: code that
handles those must not take it for one of its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any, ClassVar, TypeVar

import numpy as np
import pandas as pd

_C = TypeVar("_C")
#: Packages that come with NVTabular. Nothing of them is imported.
PACKAGES = ("nvtabular", "merlin", "dask", "distributed", "cudf", "dask_cudf", "cupy", "rmm")


class NeedsNVTabular(BaseException):
    """NVTabular itself must run the workflow; the message says what asked for it."""

    #: The message of the last one: an `except:` without a class catches the exception, and so
    #: does a `finally` that leaves a function or a loop.
    last: ClassVar[str] = ""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        NeedsNVTabular.last = why


def is_package(module: str) -> bool:
    """Whether a module is of these packages."""
    return module.partition(".")[0] in PACKAGES


def imported_packages() -> list[str]:
    """The packages of which something has been imported."""
    return [name for name in PACKAGES if name in sys.modules]


class _Lacking:
    """Stands for an attribute that NVTabular's class has, and the one here does not."""

    def __init__(self, message: str) -> None:
        self._words = message

    def __get__(self, instance: Any, owner: type) -> Any:
        raise NeedsNVTabular(f"an operator asks for {self._words}")


def _without(*names: str) -> Callable[[type[_C]], type[_C]]:
    """A class without these attributes of NVTabular's."""

    def without(cls: type[_C]) -> type[_C]:
        for name in names:
            setattr(cls, name, _Lacking(f"{cls.__name__}.{name}"))
        return cls

    return without


@_without("__add__", "__radd__", "__rshift__", "resolve")
class ColumnSelector:
    """merlin.dag.ColumnSelector: the columns that an operator is applied to."""

    def __init__(self, names: Any = None, subgroups: Any = None, tags: Any = None) -> None:
        self._all = isinstance(names, str) and names == "*"
        nested_names = [] if names is None or self._all else names
        self._tags = [] if tags is None or self._all else tags
        self.subgroups = [] if subgroups is None or self._all else subgroups
        if isinstance(nested_names, str):
            nested_names = [nested_names]
        if isinstance(self.subgroups, ColumnSelector):
            self.subgroups = [self.subgroups]
        self._names = []
        for name in nested_names:
            if isinstance(name, str):
                self._names.append(name)
            else:
                group = name if isinstance(name, ColumnSelector) else ColumnSelector(name)
                self.subgroups.append(group)
        self._nested_check()

    def _nested_check(self, nests: int = 0) -> None:
        if nests > 1:
            raise AttributeError("Too many nested subgroups")
        for group in self.subgroups:
            group._nested_check(nests + 1)

    @property
    def all(self) -> bool:
        return self._all

    @property
    def tags(self) -> list[Any]:
        return list(dict.fromkeys(self._tags))

    @property
    def names(self) -> list[str]:
        nested = [name for group in self.subgroups for name in group.names]
        return list(dict.fromkeys((*self._names, *nested)))

    @property
    def grouped_names(self) -> list[Any]:
        groups = [tuple(group.names) for group in self.subgroups]
        return list(dict.fromkeys((*self._names, *groups)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ColumnSelector):
            return False
        alike = other._names == self._names and other.subgroups == self.subgroups
        return (other.all and self.all) or alike

    def __bool__(self) -> bool:
        return bool(self.all or self._names or self.subgroups or self.tags)

    def filter_columns(self, other_selector: ColumnSelector) -> ColumnSelector:
        """Its columns that are not in the other selector; the other one where this is `*`."""
        if self.all:
            return other_selector
        taken = other_selector._names
        groups = [
            group
            for group in self.subgroups
            if group not in other_selector.subgroups
            and all(name not in taken for name in group.names)
        ]
        return ColumnSelector([name for name in self._names if name not in taken], groups)


@_without(
    *("compute_selector", "compute_input_schema", "compute_output_schema", "validate_schemas"),
    *("compute_column_schema", "_compute_column_schema", "_compute_dtype", "_compute_tags"),
    *("_compute_properties", "_compute_shape", "_validate_matching_cols", "__rrshift__"),
    *("create_node", "supports", "supported_formats", "export"),
)
class Operator:
    """merlin.dag.Operator, which operators of the user's derive from."""

    def transform(self, col_selector: Any, transformable: Any) -> Any:
        """The frame that the operator puts out."""
        return transformable

    def column_mapping(self, col_selector: Any) -> dict[str, list[str]]:
        """Each column that it puts out, with those that it is made of."""
        return {name: [name] for name in col_selector.names}

    def output_column_names(self, col_selector: Any) -> ColumnSelector:
        """The columns that it puts out."""
        return ColumnSelector(list(self.column_mapping(col_selector)))

    @property
    def dependencies(self) -> Any:
        return []

    @property
    def dynamic_dtypes(self) -> bool:
        return False

    @property
    def is_subgraph(self) -> bool:
        return False

    @property
    def output_dtype(self) -> Any:
        return None

    @property
    def output_tags(self) -> Any:
        return []

    @property
    def output_properties(self) -> Any:
        return {}

    @property
    def label(self) -> str:
        return type(self).__name__

    @property
    def export_name(self) -> str:
        return type(self).__name__.lower()

    def load_artifacts(self, artifact_path: Any = None) -> None:
        """Nothing, as in NVTabular."""

    def save_artifacts(self, artifact_path: Any = None) -> None:
        """Nothing, as in NVTabular."""

    def _get_columns(self, df: Any, selector: Any) -> Any:
        if isinstance(df, dict):
            return {name: df[name] for name in selector.names}
        return df[selector.names]


@_without("fit", "fit_finalize", "clear")
class StatOperator(Operator):
    """merlin.dag.ops.stat_operator.StatOperator, which operators of the user's that are fitted
    derive from."""

    fitted = False

    def set_storage_path(self, new_path: Any, copy: bool = False) -> None:
        """Nothing, as in NVTabular."""


def apply(operator: Operator, selection: Any, frame: Any) -> Any:
    """Its result for a frame. Its selector is a new one each time, as NVTabular's is."""
    return operator.transform(ColumnSelector(selection), frame)


@_without("label", "column_mapping", "_remove_deps")
class UDF(Operator):
    """merlin.dag.ops.udf.UDF, which NVTabular calls LambdaOp."""

    def __init__(
        self,
        f: Any,
        dependency: Any = None,
        label: Any = None,
        dtype: Any = None,
        tags: Any = None,
        properties: Any = None,
    ) -> None:
        if f is None:
            raise ValueError("UDF requires a function to be supplied, f can not be `None`")
        self.f = f
        self._param_count = len(signature(f).parameters)
        if self._param_count not in (1, 2):
            raise ValueError("UDF must accept either one or two parameters")
        self.dependency = dependency
        self._label = label
        self._dtype, self._tags, self._properties = dtype, tags or [], properties or {}

    def transform(self, col_selector: Any, transformable: Any) -> Any:
        """Each column by the function, in a new frame."""
        columns = {}
        for col in col_selector.names:
            series = transformable[col]
            columns[col] = (
                self.f(series, transformable) if self._param_count == 2 else self.f(series)
            )
        return pd.DataFrame(columns)

    @property
    def dependencies(self) -> Any:
        return self.dependency

    @property
    def dynamic_dtypes(self) -> bool:
        return True

    @property
    def output_dtype(self) -> Any:
        return self._dtype

    @property
    def output_tags(self) -> Any:
        return self._tags

    @property
    def output_properties(self) -> Any:
        return self._properties


class Filter(Operator):
    """nvtabular.ops.Filter."""

    def __init__(self, f: Any) -> None:
        if f is None:
            raise ValueError("f cannot be None. Filter op applies f to dataframe")
        self.f = f

    def transform(self, col_selector: Any, df: Any) -> Any:
        """The rows that the function leaves, or has marked."""
        answer = self.f(df)
        if isinstance(answer, pd.DataFrame):
            left = answer
        elif isinstance(answer, pd.Series) and answer.dtype == bool:
            left = df[answer]
        else:
            raise ValueError(f"Invalid output from filter op: f{answer.__class__}")
        left.reset_index(drop=True, inplace=True)
        return left


@_without("column_mapping", "dependencies")
class _FittedOperator(Operator):
    """An operator that NVTabular has fitted: only what it does with a frame is here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NeedsNVTabular(f"an operator asks for {type(self).__name__}.{name}")


class Dropna(_FittedOperator):
    """nvtabular.ops.Dropna."""

    def transform(self, col_selector: Any, df: Any) -> Any:
        """The rows that miss nothing."""
        left = df.dropna(subset=col_selector.names or None)
        left.reset_index(drop=True, inplace=True)
        return left


class FillMissing(_FittedOperator):
    """nvtabular.ops.FillMissing."""

    def __init__(self, fill_val: Any = 0, add_binary_cols: bool = False) -> None:
        self.fill_val, self.add_binary_cols = fill_val, add_binary_cols

    def transform(self, col_selector: Any, df: Any) -> Any:
        """The frame itself, filled."""
        names = col_selector.names
        if not self.add_binary_cols:
            df[names] = df[names].fillna(self.fill_val)
            return df
        for name in names:
            df[f"{name}_filled"] = df[name].isna()
            df[name] = df[name].fillna(self.fill_val)
        return df


class Groupby(_FittedOperator):
    """nvtabular.ops.Groupby, as it was fitted."""

    groupby_cols: list[str]
    sort_cols: list[str]
    ascending: Any
    list_aggs: Mapping[str, list[str]]
    conv_aggs: Mapping[str, list[Any]]
    name_sep: str

    def __init__(self, *_: Any, **__: Any) -> None:
        raise NeedsNVTabular("a Groupby is made")

    def transform(self, col_selector: Any, df: Any) -> Any:
        """The keys, the aggregations, then what is the first or last of a list."""
        if self.sort_cols:
            df = df.sort_values(self.sort_cols, ascending=self.ascending, ignore_index=True)
        if not len(df):
            raise NeedsNVTabular("Groupby of no rows")  # it asks Dask for rows that are made up
        chosen = [name for name in col_selector.names if name not in self.groupby_cols]
        lists, aggregations = _aggregations(self.list_aggs, chosen), self._conventional(chosen)
        read = list({*self.groupby_cols, *lists, *aggregations})
        groups = df[read].groupby(self.groupby_cols).agg(aggregations).reset_index()
        groups.columns = [
            self.name_sep.join([part for part in name if part != ""])
            for name in groups.columns.to_flat_index()
        ]
        for name, kinds in lists.items():
            self._take_ends(groups, name, kinds)
        self._cast(groups)
        return groups

    def _conventional(self, chosen: list[str]) -> dict[str, list[Any]]:
        return _aggregations(self.conv_aggs, chosen)

    def _take_ends(self, groups: Any, name: str, kinds: list[str]) -> None:
        """First and last values are those of lists, which go again unless they are wanted."""
        lists = f"{name}{self.name_sep}list"
        for kind in kinds:
            if kind in ("first", "last"):
                index = 0 if (kind == "first") == bool(self.ascending) else -1
                groups[f"{name}{self.name_sep}{kind}"] = groups[lists].apply(
                    lambda row, index=index: row[index]
                )
        if "list" not in kinds:
            groups.drop(columns=[lists], inplace=True)

    def _cast(self, groups: Any) -> None:
        """Cast by columns' names, whose separator is taken for a regular expression."""
        for name in groups.columns:
            if re.search(f"{self.name_sep}(count|nunique)$", name):
                groups[name] = groups[name].astype(np.int32)
            elif re.search(f"{self.name_sep}(mean|median|std|var|sum)$", name):
                groups[name] = groups[name].astype(np.float32)


def _aggregations(given: Mapping[str, list[Any]], chosen: list[str]) -> dict[str, list[Any]]:
    """The aggregations by column; `__all__` is each that is chosen and is no key."""
    if "__all__" in given:
        return dict.fromkeys(chosen, given["__all__"])
    return {name: kinds for name, kinds in given.items() if name in chosen}


class ListSlice(_FittedOperator):
    """nvtabular.ops.ListSlice."""

    start: int
    end: int
    max_elements: int
    pad: Any
    pad_value: Any

    def __init__(self, start: int, end: Any = None, pad: Any = False, pad_value: Any = 0.0) -> None:
        if end is None and start > 0:
            start, end = 0, start
        self.start, self.pad, self.pad_value = start, pad, pad_value
        self.end = np.iinfo(np.int64).max if end is None else end
        if start >= 0:
            self.max_elements = self.end - start
        else:
            self.max_elements = -start if self.end > 0 else self.end - start

    def transform(self, col_selector: Any, df: Any) -> Any:
        """A part of each list, in a new frame; arrays are not filled up."""
        sliced = pd.DataFrame()
        for name in col_selector.names:
            rows = [row[self.start : self.end] for row in df[name]]
            if self.pad:
                for row in rows:
                    self._fill_up(row)
            sliced[name] = rows
        return sliced

    def _fill_up(self, row: Any) -> None:
        if len(row) < self.max_elements:
            padding = [self.pad_value] * (self.max_elements - len(row))
            if isinstance(row, np.ndarray):
                np.append(row, padding)  # a copy, which may fail
            else:
                row.extend(padding)


#: Where NVTabular has them.
CLASSES: dict[tuple[str, str], type] = {
    ("merlin.dag.selector", "ColumnSelector"): ColumnSelector,
    ("merlin.dag.operator", "Operator"): Operator,
    ("merlin.dag.ops.stat_operator", "StatOperator"): StatOperator,
    ("merlin.dag.ops.udf", "UDF"): UDF,
    ("nvtabular.ops.dropna", "Dropna"): Dropna,
    ("nvtabular.ops.fill", "FillMissing"): FillMissing,
    ("nvtabular.ops.filter", "Filter"): Filter,
    ("nvtabular.ops.groupby", "Groupby"): Groupby,
    ("nvtabular.ops.list_slice", "ListSlice"): ListSlice,
}
#: What operators of the user's may derive from.
BASES = (Operator, StatOperator, UDF, Filter)
for (_module, _name), _class in CLASSES.items():
    _class.__module__, _class.__qualname__ = _module, _name
