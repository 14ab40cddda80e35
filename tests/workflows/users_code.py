"""Code of users' for random workflows: functions of columns, of frames, and operators.

What they do depends on all that a function can see of a column: its values and their types, its
name, its index, other rows, the columns beside it; some change it in place.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from nvtabular.ops import Operator

DATE, SPAN, ZONED, CATEGORY, NULLABLE = "datetime", "timedelta", "zoned", "category", "nullable"


@dataclass(frozen=True)
class Function:
    """A function with its text. makes: what comes out, empty for the same that goes in.

    ragged: it makes lists.
    """

    words: str
    call: Callable[..., Any]
    makes: str = ""
    ragged: bool = False


def _zero_above_two(column: Any) -> Any:
    column[column > 2] = 0
    return column


def _first_row_zero(column: Any) -> Any:
    column.iloc[0] = 0
    return column + 1


def _values_changed(column: Any) -> Any:
    column.values[::2] = 1
    return column


def _first_text_changed(column: Any) -> Any:
    column.iloc[0] = "changed"
    return column


def _sorted_in_place(column: Any) -> Any:
    for row in column:
        row.sort()
    return column.map(lambda row: row[0] if len(row) else -1)


def _first_item_in_place(column: Any) -> Any:
    for row in column:
        if len(row):
            row[0] = 1
    return column.map(len)


def _every_second_an_array(column: Any) -> Any:
    return pd.Series([np.array(row) if place % 2 else row for place, row in enumerate(column)])


def _sliced_in_place(column: Any) -> Any:
    for row in column:
        if isinstance(row, list):
            row[:] = row[::-1]
    return column


def _longer(column: Any) -> Any:
    for row in column:
        if isinstance(row, list):
            row.append(len(row))
    return column.map(lambda row: [*row, 0])


def _one_list(column: Any) -> Any:
    row = [1, 2]
    return column.map(lambda _: row)


def _whole_if_none_is_missing(column: Any) -> Any:
    return column.astype("float64" if column.isna().any() else "int64")


def _kind_and_repr(value: Any) -> int:
    return len(repr(value)) + 100 * len(type(value).__name__)


_OTHER_LETTERS = {0: "käse", 1: "日本", 2: None, 3: "ale"}
NUMBERS = [
    Function("c + 1", lambda c: c + 1),
    Function("c * 0.5", lambda c: c * 0.5, "float64"),
    Function("np.sin(2 * np.pi * c / 7)", lambda c: np.sin(2 * np.pi * c / 7), "float64"),
    Function("c.shift(1)", lambda c: c.shift(1), "float64"),
    Function("c.shift(-1).fillna(0)", lambda c: c.shift(-1).fillna(0), "float64"),
    Function("c.rolling(2).sum()", lambda c: c.rolling(2).sum(), "float64"),
    Function("c.cumsum()", lambda c: c.cumsum()),
    Function("c.rank()", lambda c: c.rank(), "float64"),
    Function("c.diff()", lambda c: c.diff(), "float64"),
    Function("grouped count", lambda c: c.groupby(c % 3).transform("count"), "float64"),
    Function("c.astype('float32')", lambda c: c.astype("float32"), "float32"),
    Function("c.fillna(0).astype('int64')", lambda c: c.fillna(0).astype("int64"), "int64"),
    Function("c.astype('float16')", lambda c: c.astype("float16"), "float32"),
    Function("in place: above two is 0", _zero_above_two),
    Function("in place: the first is 0", _first_row_zero),
    Function("in place: values", _values_changed),
    Function("a date", lambda c: pd.to_datetime(c.fillna(0) % 10**9, unit="s"), DATE),
    Function("a date in ns", lambda c: pd.to_datetime(c.fillna(0).astype("int64")), DATE),
    Function("a span", lambda c: pd.to_timedelta(c.fillna(0) % 10**6, unit="s"), SPAN),
    Function("a category", lambda c: c.astype("category"), CATEGORY),
    Function("texts", lambda c: c.astype(str), "string"),
    Function("some texts", lambda c: (c.fillna(0) % 3).map({0: "none", 1: "one"}), "string"),
    Function("other letters", lambda c: (c.fillna(0) % 4).map(_OTHER_LETTERS), "string"),
    Function("texts by a function", lambda c: c.map(lambda v: {1: "é", 2: "b"}.get(v)), "string"),
    Function("nullable", lambda c: c.fillna(0).astype("int64").astype("Int64"), NULLABLE),
    Function("the index", lambda c: c.index.to_series() + len(c.name), "int64"),
    Function("the index's kind", lambda c: c * 0 + len(repr(c.index)), ""),
    Function("the type", lambda c: c * 0 + len(str(c.dtype)), ""),
    Function("each value's kind", lambda c: c.map(_kind_and_repr), "int64"),
    Function("backwards", lambda c: c[::-1]),
    Function("sorted", lambda c: c.sort_values()),
    Function("without missing", lambda c: c.dropna()),
    Function("an array backwards", lambda c: c.to_numpy()[::-1]),
    Function("a list of floats", lambda c: [float(value) for value in c], "float64"),
    Function("whole if none is missing", _whole_if_none_is_missing),
    Function("c.where(c != 2)", lambda c: c.where(c != 2)),
    Function("c.where(c > 0, -1)", lambda c: c.where(c > 0, -1)),
    Function("above two", lambda c: c > 2, "bool"),
    Function("above two as int8", lambda c: (c > 2).astype("int8"), "int8"),
    Function("lists of two", lambda c: c.map(lambda v: [v, v + 1]), "", True),
    Function("one list for all rows", _one_list, "int64", True),
    Function("arrays of two", lambda c: c.map(lambda v: np.array([v, v + 1])), "", True),
    Function("halves", lambda c: c.map(lambda v: [v / 2, v]), "float64", True),
    Function("narrow arrays", lambda c: c.map(lambda v: np.full(2, v, "float32")), "float32", True),
    Function("of any length", lambda c: c.map(lambda v: [7] * int(v % 3 == 1)), "int64", True),
    Function("some are objects", lambda c: c.astype(object), ""),
    Function("the mean", lambda c: c - c.mean(), "float64"),
    Function("the hash of bytes", lambda c: c * 0 + len(c.values.tobytes()) % 97, ""),
]
TEXTS = [
    Function("c.str.len()", lambda c: c.str.len(), "int64"),
    Function("c.str.upper()", lambda c: c.str.upper()),
    Function("c.str[:2]", lambda c: c.str[:2]),
    Function("c + 'x'", lambda c: c + "x"),
    Function("c + 'ü'", lambda c: c + "ü"),
    Function("every second is None", lambda c: c.where(c.index % 2 == 0, None)),
    Function("holds an a", lambda c: c.str.contains("a"), "bool"),
    Function("without ale", lambda c: c.where(c != "ale")),
    Function("filled", lambda c: c.fillna("none")),
    Function("a category", lambda c: c.astype("category"), CATEGORY),
    Function("in place: the first", _first_text_changed),
    Function("duplicated", lambda c: c.duplicated().astype("int32"), "int32"),
    Function("each value's kind", lambda c: c.map(_kind_and_repr), "int64"),
    Function("letters", lambda c: c.map(lambda text: [len(text), 1]), "int64", True),
    Function("the text before", lambda c: c.shift(1)),
    Function("string dtype", lambda c: c.astype("string"), NULLABLE),
    Function("pieces", lambda c: c.str.split("a"), "string", True),
]
LISTS = [
    Function("lengths", lambda c: c.map(len), "int64"),
    Function("backwards", lambda c: c.map(lambda row: row[::-1]), "", True),
    Function("each row's kind", lambda c: c.map(_kind_and_repr), "int64"),
    Function("the first", lambda c: c.map(lambda row: row[0] if len(row) else 0)),
    Function(
        "the first's kind",
        lambda c: c.map(lambda r: _kind_and_repr(r[0] if len(r) else 0)),
        "int64",
    ),
    Function("c.str[-1]", lambda c: c.str[-1]),
    Function("in place: sorted", _sorted_in_place),
    Function("in place: the first", _first_item_in_place, "int64"),
    Function("in place: longer", _longer, "", True),
    Function("as they are", lambda c: c, "", True),
    Function("one more", lambda c: c.map(lambda row: [*row, 1]), "", True),
    Function("c.map(list)", lambda c: c.map(list), "", True),
    Function("c.apply(sorted)", lambda c: c.apply(sorted), "", True),
    Function("c.map(np.unique)", lambda c: c.map(np.unique), "", True),
    Function("arrays", lambda c: c.map(np.array), "", True),
    Function("c.map(tuple)", lambda c: c.map(tuple), "", True),
    Function("the first two", lambda c: c.map(lambda row: row[:2]), "", True),
    Function("without the first", lambda c: c.map(lambda row: row[1:]), "", True),
    Function("lists and arrays", _every_second_an_array, "", True),
    Function("some are missing", lambda c: c.map(lambda row: [*row, None]), "", True),
    Function("lists of a series", lambda c: pd.Series([list(row) for row in c]), "", True),
    Function("sliced in place", _sliced_in_place, "", True),
    Function(
        "the row before",
        lambda c: c.shift(1).map(lambda r: 0 if isinstance(r, float) else len(r)),
        "int64",
    ),
]
OBJECTS = {
    DATE: [
        Function("weekday", lambda c: c.dt.weekday, "int64"),
        Function("hour", lambda c: c.dt.hour, "int64"),
        Function("as int64", lambda c: c.astype("int64"), "int64"),
        Function("days", lambda c: (c - c.min()).dt.days + 1, "int64"),
        Function("strftime", lambda c: c.dt.strftime("%a"), "string"),
        Function("the date before", lambda c: c.shift(1)),
        Function("since the date before", lambda c: c.diff(), SPAN),
        Function("the day", lambda c: c.dt.normalize()),
        Function("in UTC", lambda c: c.dt.tz_localize("UTC"), ZONED),
        Function("each value's kind", lambda c: c.map(_kind_and_repr), "int64"),
        Function("dates", lambda c: c.dt.date.map(str), "string"),
    ],
    SPAN: [
        Function("seconds", lambda c: c.dt.total_seconds(), "float64"),
        Function("days", lambda c: c.dt.days, "int64"),
        Function("each value's kind", lambda c: c.map(_kind_and_repr), "int64"),
    ],
    ZONED: [
        Function("hour in Berlin", lambda c: c.dt.tz_convert("Europe/Berlin").dt.hour, "int64"),
        Function("the one before", lambda c: c.shift(1)),
    ],
    CATEGORY: [
        Function("codes", lambda c: c.cat.codes, "int8"),
        Function("texts", lambda c: c.astype(str), "string"),
        Function("how many", lambda c: c.cat.codes * 0 + len(c.cat.categories), "int8"),
    ],
    NULLABLE: [
        Function("the type", lambda c: pd.Series(len(str(c.dtype)), index=c.index), "int64"),
        Function("missing", lambda c: c.isna(), "bool"),
        Function("the one before", lambda c: c.shift(1)),
    ],
    "bool": [
        Function("~c", lambda c: ~c, "bool"),
        Function("as int8", lambda c: c.astype("int8"), "int8"),
        Function("the type", lambda c: c * 0 + len(str(c.dtype)), "int64"),
        Function("cumsum", lambda c: c.cumsum(), "int64"),
    ],
}


def _first_column_changed(column: Any, frame: Any) -> Any:
    first = frame[min(frame.columns)]
    if first.dtype != object:
        first.iloc[0] = 0
    return column


def _column_added(column: Any, frame: Any) -> Any:
    frame["added"] = 1
    return column * 0 + len(frame.columns)


#: Of a column and its frame.
BESIDE = [
    Function("c * 0 + df.shape[1]", lambda c, df: c * 0 + df.shape[1], "", False),
    Function("names", lambda c, df: c * 0 + sum(map(len, df.columns)), "", False),
    Function("the numbers' sum", lambda c, df: df.sum(axis=1, numeric_only=True) + c, "float64"),
    Function("types", lambda c, df: c * 0 + len(repr(sorted(map(str, df.dtypes)))), ""),
    Function("in place: the first column", _first_column_changed),
    Function("in place: a column more", _column_added),
    Function("the index", lambda c, df: df.index.to_series() + len(c.name), "int64"),
]

#: The same, of a frame whose columns are in a certain order: NVTabular joins columns by sets.
IN_ORDER = Function(
    "the columns' order",
    lambda c, df: pd.Series(zlib.crc32(",".join(df.columns).encode()) % 1000, index=c.index),
    "int64",
)


class ByModule(Operator):  # type: ignore[misc]
    """An operator of a module."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def transform(self, col_selector: Any, df: Any) -> Any:
        """Differences to the row before, as it stands in the frame."""
        made = pd.DataFrame()
        for name in col_selector.names:
            made[name] = df[name].diff().fillna(self.step).astype("float64")
        return made

    @property
    def output_dtype(self) -> Any:
        return np.float64


