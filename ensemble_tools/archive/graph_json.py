"""graph.json -> the objects that the workflow's pickle would hold, as data.

NVTabular saves a workflow as graph.json and files beside it from commit 08e0633 (March 2026) on,
and no longer as a pickle. Its graph_serializer is the source of all forms here: which operators
there are, and what an operator has once it is loaded from its parameters and its fitted state. The
objects are stand-ins (Inert), as those of a pickle are, so whoever reads a graph need not know
which of both it was. Nothing is imported: functions stay names.

NVTabular alone writes these files. What it would not read, or has not written so, is told with the
node and the field.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from ensemble_tools.archive.files import read_bounded
from ensemble_tools.archive.inert_pickle import Inert, Unpicklable, stand_in
from ensemble_tools.archive.nvtabular_release import list_attributes
from ensemble_tools.errors import quoted, shortened

#: NVTabular writes and reads this one (graph_serializer.deserialize_graph).
FORMAT_VERSION = 1
#: A thousand columns through thirty operators are 40 MB, as NVTabular indents them.
MAX_BYTES = 64 * 1024 * 1024
#: Commas, and objects and lists: what parsing takes, in time and memory, is by them. Other threads
#: wait meanwhile, half a second at most. Those 40 MB have 840,000 and 400,000 of them.
MAX_ITEMS, MAX_CONTAINERS = 1_000_000, 500_000
#: Subgraphs within each other.
MAX_DEPTH = 20
#: Nodes of a circle that a message names.
_SHOWN = 10
#: A name, or a path of an artifact.
MAX_TEXT = 4096

_NODE, _SELECTOR = "merlin.dag.node.Node", "merlin.dag.selector.ColumnSelector"
_SUBGRAPH = "merlin.dag.ops.subgraph.Subgraph"
#: A function that is named, and not pickled; its state says where it is.
FUNCTION = "(named).function"
_BUCKETIZE = "nvtabular.ops.bucketize"
#: ListSlice's end where none was given.
_OPEN_END = 2**63 - 1
#: How numpy writes a type (`<f4`), and what str() makes of its class.
_CODED = re.compile(r"[<|]?([iuf])([1248])")
_CLASS = re.compile(r"<class '(?:numpy\.)?(\w+)'>")
_FAMILIES = {"i": "int", "u": "uint", "f": "float"}
#: Parameters of a function's operator that are about schemas, which are saved themselves.
_OF_SCHEMAS = {"dtype", "tags", "properties"}
#: What a field may hold, in words.
_WORDS = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict: "an object",
    list: "a list",
    type(None): "null",
}
_NUMBER = (int, float)
_NONE = type(None)
_REQUIRED = object()


class NotAWorkflow(Unpicklable):
    """It is not what NVTabular writes; the message says what was found, and where."""


def read_graph_json(path: Path) -> Inert | None:
    """The workflow as a stand-in, None when there is no such file.

    Raises NotAWorkflow, and as read_bounded does. Paths of artifacts are those in this directory.
    """
    data = read_bounded(path, MAX_BYTES)
    if data is None:
        return None
    graph = _Fields(_parse(data), "the file")
    version = graph.field("format_version", int, default=FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise NotAWorkflow(f"its format_version is {version}, and {FORMAT_VERSION} is known")
    workflow = _make("nvtabular.workflow.workflow.Workflow")
    workflow.state["graph"] = _read_graph(graph, path.parent, path.parent, 0)
    return workflow


# -- the text


def _parse(data: bytes) -> Any:
    if len(data) > MAX_BYTES:
        raise NotAWorkflow(f"it has more than {MAX_BYTES} bytes")
    if data.count(b",") > MAX_ITEMS:
        raise NotAWorkflow(f"it has more than {MAX_ITEMS} values")
    if data.count(b"[") + data.count(b"{") > MAX_CONTAINERS:
        raise NotAWorkflow(f"it has more than {MAX_CONTAINERS} objects and lists")
    try:
        return json.loads(data.decode(), object_pairs_hook=_object)
    except UnicodeDecodeError as error:
        raise NotAWorkflow("it is not UTF-8 text") from error
    except RecursionError as error:
        raise NotAWorkflow("it is nested too deeply") from error
    except ValueError as error:
        raise NotAWorkflow(f"it is no JSON ({shortened(str(error))})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise NotAWorkflow(f"an object has the key {quoted(twice)} twice")
    return fields


class _Fields:
    """An object of the file, whose fields are held against their types. where: for messages."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise NotAWorkflow(f"{where} is {_kind(value)}, expected an object")
        self._values, self.where = value, where
        self._asked: set[str] = set()

    def field(self, name: str, *types: type, default: Any = _REQUIRED) -> Any:
        """The field, of one of the types; a default for one that is absent."""
        self._asked.add(name)
        if name not in self._values:
            if default is _REQUIRED:
                raise self.refuse(name, "is missing")
            return default
        value = self._values[name]
        if type(value) not in types:
            expected = " or ".join(_WORDS[kind] for kind in types)
            raise self.refuse(name, f"is {_kind(value)}, expected {expected}")
        if type(value) is str and len(value) > MAX_TEXT:
            raise self.refuse(name, f"has more than {MAX_TEXT} characters")
        return value

    def inner(self, name: str) -> _Fields:
        """A field that is an object itself."""
        return _Fields(self.field(name, dict), f"{self.where}: {name}")

    def each(self, name: str, what: str) -> Iterable[_Fields]:
        """A field that is a list of objects."""
        for number, value in enumerate(self.field(name, list)):
            yield _Fields(value, f"{self.where}: {what} {number}")

    def names(self, name: str) -> list[str]:
        """A field that is a list of names."""
        names: list[Any] = self.field(name, list)
        for value in names:
            if type(value) is not str or len(value) > MAX_TEXT:
                raise self.refuse(name, f"has {_kind(value)} among its names")
        return names

    def ids(self, name: str) -> list[int]:
        """A field that is a list of nodes' ids; none where it is absent."""
        ids: list[Any] = self.field(name, list, default=[])
        for value in ids:
            if type(value) is not int:
                raise self.refuse(name, f"has {_kind(value)} among its ids")
        return ids

    def floats(self, name: str) -> dict[str, float]:
        """Numbers by columns, as NVTabular makes floats of them."""
        numbers: dict[str, Any] = self.field(name, dict, default={})
        try:
            return {column: float(_checked(value)) for column, value in numbers.items()}
        except TypeError as error:
            raise self.refuse(name, f"has {error} among its numbers") from error
        except OverflowError as error:
            raise self.refuse(name, "has a number of more than 64 bits") from error

    @property
    def rest(self) -> set[str]:
        """The names of the fields that nobody has asked for."""
        return self._values.keys() - self._asked

    def refuse(self, name: str, why: str) -> NotAWorkflow:
        """The error that says what is wrong with a field."""
        return NotAWorkflow(f"{self.where}: {name} {why}")


