"""Merlin's operators that need no Merlin -> what a generated step of each reads and makes. No I/O.

They run Python inside the executor and have no model of their own. What each of these does is known
(merlin-systems 23.08, dag/ops), so a step does it that needs numpy and the operator's own library:

1. UnrollFeatures repeats columns, as often as another one has rows (steps/operator_model.py);
2. SoftmaxSampling orders ids by chance, those with high scores first;
3. FilterCandidates leaves out those ids that another column has;
4. QueryFaiss finds the ids whose vectors are nearest to given ones (steps/search_model.py);
5. PredictImplicit recommends ids to users, by a model of implicit's (steps/recommend_model.py);
6. QueryFeast looks features of ids up in a Feast online store (steps/lookup_model.py).

An operator whose attributes are not those that Merlin writes is left to Merlin itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.executor_graph import Node
from ensemble_tools.archive.inert_pickle import Inert
from ensemble_tools.archive.model_config import (
    TRITON_TYPES,
    ModelConfig,
    TensorSpec,
    declare_input,
    declare_output,
)
from ensemble_tools.archive.source_model import GRAPH_FILE
from ensemble_tools.archive.tensor_names import list_ragged_tensors

_OPS = "merlin.systems.dag.ops"
#: What PredictImplicit writes; and the modules that its models are of.
_IMPLICIT_FILE, _IMPLICITS = "model.npz", re.compile(r"implicit(\.[A-Za-z_][A-Za-z0-9_]*)*")
#: What no artifact may be called: the graph has the name. Python files are the step's own.
_TAKEN, _PYTHON_FILES = frozenset({"", "..", PurePosixPath(GRAPH_FILE).name}), ".py"


@dataclass(frozen=True)
class OperatorWork:
    """The work of a generated step of an operator."""

    #: The template's name of it.
    kind: str
    #: The columns that the step is given.
    reads: tuple[str, ...]
    #: The columns that the step puts out, and for each the column that it is made of.
    writes: Mapping[str, str]
    #: Triton's types of the columns that have another type than what they are made of.
    types: Mapping[str, str] = field(default_factory=dict)
    #: The other parameters of the step.
    settings: Mapping[str, object] = field(default_factory=dict)
    #: A file beside the graph that the step reads; a directory's name ends in a slash, and a
    #: directory may lie elsewhere.
    artifact: str = ""
    #: The columns that are ragged, whatever they are made of.
    lists: frozenset[str] = frozenset()

    @property
    def keeps_the_rest(self) -> bool:
        """Whether columns that it does not write reach those behind it, too."""
        return self.kind == _UNROLL

    @property
    def may_use_gpu(self) -> bool:
        """Whether a GPU is of use to it."""
        return self.kind == _SEARCH

    @property
    def library(self) -> str:
        """The library that it needs, for people."""
        return {_SEARCH: "FAISS", _RECOMMEND: "implicit", _LOOKUP: "Feast"}.get(self.kind, NUMPY)

    @property
    def interpreter(self) -> str:
        """The warm interpreter that has imported a library that takes long; empty for none."""
        return "feast" if self.kind == _LOOKUP else ""

    @property
    def elsewhere(self) -> str:
        """The path where Merlin's operator reads what the archive may hold, too; empty for none."""
        return str(self.settings["path"]) if self.kind == _LOOKUP else ""

    @property
    def reads_all(self) -> bool:
        """Whether Merlin's operator takes whatever reaches it: it must be what is read here."""
        return self.kind == _SEARCH


#: What every step of ours needs.
NUMPY = "numpy"
_UNROLL, _SAMPLE, _FILTER = "unroll", "sample", "filter"
_SEARCH, _RECOMMEND, _LOOKUP = "search", "recommend", "lookup"


def find_work(node: Node) -> OperatorWork | None:
    """The work of a node's operator; None where Merlin has to run it."""
    read = _READERS.get(node.operator.class_name)
    return read(node) if read is not None else None


def make_config(work: OperatorWork, specs: Iterable[TensorSpec]) -> ModelConfig:
    """The config of the step; specs: its inputs' tensors as they come, whole shapes."""
    specs_by_name = {spec.name: spec for spec in specs}
    message = pb.ModelConfig(backend="python")
    message.input.extend(map(declare_input, specs_by_name.values()))
    for column, source in work.writes.items():
        message.output.extend(map(declare_output, _put_out(work, column, source, specs_by_name)))
    return ModelConfig("", message)