def by_value(step: int, words: str, dependency: str = "") -> Any:
    """An operator whose class is in the pickle itself. dependency: a column that it reads, too."""

    class ByValue(Operator):  # type: ignore[misc]
        """Some operators as people write them."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

        @property
        def output_dtype(self) -> Any:
            return np.float64

        def transform(self, col_selector: Any, df: Any) -> Any:
            if words == "new columns":
                made = {f"{n}_new": (df[n] - df[n].min()) * step for n in col_selector.names}
                return pd.DataFrame(made).astype("float64")
            if words in WHOLE_FRAME:
                for name in col_selector.names:
                    days = (df[name] - df[dependency or name].min()) * step
                    df[f"{name}_new"] = days.astype("float64")
                    if words == "whole frame, changed":
                        df[name] = step
                    if words == "whole frame, in place":
                        df[name].values[:] = step
                if words == "whole frame, more":
                    df[f"more{step}"] = "more"
                return df[[*df.columns[::-1]]] if words == "whole frame, backwards" else df
            if words == "whole frame, own names":
                for name in col_selector.names:
                    df[name] = (df[name] + step).astype("float64")
                return df
            if words == "into the frame":
                for name in col_selector.names:
                    df[name] = df[name].astype("float64") + step
                return df[col_selector.names]
            if words == "in place":
                for name in col_selector.names:
                    df[name].values[:] = step
                return df[col_selector.names].astype("float64")
            frame = df[col_selector.names].astype("float64")
            return frame.sort_values(col_selector.names[0]) if words == "sorted" else frame.iloc[1:]

        def column_mapping(self, col_selector: Any) -> Any:
            return {f"{name}{new_ending(words)}": [name] for name in col_selector.names}

        @property
        def dependencies(self) -> Any:
            return [dependency] if dependency else None

    return ByValue(step)


def new_ending(words: str) -> str:
    """What by_value's columns are called beyond those that they are made of."""
    return "_new" if words in ("new columns", *WHOLE_FRAME) else ""