def _checked(value: Any) -> Any:
    if type(value) not in _NUMBER:
        raise TypeError(_kind(value))
    return value


def _kind(value: Any) -> str:
    return _WORDS.get(type(value), "something else")


# -- stand-ins


@cache
def _class(qualified_name: str) -> type[Inert]:
    return stand_in(qualified_name)


def _make(qualified_name: str, **state: Any) -> Inert:
    inert: Inert = _class(qualified_name)()
    inert.state = state
    return inert


# -- the graph


@dataclass(frozen=True)
class _Saved:
    """An operator as it is saved."""

    params: _Fields
    state: _Fields
    #: The columns that are selected for the operator.
    columns: list[str]
    #: The directory of the whole workflow.
    workflow: Path
    #: The directory of the files that the operator was fitted into.
    artifacts: Path
    depth: int


def _read_graph(graph: _Fields, workflow: Path, directory: Path, depth: int) -> Inert:
    """directory: of the artifacts; a Subgraph has its own."""
    if depth > MAX_DEPTH:
        raise NotAWorkflow(f"it has more than {MAX_DEPTH} Subgraphs within each other")
    records: dict[int, _Fields] = {}
    for record in graph.each("nodes", "node at place"):
        number = record.field("id", int)
        if number in records:
            raise record.refuse("id", f"is {number}, as another node's is")
        record.where = f"node {number}"
        records[number] = record
    nodes: dict[int, Inert] = {}
    for number in _in_order(records):
        nodes[number] = _read_node(number, records[number], nodes, workflow, directory, depth)
    output = graph.field("output_node_id", int)
    if output not in nodes:
        raise graph.refuse("output_node_id", f"is {output}, and there is no such node")
    return _make("merlin.dag.graph.Graph", output_node=nodes[output])


