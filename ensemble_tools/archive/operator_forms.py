"""The attributes that NVTabular's operators have once they are loaded from graph.json, by class.

NVTabular's graph_serializer (commit 08e0633) is the source: which operators there are, and what an
operator has of its parameters and its fitted state. Nothing is imported: functions stay names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ensemble_tools.archive.inert_pickle import Inert, stand_in
from ensemble_tools.archive.json_fields import NONE, NUMBER, REQUIRED, Fields, name_kind
from ensemble_tools.errors import quoted

NODE, _SELECTOR = "merlin.dag.node.Node", "merlin.dag.selector.ColumnSelector"
SUBGRAPH = "merlin.dag.ops.subgraph.Subgraph"
#: A function that is named, and not pickled; its state says where it is.
FUNCTION = "(named).function"
_BUCKETIZE = "nvtabular.ops.bucketize"
#: ListSlice's end where none was given.
_OPEN_END = 2**63 - 1
#: How numpy writes a type (`<f4`), and what str() makes of its class.
_CODED = re.compile(r"[<|]?([iuf])([1248])")
_CLASS = re.compile(r"<class '(?:numpy\.)?(\w+)'>")
_FAMILIES = {"i": "int", "u": "uint", "f": "float"}


@dataclass(frozen=True)
class SavedOperator:
    """An operator as it is saved."""

    params: Fields
    state: Fields
    #: The columns that are selected for the operator.
    columns: list[str]
    #: The directory of the whole workflow.
    workflow: Path
    #: The directory of the files that the operator was fitted into.
    artifacts: Path


@cache
def _class(qualified_name: str) -> type[Inert]:
    return stand_in(qualified_name)


def make(qualified_name: str, **state: Any) -> Inert:
    """An inert object for an instance of the class, with these attributes."""
    inert: Inert = _class(qualified_name)()
    inert.state = state
    return inert


def read_selector(fields: Fields, name: str) -> Inert | None:
    """The selector in the field. NVTabular keeps no groups of columns, and reads no tags again."""
    if not fields.field(name, dict, NONE, default=None):
        return None
    return select(fields.inner(name).names("names"))


def select(names: list[str]) -> Inert:
    """A selector of these columns."""
    return make(_SELECTOR, _names=names, _tags=[], subgroups=[])


#: An operator as it is saved, and an attribute's name -> its value.
_Reader = Callable[[SavedOperator, str], Any]


def _form(**attributes: _Reader) -> Callable[[SavedOperator], dict[str, Any]]:
    """The reader of all attributes of an operator."""
    return lambda saved: {name: read(saved, name) for name, read in attributes.items()}


def _field(*types: type, default: Any = REQUIRED) -> _Reader:
    return lambda saved, name: saved.params.field(name, *types, default=default)


#: What operators ask for its truth alone.
_FLAG = _field(bool, int, NONE, default=False)
_SCALAR = (str, int, float, bool, NONE)


def _floats(saved: SavedOperator, name: str) -> dict[str, float]:
    return saved.state.floats(name)


def _type_name(saved: SavedOperator, name: str) -> str | None:
    """A numpy type by its name, as far as it is one that operators make.

    NVTabular writes `<class 'numpy.float32'>` for a class of numpy's, and cannot read that again.
    """
    if saved.params.field(name, dict, NONE, default=None) is None:
        return None
    text: str = saved.params.inner(name).field("name", str)
    if coded := _CODED.fullmatch(text):
        return f"{_FAMILIES[coded[1]]}{8 * int(coded[2])}"
    named = _CLASS.fullmatch(text)
    return named[1] if named else text


def _function(saved: SavedOperator, name: str) -> Inert | None:
    """A function by its module and its name in it; not imported."""
    if saved.params.field(name, dict, NONE, default=None) is None:
        return None
    function = saved.params.inner(name)
    for part in ("module", "qualname"):
        text = function.field(part, str)
        if not all(word.isidentifier() for word in text.split(".")):
            expected = "expected names with dots between them"
            raise function.refuse(part, f"is {quoted(text)}, {expected}")
    return make(
        FUNCTION,
        __module__=function.field("module", str),
        __qualname__=function.field("qualname", str),
    )


def _called(saved: SavedOperator, name: str) -> Inert:
    function = _function(saved, name)
    if function is None:
        raise saved.params.refuse(name, "is null, expected a function's module and qualname")
    return function


def _files(saved: SavedOperator, name: str) -> dict[Any, str]:
    """The files that the operator was fitted into, by the columns that they are of."""
    files: dict[Any, str] = {}
    for record in saved.state.list_objects(name, f"{name} at place"):
        key = record.names("key")
        if not key:
            raise record.refuse("key", "is empty")
        path = record.field("path", str)
        # Categorify's vocabs lie beside the node's directory: `../node_3categories/`, as
        # workflow_files.find_category_path says.
        relative_path = os.path.normpath(saved.artifacts.relative_to(saved.workflow) / path)
        if not relative_path.startswith("artifacts/") or not relative_path.isprintable():
            raise record.refuse(
                "path", f"is {quoted(path)}, which is not among the workflow's artifacts"
            )
        files[tuple(key) if len(key) > 1 else key[0]] = str(saved.workflow / relative_path)
    return files


def _files_of_columns(saved: SavedOperator, name: str) -> dict[Any, str]:
    return _check_groups(saved, name, saved.columns, _files(saved, name))


def _categories(saved: SavedOperator, name: str) -> dict[Any, str]:
    """Columns that are encoded jointly have one file, by the name that they are stored under."""
    is_joint = _ENCODE_TYPE(saved, "encode_type") == "joint"
    storage = _storage_names(saved, "storage_name") if is_joint else {}
    stored = [storage.get(column, column) for column in saved.columns]
    return _check_groups(saved, name, stored, _files(saved, name))


def _check_groups(
    saved: SavedOperator, name: str, keys: Iterable[str], files: dict[Any, str]
) -> dict[Any, str]:
    """The files. Columns that were combined have none each; the form has lost which they were."""
    for key in keys:
        if key not in files:
            raise saved.state.refuse(
                name,
                f"has nothing for {quoted(key)}: columns that are combined are saved as "
                "columns alone, and NVTabular fails on each request; export it with NVTabular "
                "23.08, as a pickle",
            )
    return files


def _storage_names(saved: SavedOperator, name: str) -> dict[str, str]:
    names: dict[str, Any] = saved.state.field(name, dict, default={})
    for column, stored in names.items():
        if type(stored) is not str:
            raise saved.state.refuse(name, f"has {name_kind(stored)} for {quoted(column)}")
    return names


def _out_path(saved: SavedOperator, _: str) -> str:
    return str(saved.workflow)


def _upper_bound(saved: SavedOperator, name: str) -> Any:
    bound = saved.params.field(name, *_SCALAR, default=None)
    if bound is None and saved.params.field("min_value", *_SCALAR, default=None) is None:
        raise saved.params.refuse("min_value", f"and {name} are null, expected one of them")
    return bound


def _boundaries(saved: SavedOperator, name: str) -> Inert:
    """They are in a function, as NVTabular keeps them."""
    closure = make("cell")
    closure.args = (saved.params.field(name, list, dict),)
    return make(
        FUNCTION,
        __module__=_BUCKETIZE,
        __qualname__="Bucketize.__init__.<locals>.<lambda>",
        __closure__=(closure,),
    )


def _list_slice(saved: SavedOperator) -> dict[str, Any]:
    start = saved.params.field("start", int)
    end = saved.params.field("end", int, NONE, default=None)
    if start > 0 and end is None:
        start, end = 0, start
    end = _OPEN_END if end is None else end
    length = -(start if end > 0 else start - end) if start < 0 else end - start
    padding = _form(pad=_FLAG, pad_value=_field(*_SCALAR, default=0.0))
    return {"start": start, "end": end, "max_elements": length, **padding(saved)}


def _target(saved: SavedOperator, _: str) -> Inert:
    columns = select(saved.params.names("target_cols"))
    return make(NODE, output_schema=None, _selector=columns)


def _out_col(saved: SavedOperator, name: str) -> Any:
    named = saved.params.field(name, str, list, NONE, default=None)
    return [named] if isinstance(named, str) else named


_ENCODE_TYPE = _field(str, default="joint")
_NAME_SEP = _field(str, default="_")
_OPTIONAL_NAME = _field(str, NONE, default=None)
_NOTHING = _form()
_CALL = _form(f=_called)
#: Classes that have a form -> what one of them has when it is loaded.
FORMS: dict[str, Callable[[SavedOperator], dict[str, Any]]] = {
    "merlin.dag.ops.selection.SelectionOp": _form(
        selector=lambda saved, name: read_selector(saved.params, name)
    ),
    "merlin.dag.ops.concat_columns.ConcatColumns": _NOTHING,
    "merlin.dag.ops.udf.UDF": _CALL,
    SUBGRAPH: _form(loop_until=_function),
    "nvtabular.ops.fill.FillMissing": _form(
        fill_val=_field(*_SCALAR, dict, default=0), add_binary_cols=_FLAG
    ),
    "nvtabular.ops.fill.FillMedian": _form(add_binary_cols=_FLAG, medians=_floats),
    "nvtabular.ops.normalize.Normalize": _form(out_dtype=_type_name, means=_floats, stds=_floats),
    "nvtabular.ops.normalize.NormalizeMinMax": _form(
        out_dtype=_type_name, mins=_floats, maxs=_floats
    ),
    "nvtabular.ops.clip.Clip": _form(
        min_value=_field(*_SCALAR, default=None), max_value=_upper_bound
    ),
    "nvtabular.ops.logop.LogOp": _NOTHING,
    "nvtabular.ops.hash_bucket.HashBucket": _form(num_buckets=_field(int, dict)),
    f"{_BUCKETIZE}.Bucketize": _form(use_digitize=lambda saved, name: True, boundaries=_boundaries),
    "nvtabular.ops.list_slice.ListSlice": _list_slice,
    "nvtabular.ops.dropna.Dropna": _NOTHING,
    "nvtabular.ops.add_metadata.AddMetadata": _NOTHING,
    "nvtabular.ops.rename.Rename": _form(f=_function, postfix=_OPTIONAL_NAME, name=_OPTIONAL_NAME),
    "nvtabular.ops.lambdaop.LambdaOp": _CALL,
    "nvtabular.ops.filter.Filter": _CALL,
    "nvtabular.ops.categorify.Categorify": _form(
        categories=_categories,
        storage_name=_storage_names,
        out_path=_out_path,
        encode_type=_ENCODE_TYPE,
        dtype=_type_name,
        cat_cache=_field(str, default="host"),
        name_sep=_NAME_SEP,
        search_sorted=_FLAG,
        num_buckets=_field(int, dict, NONE, default=None),
        single_table=_FLAG,
        split_out=_field(int, dict, NONE, default=1),
    ),
    "nvtabular.ops.target_encoding.TargetEncoding": _form(
        stats=_files_of_columns,
        means=_floats,
        out_path=_out_path,
        target=_target,
        target_mean=_field(dict, NONE, default=None),
        kfold=lambda saved, name: saved.params.field(name, int, NONE, default=3) or 3,
        fold_seed=_field(int, NONE, default=42),
        p_smooth=_field(*NUMBER, default=20),
        out_col=_out_col,
        out_dtype=_type_name,
        name_sep=_NAME_SEP,
        drop_folds=_field(bool, int, NONE, default=True),
    ),
    "nvtabular.ops.join_groupby.JoinGroupby": _form(
        categories=_files_of_columns,  # whatever their storage_name is
        storage_name=_storage_names,
        out_path=_out_path,
        stats=lambda saved, name: tuple(saved.params.names(name)),
        name_sep=_NAME_SEP,
    ),
}