#: New columns beside all that was there.
WHOLE_FRAME = (
    "whole frame",
    "whole frame, changed",
    "whole frame, in place",
    "whole frame, more",
    "whole frame, backwards",
)
#: What by_value takes; what stands here twice is drawn more often.
OWN = (
    *WHOLE_FRAME,
    "whole frame, own names",
    "whole frame, own names",
    "new columns",
    "new columns",
    "into the frame",
    "into the frame",
    "in place",
    "sorted",
    "less",
)

#: Which rows of a frame stay, by one of its columns of numbers.
FILTERS: list[tuple[str, Callable[[str, int], Callable[[Any], Any]]]] = [
    ("df[{name}] >= {limit}", lambda name, limit: lambda df: df[name] >= limit),
    ("df[df[{name}] != {limit}]", lambda name, limit: lambda df: df[df[name] != limit]),
    ("df.drop_duplicates({name})", lambda name, limit: lambda df: df.drop_duplicates(name)),
    ("df.head({limit} + 1)", lambda name, limit: lambda df: df.head(limit + 1)),
    ("df.sort_values({name})", lambda name, limit: lambda df: df.sort_values(name)),
    ("df[{name}].notna()", lambda name, limit: lambda df: df[name].notna()),
    ("even rows", lambda name, limit: lambda df: df.index % 2 == 0),
    ("df[::2]", lambda name, limit: lambda df: df[::2]),
]

#: By what a column holds.
FUNCTIONS = {"numbers": NUMBERS, "texts": TEXTS, "lists": LISTS, **OBJECTS}