def _in_order(records: dict[int, _Fields]) -> list[int]:
    """Each node after those that it needs.

    NVTabular reads them in the order of their ids, and fails on a graph in which a node is needed
    at two depths: it numbers such a node after one that needs it. What is meant is certain.
    """
    needed: dict[int, list[int]] = {}
    for number, record in records.items():
        needed[number] = [*record.ids("parent_ids"), *record.ids("dependency_ids")]
        for name in ("parent_ids", "dependency_ids"):
            for other in record.ids(name):
                if other not in records:
                    raise record.refuse(name, f"has {other}, and there is no such node")
    try:
        return list(TopologicalSorter(needed).static_order())
    except CycleError as error:
        circle = ", ".join(map(str, error.args[1][:_SHOWN]))
        raise NotAWorkflow(f"its nodes go in a circle ({circle})") from error


def _read_node(
    number: int,
    record: _Fields,
    nodes: dict[int, Inert],
    workflow: Path,
    directory: Path,
    depth: int,
) -> Inert:
    path = record.field("op_class", str)
    if path not in _FORMS:
        raise record.refuse("op_class", f"is {quoted(path)}, which has no form in it")
    record.where = f"node {number} ({path.rpartition('.')[2]})"
    selector = _selector(record, "selector")
    saved = _Saved(
        record.inner("op_params"),
        record.inner("op_state"),
        selector.state["_names"] if selector else [],
        workflow,
        directory / "artifacts" / f"node_{number}",
        depth,
    )
    operator = _make(path, **_FORMS[path](saved))
    operator.state |= dict.fromkeys(_find_unknown(path, saved))
    return _make(
        _NODE,
        op=operator,
        parents=[nodes[other] for other in record.ids("parent_ids")],
        dependencies=[nodes[other] for other in record.ids("dependency_ids")],
        _selector=selector,
        input_schema=_schema(record, "input_schema"),
        output_schema=_schema(record, "output_schema"),
    )


def _find_unknown(path: str, saved: _Saved) -> set[str]:
    """Parameters that the operator of 23.08 has not: another one wrote them, for what they do."""
    known = list_attributes(path)
    if known is None:
        return set()
    return (saved.params.rest | saved.state.rest) - known - _OF_SCHEMAS


def _selector(fields: _Fields, name: str) -> Inert | None:
    """NVTabular keeps no groups of columns, and none of the tags is read again."""
    if not fields.field(name, dict, _NONE, default=None):
        return None
    return _select(fields.inner(name).names("names"))


def _select(names: list[str]) -> Inert:
    return _make(_SELECTOR, _names=names, _tags=[], subgroups=[])


def _schema(record: _Fields, name: str) -> Inert:
    columns = {}
    for fields in record.each(name, f"{name}, column"):
        columns[fields.field("name", str)] = _make(
            "merlin.schema.schema.ColumnSchema",
            dtype=_dtype(fields),
            is_list=fields.field("is_list", bool, _NONE, default=None),
            is_ragged=fields.field("is_ragged", bool, _NONE, default=None),
        )
    return _make("merlin.schema.schema.Schema", column_schemas=columns)