def _put_out(
    work: OperatorWork, column: str, source: str, specs: Mapping[str, TensorSpec]
) -> list[TensorSpec]:
    data_type = work.types.get(column) or _find_values(source, specs).data_type
    if column in work.lists:
        values, offsets = list_ragged_tensors(column)
        return [TensorSpec(values, data_type, (-1,)), TensorSpec(offsets, "TYPE_INT32", (-1,))]
    if work.kind == _LOOKUP and column not in work.types:  # the ids, as they came
        names = zip(
            (source, *list_ragged_tensors(source)),
            (column, *list_ragged_tensors(column)),
            strict=True,
        )
        return [
            TensorSpec(name, specs[old].data_type, specs[old].dims)
            for old, name in names
            if old in specs
        ]
    return [TensorSpec(column, data_type, _SHAPES[work.kind](source, specs))]


# -- what Merlin's pickles say of them


def _read_unroll(node: Node) -> OperatorWork | None:
    """The names: of unroll_cols' selector, else what it puts out, which is all dependencies do."""
    state = node.operator.state
    item, prefix, source = (
        state.get(name) for name in ("item_id_col", "unrolled_prefix", "unroll_cols")
    )
    if not isinstance(item, str) or not isinstance(prefix, str) or not isinstance(source, Inert):
        return None
    columns = tuple(dict.fromkeys(node.dependency_columns))
    if not columns or item in columns or not _is_selection(source, columns):
        return None
    writes = {f"{prefix}_{column}" if prefix else column: column for column in columns}
    # Merlin takes the columns away one after the other, each when the one before has its new name.
    if len(writes) < len(columns) or item in writes or (prefix and {*writes} & {*columns}):
        return None
    return OperatorWork(_UNROLL, (item, *columns), writes)


def _is_selection(source: Inert, columns: tuple[str, ...]) -> bool:
    """Whether the node's own selector, if it has one, names these columns."""
    selector = source.state.get("_selector")
    if selector is None:
        return True
    if not isinstance(selector, Inert) or selector.state.get("subgroups"):
        return False
    return tuple(selector.state.get("_names") or ()) == columns


def _read_sample(node: Node) -> OperatorWork | None:
    state = node.operator.state
    ids, scores = state.get("_input_col_name"), state.get("_relevance_col_name")
    temperature, topk = state.get("temperature"), state.get("topk")
    if not isinstance(ids, str) or not isinstance(scores, str):
        return None
    if type(temperature) not in (int, float) or type(topk) is not int:
        return None
    return OperatorWork(
        _SAMPLE,
        _drop_repeats(ids, scores),
        {"ordered_ids": ids, "ordered_scores": scores},
        settings={"temperature": temperature, "topk": topk},
    )


def _read_filter(node: Node) -> OperatorWork | None:
    state = node.operator.state
    candidates, without = state.get("_input_col"), state.get("_filter_out_col")
    if not isinstance(candidates, str) or not isinstance(without, str):
        return None
    reads = _drop_repeats(candidates, without)
    return OperatorWork(_FILTER, reads, {"filtered_ids": candidates}, settings={"without": without})


def _read_search(node: Node) -> OperatorWork | None:
    """The index lies beside the graph, under the last part of the path that it had."""
    state = node.operator.state
    path, topk = state.get("index_path"), state.get("topk")
    if not isinstance(path, str) or type(topk) is not int or len(node.inputs) != 1:
        return None
    name, (vectors,) = PurePosixPath(path).name, node.inputs
    if _is_taken(name) or not name.isprintable() or topk < 1:
        return None
    return OperatorWork(
        _SEARCH,
        (vectors,),
        {"candidate_ids": vectors},
        {"candidate_ids": "TYPE_INT32"},
        {"index": name, "topk": topk},
        name,
    )


