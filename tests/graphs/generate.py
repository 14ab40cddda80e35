"""Random Merlin operator graphs, exported with real Merlin, each with requests.

Run it with the models' environment:
    .venv-merlin/bin/python -m tests.graphs.generate --seed S --count N DEST

Case DEST/<seed> is made from its seed alone; seeds are S, S+1, ... A graph that Merlin itself does
not take (its schemas do not fit, it does not export) is drawn again, and why is counted.
Prints a path for each case when it is complete.
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import argparse
import json
import logging
import os
import random as random_module
import shutil
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")

import cloudpickle  # type: ignore[import-not-found]  # in the models' environment alone
import numpy as np
import torch
from merlin.dag import ColumnSelector, Node
from merlin.dag.ops.concat_columns import ConcatColumns
from merlin.dag.ops.selection import SelectionOp
from merlin.dag.ops.subgraph import Subgraph
from merlin.schema import Tags
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.feast import QueryFeast
from merlin.systems.dag.ops.pytorch import PredictPyTorch
from merlin.systems.dag.ops.session_filter import FilterCandidates
from merlin.systems.dag.ops.softmax_sampling import SoftmaxSampling
from merlin.systems.dag.ops.unroll_features import UnrollFeatures
from merlin.systems.dag.ops.workflow import TransformWorkflow
from nvtabular import ops

from tests.graphs import columns, feature_store, operators
from tests.graphs.columns import FIXED, FLOATS, INTEGERS, RAGGED, SCALAR, STRING, Col
from tests.graphs.predictors import TORCH_TYPES, tensor_names, traced
from tests.graphs.tensors import CASE, REPOSITORY, Tensors, write_requests
from tests.graphs.workflows import fitted_workflow, grouping_workflow
from tests.workflows.exchange import HOSTILE_NAMES
from tests.workflows.names import hostile_names

#: Merlin refuses about one draw in four; a seed that never comes through is a mistake here.
ATTEMPTS = 40
BATCHES = (1, 5, 100)
#: What Merlin's operators, and the container's ensembles, call columns and tensors.
MERLINS_NAMES = (
    "c0",
    "c1",
    "filtered_ids",
    "ordered_ids",
    "ordered_scores",
    "p1",
    "p2",
    "input_ids",
    "request",
    "self",
    "c0.0_transformworkflowtriton",
    "c0.to.answer",
    "c0.",
)
#: How the name of a row count begins whose rows are random.
SAMPLED = "sampled"

# Their classes exist nowhere but here: they go into the pickle themselves.
cloudpickle.register_pickle_by_value(operators)


@dataclass(frozen=True)
class Source:
    """A node of the graph, what it gives, and the name of its row count: one with another fits."""

    node: Any
    cols: tuple[Col, ...]
    rows: str = "request"


@dataclass(frozen=True)
class Graph:
    """A graph ready for export."""

    ensemble: Ensemble
    request_cols: tuple[Col, ...]
    #: The answer's tensors that have other numbers each time.
    random_tensors: tuple[str, ...]


class Builder:
    """Draws one graph, step by step; each step takes sources and adds one."""

    def __init__(self, random: Random, staging: Path, hostile: bool) -> None:
        self.random, self.staging = random, staging
        self.features: Counter[str] = Counter()
        self.hostile = hostile
        self.root = self._root()
        self.request_cols = list(self.root)
        self.sources: list[Source] = []
        self.random_tensors: list[str] = []
        self.models: list[tuple[Any, tuple[Col, ...], tuple[Col, ...]]] = []
        self.fed: Counter[int] = Counter()
        self.made = 0

    # -- the whole

    def graph(self) -> Graph:
        """The graph. Raises whatever Merlin raises about it."""
        if self._chance(0.9):
            self.add_workflow()
        if self._chance(0.2):
            self.add_workflow()
        if self._chance(0.5):
            self.add_predictor()
        known = self._chance(0.4)
        for _ in range(self.random.choice([0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 8])):
            self._step(known)
        if self._chance(0.4):
            self.add_predictor()
        if not self.sources:
            self.add_predictor()
        node = self._answer()
        self._change_request_types()
        ensemble = Ensemble(node, columns.schema_of(self.request_cols))
        return Graph(ensemble, tuple(self.request_cols), tuple(self.random_tensors))

    def _step(self, known: bool) -> None:
        """known: of operators without a model those alone that need no Merlin."""
        steps = [
            (4, self.add_predictor),
            (3, self.add_workflow),
            (1, self.add_subset),
            (1, self.add_subgraph),
            (3 if known else 1, self.add_filter),
            (3 if known else 1, self.add_unroll),
            (3 if known else 1, self.add_sampling),
            (1, self.add_grouping),
        ]
        if known:
            steps.append((2, self.add_lookup))
        else:
            steps += [
                (2, self.add_own_operator),
                (1, self.add_lambda),
                (1, self.add_nvtabular_operator),
                (1, self.add_operator_again),
                (1, self.add_rename),
                (1, self.add_metadata),
            ]
        weights, choices = zip(*steps, strict=True)
        (step,) = self.random.choices(choices, weights)
        step()

    def _root(self) -> list[Col]:
        count = self.random.randint(1, 5)
        names = [f"c{place}" for place in range(count)]
        if self.hostile:
            names = hostile_names(count, self.random, MERLINS_NAMES)
            self.features[HOSTILE_NAMES] += 1
        return [self._root_col(name) for name in names]

    def _root_col(self, name: str) -> Col:
        common = ("int64", "int32", "float32", "float64")
        dtype = self.random.choice(common if self._chance(0.6) else columns.ALL)
        kind = self.random.choices([SCALAR, FIXED, RAGGED], [6, 1, 2])[0]
        self.features[f"root {dtype}"] += 1
        self.features[f"root {kind}"] += 1
        return Col(name, dtype, kind, self.random.randint(1, 3) if kind == FIXED else 0)

    def _change_request_types(self) -> None:
        """The schema of requests may differ from the one that workflows were fitted on."""
        for place, col in enumerate(self.request_cols):
            if self._chance(0.5) and col.dtype == STRING:
                self.features["root object"] += 1
                col = replace(col, dtype="object")
            elif self._chance(0.12) and col.dtype != STRING:
                dtype = self.random.choice(columns.NUMBERS)
                if dtype != col.dtype:
                    self.features["root dtype differs"] += 1
                col = replace(col, dtype=dtype)
            if self._chance(0.15) and col.kind == RAGGED:
                self.features["root fixed for ragged"] += 1
                col = replace(col, kind=FIXED, width=self.random.randint(1, 3))
            elif self._chance(0.1) and col.kind == FIXED:
                self.features["root ragged for fixed"] += 1
                col = replace(col, kind=RAGGED, width=0)
            self.request_cols[place] = col

    def _answer(self) -> Any:
        """The last source, at times beside others and columns of the request."""
        last = self.sources[-1]
        node, cols = last.node, list(last.cols)
        for other in self.sources[:-1]:
            if self._chance(0.2):
                node, cols = self._joined(node, other.node), [*cols, *other.cols]
                self.features["answer of several sources"] += 1
        if self._chance(0.15):
            col = self.random.choice(self.root)
            node = self._joined(node, self._selected([col]))
            cols.append(col)
            self.features["answer with a column of the request"] += 1
        names = list(dict.fromkeys(col.name for col in cols))
        if len(names) > 1 and self._chance(0.2):
            kept = self.random.sample(names, self.random.randint(1, len(names) - 1))
            node = node[kept]
            self.features["answer selected"] += 1
        elif len(names) > 1 and self._chance(0.03):
            node = node - [self.random.choice(names)]
            self.features["answer without a name"] += 1
        elif len(names) > 1 and self._chance(0.2):
            other = self.random.choice(self.sources)
            if 0 < len({col.name for col in other.cols} & set(names)) < len(names):
                node = node - other.node
                self.features["answer without a source"] += 1
        if any(col.name in names for col in self.root):
            self.features["answer bears an input's name"] += 1
        return node

    # -- taking

    def _taken(self) -> Source:
        """One source or two joined, at times columns of the request beside them."""
        if not self.sources or self._chance(0.2):
            cols = self._some(self.root)
            return Source(self._selected(cols), tuple(cols))
        first = self.random.choice(self.sources)
        self.fed[self.sources.index(first)] += 1
        if self.fed[self.sources.index(first)] == 2:
            self.features["a step feeds several"] += 1
        others = [s for s in self.sources if s is not first and s.rows == first.rows]
        node, cols = first.node, list(first.cols)
        if others and self._chance(0.5):
            other = self.random.choice(others)
            node, cols = self._joined(node, other.node), [*cols, *other.cols]
            self.features["join"] += 1
        if first.rows == "request" and self._chance(0.25):
            beside = self._some(self.root)
            node, cols = self._joined(node, self._selected(beside)), [*cols, *beside]
            self.features["by-pass"] += 1
        # Of columns of one name the later one stays.
        return Source(node, tuple({col.name: col for col in cols}.values()), first.rows)

    def _joined(self, node: Any, other: Any) -> Any:
        """`+`, which changes a `+` on its left in place, so that one comes to the right."""
        if isinstance(node.op, ConcatColumns):
            node, other = other, node
        if isinstance(node.op, ConcatColumns):
            names = [col.name for s in self.sources if s.node is node for col in s.cols]
            node = node[names]
        return node + other

    def _selected(self, cols: Sequence[Col]) -> Any:
        return Node(ColumnSelector([col.name for col in cols]))

    def _some(self, cols: Sequence[Col]) -> list[Col]:
        count = self.random.randint(1, len(cols))
        chosen = self.random.sample(list(cols), count)
        return [col for col in cols if col in chosen]

    # -- steps with a model

    def add_workflow(self) -> None:
        """A workflow on columns of the request, seldom on another step's."""
        if self.sources and self._chance(0.25):
            taken = self._taken()
            self.features["workflow after a step"] += 1
        else:
            cols = self._some(self.root)
            taken = Source(self._selected(cols), tuple(cols))
        self.features["workflow"] += 1
        cols = self._some(taken.cols)
        workflow = fitted_workflow(cols, self._directory(), self.random, self.features)
        options: dict[str, Any] = {}
        out = columns.cols_of(workflow.output_schema)
        lists = [col.name for col in out if col.kind != SCALAR]
        if len(cols) > 1 and self._chance(0.05):
            options["label_columns"] = [cols.pop().name]
            self.features["workflow with a label column"] += 1
        if lists and self._chance(0.03):
            options["sparse_max"] = dict.fromkeys(lists, 3)
            self.features["workflow with sparse_max"] += 1
        operator = TransformWorkflow(workflow, max_batch_size=self._max_batch_size(), **options)
        out = columns.cols_of(operator.output_schema)
        self.models.append((operator, tuple(cols), tuple(out)))
        self._add(taken.node >> operator, out, taken.rows)

    def add_operator_again(self) -> None:
        """The very operator of an earlier step on other rows of columns of those names."""
        if not self.models:
            return
        operator, inputs, outputs = self.random.choice(self.models)
        names = {col.name for col in inputs}
        fitting = [s for s in self._all_sources() if names <= {col.name for col in s.cols}]
        if not fitting:
            return
        source = self.random.choice(fitting)
        self.features["operator used twice"] += 1
        self._add(self._narrowed(source, inputs) >> operator, outputs, source.rows)

    def add_grouping(self) -> None:
        """A Groupby: fewer rows come out."""
        keys = [c for c in self.root if c.kind == SCALAR and c.dtype in INTEGERS]
        if not keys:
            return
        key = self.random.choice(keys)
        others = [c for c in self.root if c is not key and c.kind == SCALAR and c.dtype != STRING]
        if not others:
            return
        workflow = grouping_workflow(others, key, self.random, self.features)
        node = self._selected([key, *others]) >> TransformWorkflow(workflow, max_batch_size=0)
        self._add(node, columns.cols_of(workflow.output_schema), self._name("groups"))

    def _max_batch_size(self) -> int | None:
        if self._chance(0.01):
            self.features["workflow with max_batch_size"] += 1
            return 64
        return self.random.choice([0, None])

    def add_predictor(self) -> None:
        """A traced model on some columns; a declared type or form may differ from what comes."""
        taken = self._taken()
        known = TORCH_TYPES if self._chance(0.08) else columns.TORCH
        usable = [col for col in taken.cols if col.dtype in known]
        if not usable:
            return
        inputs = [self._as_declared(col) for col in self._some(usable)]
        outputs = self._outputs(inputs)
        as_arguments = all(col.name.isidentifier() for col in inputs) and self._chance(0.4)
        model = traced(inputs, outputs, as_dict=not as_arguments)
        self.features[f"predictor takes {'arguments' if as_arguments else 'a dict'}"] += 1
        predictor = PredictPyTorch(model, columns.schema_of(inputs), columns.schema_of(outputs))
        self.features["predictor"] += 1
        self.features[f"predictor of {len(outputs)} outputs"] += 1
        if any(name.startswith("p") for name in (col.name for col in inputs)):
            self.features["predictor after predictor"] += 1
        self.models.append((predictor, tuple(inputs), tuple(outputs)))
        self._add(self._narrowed(taken, inputs) >> predictor, outputs, taken.rows)

    def _narrowed(self, taken: Source, inputs: Sequence[Col]) -> Any:
        """Merlin refuses a predictor right behind a `+` or a selection with columns left over."""
        names = [col.name for col in inputs]
        left_over = len(names) < len(taken.cols)
        if left_over and isinstance(taken.node.op, ConcatColumns | SelectionOp):
            return taken.node[names]
        return taken.node

    def _as_declared(self, col: Col) -> Col:
        if self._chance(0.02):  # Merlin takes no other type than the one that comes
            col = replace(col, dtype=self.random.choice(columns.TORCH))
            self.features["predictor casts"] += 1
        if col.dtype not in columns.TORCH:
            self.features["predictor of a type that libtorch does not take"] += 1
        if col.kind == RAGGED and self._chance(0.25):
            self.features["predictor wants ragged as fixed"] += 1
            col = replace(col, kind=FIXED, width=self.random.choice([2, 3, 3, 3]))
        elif col.kind == FIXED and self._chance(0.2):
            self.features["predictor wants fixed as ragged"] += 1
            col = replace(col, kind=RAGGED, width=0)
        return col

    def _outputs(self, inputs: Sequence[Col]) -> list[Col]:
        made = []
        for _ in range(self.random.choice([1, 1, 1, 2, 3])):
            kind = self.random.choices([SCALAR, FIXED, RAGGED], [6, 2, 1])[0]
            common = self._chance(0.7)
            dtype = "float32" if common else self.random.choice(columns.TORCH)
            made.append(Col(self._name("p"), dtype, kind, 2 if kind == FIXED else 0))
            self.features[f"predictor answers {kind} {dtype}"] += 1
        if self._chance(0.08):
            made[0] = made[0].with_name(inputs[0].name)
            self.features["predictor answers under its input's name"] += 1
        return made

    # -- steps without one

    def add_own_operator(self) -> None:
        """A user's own operator class."""
        taken = self._taken()
        cols = list(taken.cols)
        kind = self.random.choice(["Scale", "RowSum", "Reverse"])
        if kind == "Scale":
            operator: Any = operators.Scale(self.random.randint(2, 5))
        elif kind == "RowSum":
            name = self._name("s")
            operator = operators.RowSum(name)
            cols.append(Col(name, "float64"))
        else:
            if any(col.kind == RAGGED or col.dtype == STRING for col in cols):
                return
            operator = operators.Reverse()
        self.features[f"inline {kind}"] += 1
        self._add(taken.node >> operator, cols, taken.rows)

    def add_lambda(self) -> None:
        """A function after `>>`, which Merlin wraps; it is given a NumpyColumn, not an array."""
        taken = self._taken()
        if any(col.kind != SCALAR or col.dtype in (STRING, "bool") for col in taken.cols):
            return
        if self._chance(0.2):
            self.features["inline lambda of a data frame"] += 1
            node = taken.node >> (lambda column: column + 1)
        else:
            self.features["inline lambda"] += 1
            node = taken.node >> (lambda column: column.values + 1)
        self._add(node, taken.cols, taken.rows)

    def add_nvtabular_operator(self) -> None:
        """One of NVTabular's in the ensemble itself, where it needs no fitting."""
        taken = self._taken()
        if any(col.kind != SCALAR or col.dtype in (STRING, "bool") for col in taken.cols):
            return
        name, operator, dtype = self.random.choice(
            [
                ("Clip", ops.Clip(min_value=0, max_value=9), None),
                ("FillMissing", ops.FillMissing(fill_val=1), None),
                ("LogOp", ops.LogOp(), "float32"),
                ("LambdaOp", ops.LambdaOp(lambda column: column.values * 2), None),
            ]
        )
        self.features[f"inline {name}"] += 1
        cols = [replace(col, dtype=dtype or col.dtype) for col in taken.cols]
        self._add(taken.node >> operator, cols, taken.rows)

    def add_rename(self) -> None:
        """NVTabular's Rename in the ensemble itself."""
        taken, postfix = self._taken(), f"_r{self.made}"
        self.features["inline Rename"] += 1
        cols = [col.with_name(col.name + postfix) for col in taken.cols]
        self._add(taken.node >> ops.Rename(postfix=postfix), cols, taken.rows)

    def add_subset(self) -> None:
        """`node[[...]]`."""
        taken = self._taken()
        cols = self._some(taken.cols)
        self.features["selection"] += 1
        self._add(taken.node[[col.name for col in cols]], cols, taken.rows)

    def add_metadata(self) -> None:
        """Tags alone."""
        taken = self._taken()
        self.features["inline AddMetadata"] += 1
        node = taken.node >> ops.AddMetadata(tags=[Tags.CONTINUOUS])
        self._add(node, taken.cols, taken.rows)

    def add_subgraph(self) -> None:
        """A graph in a graph, at times one more inside."""
        cols = self._some(self.root)
        workflow = fitted_workflow(cols, self._directory(), self.random, self.features)
        inner = self._selected(cols) >> TransformWorkflow(workflow, max_batch_size=0)
        out = columns.cols_of(workflow.output_schema)
        if self._chance(0.3):
            inner = self._selected(cols) >> Subgraph(self._name("inner"), inner)
            self.features["nested Subgraph"] += 1
        if self._chance(0.5):
            inner, out = inner[[out[0].name]], out[:1]
        self.features["Subgraph"] += 1
        self._add(self._selected(cols) >> Subgraph(self._name("sub"), inner), out)

    def add_filter(self) -> None:
        """FilterCandidates: ids of one column without those of another."""
        ids = [
            (source, col)
            for source in self._all_sources()
            for col in source.cols
            if col.dtype in INTEGERS and col.kind != RAGGED and not source.rows.startswith(SAMPLED)
        ]
        if not ids:
            return
        source, col = self.random.choice(ids)
        _, without = self.random.choice(ids)
        self.features["FilterCandidates"] += 1
        operator = FilterCandidates(filter_out=self._selected([without]))
        if without not in self.root:
            (owner,) = [s for s, c in ids if c is without][:1]
            operator = FilterCandidates(filter_out=owner.node[without.name])
        node = source.node[[col.name]] >> operator
        self._add(node, [Col("filtered_ids", "int32")], self._name("filtered"))

    def add_unroll(self) -> None:
        """UnrollFeatures: columns repeated for every item."""
        scalars = [col for col in self.root if col.kind == SCALAR]
        if len(scalars) < 2:
            return
        item, *features = self.random.sample(scalars, self.random.randint(2, len(scalars)))
        prefix = self.random.choice(["", "u"])
        operator = UnrollFeatures(item.name, [col.name for col in features], unrolled_prefix=prefix)
        out = [col.with_name(f"{prefix}_{col.name}" if prefix else col.name) for col in features]
        self.features["UnrollFeatures"] += 1
        self._add(self._selected([item]) >> operator, [item, *out], self._name("unrolled"))

    def add_lookup(self) -> None:
        """QueryFeast: features of ids, of which the store lacks some."""
        ids = [
            (source, col)
            for source in self._all_sources()
            for col in source.cols
            if col.dtype in feature_store.VIEWS and col.kind == SCALAR
        ]
        if not ids:
            return
        source, col = self.random.choice(ids)
        with_id = self._chance(0.4)
        operator = QueryFeast.from_feature_view(
            feature_store.opened(),
            feature_store.VIEWS[col.dtype],
            col.name,
            output_prefix=self.random.choice([None, "f"]),
            include_id=with_id,
        )
        self.features["QueryFeast"] += 1
        self._add(
            source.node[col.name] >> operator, columns.cols_of(operator.output_schema), source.rows
        )

    def add_sampling(self) -> None:
        """SoftmaxSampling: other numbers each time, of one type and shape."""
        scores = [
            (source, col)
            for source in self.sources
            for col in source.cols
            if col.dtype in FLOATS and col.kind == SCALAR
        ]
        ids = [col for col in self.root if col.dtype in INTEGERS and col.kind == SCALAR]
        if not scores or not ids:
            return
        source, score = self.random.choice(scores)
        chosen = self.random.choice(ids)
        operator = SoftmaxSampling(source.node[score.name], topk=self.random.choice([3, 10]))
        node = self._selected([chosen]) >> operator
        self.features["SoftmaxSampling"] += 1
        out = [
            Col("ordered_ids", chosen.dtype, FIXED, 1),
            Col("ordered_scores", score.dtype, FIXED, 1),
        ]
        self._add(node, out, self._name(SAMPLED))

    # -- the small things

    def _all_sources(self) -> list[Source]:
        return [Source(self._selected(self.root), tuple(self.root)), *self.sources]

    def _add(self, node: Any, cols: Sequence[Col], rows: str = "request") -> None:
        self.sources.append(Source(node, tuple(cols), rows))
        if rows.startswith(SAMPLED):
            self.random_tensors += tensor_names(cols)

    def _name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def _directory(self) -> Path:
        return self.staging / self._name("fitted")

    def _chance(self, probability: float) -> bool:
        return self.random.random() < probability