def _dtype(column: _Fields) -> Inert | None:
    if column.field("dtype", dict, _NONE, default=None) is None:
        return None
    fields = column.inner("dtype")
    name = fields.field("name", str)
    shape = None
    if fields.field("shape", list, _NONE, default=None) is not None:
        dims = (
            _make(
                "merlin.dtypes.shape.Dimension",
                min=bounds.field("min", int),
                max=bounds.field("max", int, _NONE),
            )
            for bounds in fields.each("shape", "dimension")
        )
        shape = _make("merlin.dtypes.shape.Shape", dims=tuple(dims))
    return _make("merlin.dtypes.base.DType", name=name, shape=shape)


# -- what operators have when they are loaded, by the names of their attributes

#: An operator as it is saved, and an attribute's name -> its value.
_Reader = Callable[[_Saved, str], Any]


def _form(**attributes: _Reader) -> Callable[[_Saved], dict[str, Any]]:
    """The reader of all attributes of an operator."""
    return lambda saved: {name: read(saved, name) for name, read in attributes.items()}


def _field(*types: type, default: Any = _REQUIRED) -> _Reader:
    return lambda saved, name: saved.params.field(name, *types, default=default)


#: What operators ask for its truth alone.
_FLAG = _field(bool, int, _NONE, default=False)
_SCALAR = (str, int, float, bool, _NONE)


def _floats(saved: _Saved, name: str) -> dict[str, float]:
    return saved.state.floats(name)


def _type_name(saved: _Saved, name: str) -> str | None:
    """A numpy type by its name, as far as it is one that operators make.

    NVTabular writes `<class 'numpy.float32'>` for a class of numpy's, and cannot read that again.
    """
    if saved.params.field(name, dict, _NONE, default=None) is None:
        return None
    text: str = saved.params.inner(name).field("name", str)
    if coded := _CODED.fullmatch(text):
        return f"{_FAMILIES[coded[1]]}{8 * int(coded[2])}"
    named = _CLASS.fullmatch(text)
    return named[1] if named else text


def _function(saved: _Saved, name: str) -> Inert | None:
    """A function by its module and its name in it; not imported."""
    if saved.params.field(name, dict, _NONE, default=None) is None:
        return None
    function = saved.params.inner(name)
    for part in ("module", "qualname"):
        text = function.field(part, str)
        if not all(word.isidentifier() for word in text.split(".")):
            expected = "expected names with dots between them"
            raise function.refuse(part, f"is {quoted(text)}, {expected}")
    return _make(
        FUNCTION,
        __module__=function.field("module", str),
        __qualname__=function.field("qualname", str),
    )


def _called(saved: _Saved, name: str) -> Inert:
    function = _function(saved, name)
    if function is None:
        raise saved.params.refuse(name, "is null, expected a function's module and qualname")
    return function


def _files(saved: _Saved, name: str) -> dict[Any, str]:
    """Where the files lie that the operator was fitted into, by the columns that they are of."""
    files: dict[Any, str] = {}
    for record in saved.state.each(name, f"{name} at place"):
        key = record.names("key")
        if not key:
            raise record.refuse("key", "is empty")
        path = record.field("path", str)
        # Categorify's vocabs lie beside the node's directory: `../node_3categories/` (see place_of)
        relative_path = os.path.normpath(saved.artifacts.relative_to(saved.workflow) / path)
        if not relative_path.startswith("artifacts/") or not relative_path.isprintable():
            raise record.refuse(
                "path", f"is {quoted(path)}, which is not among the workflow's artifacts"
            )
        files[tuple(key) if len(key) > 1 else key[0]] = str(saved.workflow / relative_path)
    return files


def _files_of_columns(saved: _Saved, name: str) -> dict[Any, str]:
    return _check_groups(saved, name, saved.columns, _files(saved, name))


def _categories(saved: _Saved, name: str) -> dict[Any, str]:
    """Columns that are encoded jointly have one file, by the name that they are stored under."""
    is_joint = _ENCODE_TYPE(saved, "encode_type") == "joint"
    storage = _storage_names(saved, "storage_name") if is_joint else {}
    stored = [storage.get(column, column) for column in saved.columns]
    return _check_groups(saved, name, stored, _files(saved, name))