def _read_recommend(node: Node) -> OperatorWork | None:
    """Merlin writes implicit's own file of the model, always under one name."""
    state = node.operator.state
    module, name = state.get("model_module_name"), state.get("model_class_name")
    count = state.get("num_to_recommend")
    if not isinstance(module, str) or not isinstance(name, str) or type(count) is not int:
        return None
    if not _IMPLICITS.fullmatch(module) or not name.isidentifier():
        return None
    return OperatorWork(
        _RECOMMEND,
        ("user_id",),
        {"ids": "user_id", "scores": "user_id"},
        {"ids": "TYPE_INT64", "scores": "TYPE_FP64"},
        {"model": _IMPLICIT_FILE, "module": module, "class": name, "count": count},
        _IMPLICIT_FILE,
    )


def _read_lookup(node: Node) -> OperatorWork | None:
    """Merlin keeps the path of the feature repository, and nothing of it lies in the export.

    It is looked for beside the graph, under the last part of the path, and then where it was. Lists
    are ragged, as from_feature_view makes them: of others Merlin itself makes something else.
    """
    state = node.operator.state
    attributes = ("repo_path", "entity_id", "entity_view", "entity_column", "output_prefix")
    texts = [state.get(name) for name in attributes]
    plain, lists = (_read_names(state.get(name)) for name in ("features", "mh_features"))
    with_id = state.get("include_id")
    if not all(isinstance(text, str) and text.isprintable() for text in texts):
        return None
    if plain is None or lists is None or not isinstance(with_id, bool):
        return None
    path, entity, view, column, prefix = map(str, texts)
    repository = PurePosixPath(path).name
    called = {name: _add_prefix(prefix, name) for name in (*plain, *lists)}
    dtypes = {output_column.name: output_column.dtype or "" for output_column in node.output}
    types = {name: TRITON_TYPES.get(dtypes.get(name, ""), "") for name in called.values()}
    puts_out = [*([entity] if with_id else []), *(called[name] for name in (*plain, *lists))]
    if not all(types.values()) or not puts_out or len({*puts_out}) < len(puts_out):
        return None
    ragged = {output_column.name for output_column in node.output if output_column.is_ragged}
    if _is_taken(repository) or not {called[name] for name in lists} <= ragged:
        return None
    return OperatorWork(
        _LOOKUP,
        (column,),
        dict.fromkeys(puts_out, column),
        types,
        {
            "repository": repository,
            "path": path,
            "view": view,
            "entity": entity,
            "features": {called[name]: (name, dtypes[called[name]]) for name in plain},
            "lists": {called[name]: (name, dtypes[called[name]]) for name in lists},
            "id": entity if with_id else "",
        },
        f"{repository}/",
        frozenset(called[name] for name in lists),
    )


def _is_taken(name: str) -> bool:
    return name in _TAKEN or name.endswith(_PYTHON_FILES)


def _read_names(value: object) -> list[str] | None:
    """The names in a list of them, None for anything else."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    return value


def _add_prefix(prefix: str, name: str) -> str:
    return f"{prefix}_{name}" if prefix and name and not name.startswith(prefix) else name


def _drop_repeats(*columns: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(columns))


_READERS: Mapping[str, Callable[[Node], OperatorWork | None]] = {
    f"{_OPS}.unroll_features.UnrollFeatures": _read_unroll,
    f"{_OPS}.softmax_sampling.SoftmaxSampling": _read_sample,
    f"{_OPS}.session_filter.FilterCandidates": _read_filter,
    f"{_OPS}.faiss.QueryFaiss": _read_search,
    f"{_OPS}.implicit.PredictImplicit": _read_recommend,
    f"{_OPS}.feast.QueryFeast": _read_lookup,
}

# -- the shapes of what they make

_Given = Mapping[str, TensorSpec]


def _find_values(column: str, specs: _Given) -> TensorSpec:
    return specs[column] if column in specs else specs[list_ragged_tensors(column)[0]]


def _find_unrolled_dims(column: str, specs: _Given) -> tuple[int, ...]:
    """Rows of a list are of one length once they are repeated."""
    if column in specs:
        return (-1, *specs[column].dims[1:])
    return (-1, -1, *_find_values(column, specs).dims[1:])


_SHAPES: Mapping[str, Callable[[str, _Given], tuple[int, ...]]] = {
    _UNROLL: _find_unrolled_dims,
    _SAMPLE: lambda column, given: (-1, -1),
    _FILTER: lambda column, given: (-1,),
    _SEARCH: lambda column, given: (-1,),
    _RECOMMEND: lambda column, given: (-1, -1),
    _LOOKUP: lambda column, given: (-1,),
}