def make_case(seed: int, destination: Path, rejected: Counter[str], hostile: bool) -> Path:
    """Case DEST/<seed>; reasons of draws that Merlin did not take are counted.

    hostile: its columns bear names that Merlin uses; those of some other cases do as well.
    """
    target = destination / str(seed)
    for attempt in range(ATTEMPTS):
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        random = Random(f"{seed}/{attempt}")
        random_module.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        with tempfile.TemporaryDirectory(prefix="graphs-") as staging:
            builder = Builder(random, Path(staging), hostile or seed % 4 == 0)
            try:
                write_case(seed, builder, target)
            except Exception as refused:
                sentence = str(refused).strip().splitlines() or [""]
                if os.environ.get("GRAPHS_DEBUG"):
                    traceback.print_exc()
                rejected[f"{type(refused).__name__}: {sentence[0][:90]}"] += 1
                continue
            return target
    raise AssertionError(f"seed {seed}: no graph in {ATTEMPTS} draws; {rejected}")


def write_case(seed: int, builder: Builder, target: Path) -> None:
    """Exports the graph and writes requests. Raises whatever Merlin raises."""
    graph = builder.graph()
    name = "executor_model"
    options: dict[str, Any] = {}
    if builder.random.random() < 0.1:
        name = options["name"] = "my_executor"
        builder.features["own name of the executor"] += 1
    if builder.random.random() < 0.05:
        options["version"] = 3
        builder.features["own version"] += 1
    graph.ensemble.export(str(target / REPOSITORY), **options)
    asked = columns.cols_of(graph.ensemble.input_schema)
    write_requests(target, make_requests(asked, builder.random, builder.features))
    case = {
        "seed": seed,
        "model": name,
        "features": dict(builder.features),
        "random": dict.fromkeys(graph.random_tensors, "numbers"),
        "columns": [str(col) for col in asked],
    }
    (target / CASE).write_text(json.dumps(case, indent=1))


def make_requests(cols: Sequence[Col], random: Random, features: Counter[str]) -> list[Tensors]:
    """Batches of plain numbers, of edge values, and at times a request that no one may answer."""
    requests = [columns.request(cols, rows, random, edges=False) for rows in BATCHES]
    requests += [columns.request(cols, 5, random, edges=True)]
    if random.random() < 0.15:
        wrong = columns.request(cols, 2, random, edges=False)
        name = random.choice(list(wrong))
        if random.random() < 0.5:
            del wrong[name]
            features["request without a tensor"] += 1
        else:
            wrong[name] = wrong[name].reshape(-1, 1, 1)
            features["request of a wrong rank"] += 1
        if wrong:
            requests.append(wrong)
    return requests


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="of the first case")
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--hostile", action="store_true", help="columns bear names of Merlin's")
    arguments = parser.parse_args(argv)
    logging.disable(logging.CRITICAL)
    rejected: Counter[str] = Counter()
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        print(make_case(seed, arguments.destination, rejected, arguments.hostile), flush=True)
    for reason, times in rejected.most_common():
        print(f"  {times} draws not taken by Merlin: {reason}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