def _check_groups(
    saved: _Saved, name: str, keys: Iterable[str], files: dict[Any, str]
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


def _storage_names(saved: _Saved, name: str) -> dict[str, str]:
    names: dict[str, Any] = saved.state.field(name, dict, default={})
    for column, stored in names.items():
        if type(stored) is not str:
            raise saved.state.refuse(name, f"has {_kind(stored)} for {quoted(column)}")
    return names


def _out_path(saved: _Saved, _: str) -> str:
    return str(saved.workflow)


def _upper_bound(saved: _Saved, name: str) -> Any:
    bound = saved.params.field(name, *_SCALAR, default=None)
    if bound is None and saved.params.field("min_value", *_SCALAR, default=None) is None:
        raise saved.params.refuse("min_value", f"and {name} are null, expected one of them")
    return bound


def _boundaries(saved: _Saved, name: str) -> Inert:
    """They are in a function, as NVTabular keeps them."""
    closure = _make("cell")
    closure.args = (saved.params.field(name, list, dict),)
    return _make(
        FUNCTION,
        __module__=_BUCKETIZE,
        __qualname__="Bucketize.__init__.<locals>.<lambda>",
        __closure__=(closure,),
    )


def _list_slice(saved: _Saved) -> dict[str, Any]:
    start = saved.params.field("start", int)
    end = saved.params.field("end", int, _NONE, default=None)
    if start > 0 and end is None:
        start, end = 0, start
    end = _OPEN_END if end is None else end
    length = -(start if end > 0 else start - end) if start < 0 else end - start
    padding = _form(pad=_FLAG, pad_value=_field(*_SCALAR, default=0.0))
    return {"start": start, "end": end, "max_elements": length, **padding(saved)}


def _target(saved: _Saved, _: str) -> Inert:
    columns = _select(saved.params.names("target_cols"))
    return _make(_NODE, output_schema=None, _selector=columns)


def _out_col(saved: _Saved, name: str) -> Any:
    named = saved.params.field(name, str, list, _NONE, default=None)
    return [named] if isinstance(named, str) else named


def _inner_graph(saved: _Saved, _: str) -> Inert:
    inner = saved.params.inner("inner_graph")
    return _read_graph(inner, saved.workflow, saved.artifacts, saved.depth + 1)


_ENCODE_TYPE = _field(str, default="joint")
_NAME_SEP = _field(str, default="_")
_OPTIONAL_NAME = _field(str, _NONE, default=None)
_NOTHING = _form()
_CALL = _form(f=_called)
#: Classes that have a form -> what one of them has when it is loaded.
_FORMS: dict[str, Callable[[_Saved], dict[str, Any]]] = {
    "merlin.dag.ops.selection.SelectionOp": _form(
        selector=lambda saved, name: _selector(saved.params, name)
    ),
    "merlin.dag.ops.concat_columns.ConcatColumns": _NOTHING,
    "merlin.dag.ops.udf.UDF": _CALL,
    _SUBGRAPH: _form(graph=_inner_graph, loop_until=_function),
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
        num_buckets=_field(int, dict, _NONE, default=None),
        single_table=_FLAG,
        split_out=_field(int, dict, _NONE, default=1),
    ),
    "nvtabular.ops.target_encoding.TargetEncoding": _form(
        stats=_files_of_columns,
        means=_floats,
        out_path=_out_path,
        target=_target,
        target_mean=_field(dict, _NONE, default=None),
        kfold=lambda saved, name: saved.params.field(name, int, _NONE, default=3) or 3,
        fold_seed=_field(int, _NONE, default=42),
        p_smooth=_field(*_NUMBER, default=20),
        out_col=_out_col,
        out_dtype=_type_name,
        name_sep=_NAME_SEP,
        drop_folds=_field(bool, int, _NONE, default=True),
    ),
    "nvtabular.ops.join_groupby.JoinGroupby": _form(
        categories=_files_of_columns,  # whatever their storage_name is
        storage_name=_storage_names,
        out_path=_out_path,
        stats=lambda saved, name: tuple(saved.params.names(name)),
        name_sep=_NAME_SEP,
    ),
}
