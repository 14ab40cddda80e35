"""Exports tiny graphs with an old release of Merlin, each with a request and its answer.

Run it once for each release, with that release's packages on the path:

    PYTHONPATH=<target of the release> <python of the base environment> export.py DEST

It asks merlin-systems which release it is and writes

    DEST/<release>_<case>_<runtime>/repository/    what Ensemble.export wrote, untouched
    DEST/<release>_<case>_<runtime>/request.json   a v2 inference request
    DEST/<release>_<case>_<runtime>/expected.json  the answer, computed without tritonserver
    DEST/<release>_<case>_<runtime>/graph.json     the graph as that release itself sees it

Cases
    dense      Categorify and Normalize in front of a traced model; columns keep their names
    ragged     a list column of any length through Categorify, in front of a scripted model
    workflow   a workflow alone, whose columns are renamed
    fixed      a list column of four, in front of a traced model
    filter     FilterCandidates alone: an inline operator, and no workflow
    unroll     UnrollFeatures between a workflow and a traced model

Runtimes: `ensemble` is TritonEnsembleRuntime, the default of 0.8 and 0.9 and gone after;
`executor` is TritonExecutorRuntime.

The base environment (Python 3.11, CPU): pip==23.3.2, setuptools==80.9.0 and wheel, then with
--no-build-isolation

    pandas==1.5.3 pyarrow==12.0.1 numba==0.57.1 dask==2023.7.1 distributed==2023.7.1
    dask-cuda==23.8.0 protobuf==3.20.3 tensorflow-metadata==1.14.0 tritonclient[grpc]==2.36.0
    betterproto==1.2.5 npy-append-array==0.9.16 treelite==2.4.0 treelite-runtime==2.4.0
    scipy==1.15.3 torch==2.13.0 pynvml==11.4.1 fsspec requests packaging tqdm numpy (see below)

and each release into a directory of its own with
`pip install --no-deps --no-build-isolation --target <directory>`:

    release  merlin-systems  merlin-core  nvtabular  merlin-dataloader  numpy
    0.8      0.8.0           0.9.0        1.7.0 (1)  0.0.3              1.24.4
    0.9      0.9.0           0.10.0       1.8.1      0.0.4              1.24.4
    23.02    23.2.0          23.2.1       23.2.0     23.2.1             1.23.5 (2)
    23.04    23.4.0          23.4.0       23.4.0     23.4.0             1.23.5 (2)
    23.05    23.5.0          23.5.0       23.5.0     23.5.0             1.24.4
    23.06    23.6.0          23.6.0       23.6.0     23.6.0             1.24.4

(1) not on PyPI: the tag v1.7.0 of NVIDIA-Merlin/NVTabular, which pip builds with a C++ compiler.
(2) merlin.dtypes names np.str, which numpy 1.24 took away.
"""

# ruff: noqa: E402  # the environment below is read while the modules are imported

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Merlin's generated protobufs are older than the C++ ones of their protobuf.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
# The same numbers on every machine: no GPU, and sums in one order.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["OMP_NUM_THREADS"] = "1"
warnings.filterwarnings("ignore")

import numpy as np
import nvtabular as nvt
import pandas as pd
import torch
from merlin.dag import postorder_iter_nodes
from merlin.io import Dataset
from merlin.schema import ColumnSchema, Schema
from merlin.systems import __version__
from merlin.systems.dag import Ensemble
from merlin.systems.dag.ops.pytorch import PredictPyTorch
from merlin.systems.dag.ops.session_filter import FilterCandidates
from merlin.systems.dag.ops.unroll_features import UnrollFeatures
from merlin.systems.dag.ops.workflow import TransformWorkflow
from merlin.systems.dag.runtimes import triton as runtimes
from nvtabular import ops

SEED = 23
ROWS = 200
WIDTH = 4
# Exports hold absolute paths of where they were made (Categorify's category tables).
NEUTRAL_DIRECTORY = Path("/tmp/export")
RELEASE = ".".join(__version__.split("+")[0].split(".")[:2])
#: 0.8 and 0.9 know numpy's data types, and no shapes.
OLD = RELEASE in ("0.8", "0.9")
#: Up to 23.02 scalars travel as [rows, 1].
COLUMNS = OLD or RELEASE == "23.02"
#: The second tensor of a ragged column: how many values the rows before have (offsets), or the row.
SECOND = {"0.8": "__nnzs", "0.9": "__lengths", "23.02": "__lengths"}.get(RELEASE, "__offsets")
RUNTIMES = {
    "ensemble": getattr(runtimes, "TritonEnsembleRuntime", None),
    "executor": runtimes.TritonExecutorRuntime,
}
DATATYPES = {"int32": "INT32", "int64": "INT64", "float32": "FP32", "float64": "FP64"}

Tensors = dict[str, np.ndarray]


@dataclass(frozen=True)
class Case:
    """A graph, the schema of its request, and a request's columns with the right answer's."""

    graph: Any
    schema: Schema
    request: Tensors
    answer: Tensors


class ClickModel(torch.nn.Module):  # type: ignore[misc]  # torch has no types in the checker's environment
    """One probability a row from a dict of tensors, whether scalars come as [rows] or [rows, 1]."""

    def __init__(self, sizes: dict[str, int], others: list[str], listed: str = "") -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(SEED)
        self.tables = torch.nn.ParameterDict(
            {
                name: torch.nn.Parameter(torch.randn(size, WIDTH, generator=generator))
                for name, size in sizes.items()
            }
        )
        self.others = others
        self.listed = listed
        width = WIDTH * len(sizes) + len(others)
        self.weights = torch.nn.Parameter(torch.randn(width, 1, generator=generator))

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        parts = []
        for name, table in self.tables.items():
            if name == self.listed:
                parts.append(table[batch[name].long()].mean(dim=1))
            else:
                parts.append(table[batch[name].reshape(-1).long()])
        parts.extend(batch[name].reshape(-1, 1).float() for name in self.others)
        return torch.sigmoid(torch.cat(parts, dim=1) @ self.weights).reshape(-1)


class RaggedModel(torch.nn.Module):  # type: ignore[misc]  # see above
    """One probability a row from a ragged column: the bag of its values' vectors."""

    def __init__(self, size: int, name: str, second: str) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(SEED)
        self.table = torch.nn.Parameter(torch.randn(size, 1, generator=generator))
        self.values, self.second = name + "__values", name + second

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        values = self.table[batch[self.values].reshape(-1).long()].reshape(-1)
        sums = torch.cat([torch.zeros(1), torch.cumsum(values, 0)])
        second = batch[self.second].reshape(-1).long()
        if self.second.endswith("__lengths"):
            second = torch.cat([torch.zeros(1, dtype=torch.long), torch.cumsum(second, 0)])
        return torch.sigmoid(sums[second[1:]] - sums[second[:-1]])


def events() -> pd.DataFrame:
    generator = np.random.default_rng(SEED)
    return pd.DataFrame(
        {
            "user_id": generator.integers(1000, 1010, ROWS),
            "item_id": generator.integers(1, 8, ROWS),
            "age": generator.normal(40, 12, ROWS).astype("float32"),
            "genres": [
                generator.integers(1, 9, length).tolist()
                for length in generator.integers(1, 6, ROWS)
            ],
            "quad": [generator.integers(1, 9, 4).tolist() for _ in range(ROWS)],
        }
    )


def rows() -> pd.DataFrame:
    """The request: seen and unseen categories, lists of several lengths."""
    return pd.DataFrame(
        {
            "user_id": np.array([1003, 1001, 5, 1009, 1000]),
            "item_id": np.array([7, 99999, 2, -1, 5]),
            "age": np.array([18.5, 44.0, 71.25, 33.0, 0.0], dtype="float32"),
            "genres": [[3, 1, 8], [2], [5, 6], [99999, 7], [1, 2, 3, 4, 5, 6, 7]],
            "quad": [[1, 2, 3, 4], [8, 8, 8, 8], [99999, 1, 1, 1], [5, 6, 7, 8], [2, 4, 6, 8]],
        }
    )


def fitted(staging: Path, node: Any, *columns: str) -> nvt.Workflow:
    workflow = nvt.Workflow(node)
    workflow.fit(Dataset(events()[list(columns)]))
    return workflow


def categorify(staging: Path) -> ops.Categorify:
    return ops.Categorify(out_path=str(staging))


def normalize() -> ops.Normalize:
    return ops.Normalize(out_dtype=np.float32)


def sizes(schema: Schema) -> dict[str, int]:
    return {
        column.name: int(column.properties["embedding_sizes"]["cardinality"]) + 1
        for column in schema
        if "embedding_sizes" in column.properties
    }


def transformed(workflow: nvt.Workflow, frame: pd.DataFrame) -> pd.DataFrame:
    columns = frame[workflow.input_schema.column_names]
    return workflow.transform(Dataset(columns)).to_ddf().compute().reset_index(drop=True)


def tensors(frame: pd.DataFrame, schema: Schema) -> Tensors:
    """Columns as the release's Triton models take them."""
    found: Tensors = {}
    for column in schema:
        values = frame[column.name]
        dtype = column.dtype if OLD else column.dtype.to_numpy
        if column.is_list and column.is_ragged:
            lengths = [len(row) for row in values]
            flat = np.concatenate([np.asarray(row, dtype) for row in values])
            second = lengths if SECOND == "__lengths" else np.cumsum([0, *lengths])
            shape = (-1, 1) if COLUMNS else (-1,)
            found[column.name + "__values"] = flat.reshape(shape)
            found[column.name + SECOND] = np.asarray(second, np.int32).reshape(shape)
        elif column.is_list:
            found[column.name] = np.stack([np.asarray(row, dtype) for row in values])
        else:
            array = values.to_numpy().astype(dtype)
            found[column.name] = array.reshape(-1, 1) if COLUMNS else array
    return found


def predicted(model: torch.nn.Module, inputs: Tensors) -> np.ndarray:
    with torch.inference_mode():
        answer: np.ndarray = model(as_torch(inputs)).numpy()
    return answer


def as_torch(inputs: Tensors) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in inputs.items()}


def predictor(staging: Path, model: torch.nn.Module, inputs: Tensors, schema: Schema) -> Any:
    """PredictPyTorch with a traced model; it copies the file at its path."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, (as_torch(inputs),), strict=False)
    click = ColumnSchema("click", dtype=np.float32)
    operator = PredictPyTorch(traced, schema, Schema([click if OLD else click.with_shape((None,))]))
    operator.path = str(without_debug_records(traced, staging / "model.pt"))
    return operator


def without_debug_records(model: torch.jit.ScriptModule, path: Path) -> Path:
    """Saves the model without debug records: half its size, and paths of this machine's files."""
    full = path.with_suffix(".full.pt")
    model.save(str(full))
    reader = torch._C.PyTorchFileReader(str(full))
    writer = torch._C.PyTorchFileWriter(str(path))
    own = {"version", ".data/serialization_id"}  # the writer makes these two itself
    for record in reader.get_all_records():
        if record not in own and not record.endswith(".debug_pkl"):
            content = reader.get_record(record)
            writer.write_record(record, content, len(content))
    writer.write_end_of_file()
    return path


def plain(name: str, dtype: Any, **properties: Any) -> ColumnSchema:
    column = ColumnSchema(name, dtype=dtype, **properties)
    return column if OLD or column.is_list else column.with_shape((None,))


def request_schema(workflow: nvt.Workflow) -> Schema:
    """The workflow's own input schema; newer releases send scalars as [rows] where it says so."""
    if OLD:
        return workflow.input_schema
    return Schema(
        [
            column if column.is_list else column.with_shape((None,))
            for column in workflow.input_schema
        ]
    )


def dense(staging: Path) -> Case:
    node = (["user_id"] >> categorify(staging)) + (["age"] >> normalize())
    return _through_workflow(staging, node, "user_id", "age")


def fixed(staging: Path) -> Case:
    node = ["quad"] >> categorify(staging) >> ops.ListSlice(0, 4, pad=True)
    node = node + (["age"] >> normalize())
    return _through_workflow(staging, node, "quad", "age", listed="quad")


def _through_workflow(staging: Path, node: Any, *columns: str, listed: str = "") -> Case:
    workflow = fitted(staging, node, *columns)
    schema = workflow.output_schema
    categorical = sizes(schema)
    others = [name for name in schema.column_names if name not in categorical]
    model = ClickModel(categorical, others, listed)
    inputs = tensors(transformed(workflow, rows()), schema)
    operator = predictor(staging, model, inputs, schema)
    request = request_schema(workflow)
    graph = request.column_names >> TransformWorkflow(workflow) >> operator
    return Case(graph, request, tensors(rows(), request), {"click": predicted(model, inputs)})


def ragged(staging: Path) -> Case:
    workflow = fitted(staging, ["genres"] >> categorify(staging), "genres")
    schema = workflow.output_schema
    model = RaggedModel(sizes(schema)["genres"], "genres", SECOND)
    inputs = tensors(transformed(workflow, rows()), schema)
    operator = predictor(staging, model, inputs, schema)
    request = workflow.input_schema
    graph = request.column_names >> TransformWorkflow(workflow) >> operator
    return Case(graph, request, tensors(rows(), request), {"click": predicted(model, inputs)})


def workflow(staging: Path) -> Case:
    renamed = ops.Rename(postfix="_out")
    node = (["user_id"] >> categorify(staging) >> renamed) + (
        ["age"] >> normalize() >> ops.Rename(postfix="_out")
    )
    alone = fitted(staging, node, "user_id", "age")
    request = request_schema(alone)
    answer = tensors(transformed(alone, rows()), alone.output_schema)
    graph = request.column_names >> TransformWorkflow(alone)
    return Case(graph, request, tensors(rows(), request), answer)


def filtering(_: Path) -> Case:
    request = Schema([plain("candidates", np.int32), plain("seen", np.int32)])
    frame = pd.DataFrame({"candidates": [4, 9, 2, 7, 5], "seen": [9, 5, 1, 1, 1]})
    graph = ["candidates"] >> FilterCandidates(filter_out=["seen"])
    answer = {"filtered_ids": np.array([4, 2, 7], np.int32)}
    return Case(graph, request, tensors(frame, request), answer)


def unroll(staging: Path) -> Case:
    """One user and several items: the user's columns are repeated for each item."""
    node = (["user_id"] >> categorify(staging)) + (["age"] >> normalize())
    alone = fitted(staging, node, "user_id", "age")
    item = Schema([plain("item_id", np.int64)])
    user = request_schema(alone)
    request = user + item
    one = rows()[:1]
    items = np.array([7, 3, 2, 1, 5])
    given = {**tensors(one, user), **tensors(pd.DataFrame({"item_id": items}), item)}
    repeated = transformed(alone, rows()[:1].loc[[0] * len(items)].reset_index(drop=True))
    repeated = repeated.rename(columns=lambda name: f"user_{name}").assign(item_id=items)
    features = user.column_names >> TransformWorkflow(alone)
    graph = ["item_id"] >> UnrollFeatures("item_id", features, unrolled_prefix="user")
    columns = [item["item_id"]] + [
        column.with_name(f"user_{column.name}") for column in alone.output_schema
    ]
    schema = Schema(columns)
    model = ClickModel({**sizes(schema), "item_id": 10}, ["user_age"])
    inputs = tensors(repeated, schema)
    operator = predictor(staging, model, inputs, schema)
    return Case(graph >> operator, request, given, {"click": predicted(model, inputs)})


CASES: dict[str, Callable[[Path], Case]] = {
    "dense": dense,
    "ragged": ragged,
    "workflow": workflow,
    "fixed": fixed,
    "filter": filtering,
    "unroll": unroll,
}


def export(name: str, runtime: str, destination: Path) -> None:
    """Makes DEST/<release>_<name>_<runtime> anew."""
    NEUTRAL_DIRECTORY.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=NEUTRAL_DIRECTORY) as made_in:
        staging = Path(made_in)
        case = CASES[name](staging)
        ensemble = Ensemble(case.graph, case.schema)
        repository = staging / "repository"
        repository.mkdir()  # the predictor of 0.8 makes its own directory alone
        ensemble.export(str(repository), runtime=RUNTIMES[runtime]())
        target = destination / f"{RELEASE}_{name}_{runtime}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        shutil.copytree(repository, target / "repository")
    write_tensors(target / "request.json", "inputs", case.request)
    write_tensors(target / "expected.json", "outputs", case.answer)
    (target / "graph.json").write_text(json.dumps(described(ensemble), indent=1) + "\n")


def described(ensemble: Any) -> list[dict[str, Any]]:
    """Each node after those it needs, as this release itself reads it."""
    ordered = list(postorder_iter_nodes(ensemble.graph.output_node))
    place = {id(node): number for number, node in enumerate(ordered)}
    return [
        {
            "class": f"{type(node.op).__module__}.{type(node.op).__name__}",
            "model": next((v for k, v in vars(node.op).items() if k.endswith("_model_name")), None),
            "upstream": [place[id(other)] for other in node.parents_with_dependencies],
            "selection": node.input_columns.resolve(node.input_schema).names,
            "inputs": node.input_schema.column_names,
            "output": columns_of(node.output_schema),
            "operator_in": columns_of(getattr(node.op, "input_schema", None)),
            "operator_out": columns_of(getattr(node.op, "output_schema", None)),
        }
        for node in ordered
    ]


def columns_of(schema: Any) -> list[list[Any]]:
    """Name, data type, raggedness, and the sizes that the schema fixes (None: any)."""
    return [
        [column.name, column.dtype.name, bool(column.is_ragged), dims_of(column)]
        for column in (schema or ())
    ]


def dims_of(column: Any) -> list[int | None] | None:
    if OLD:
        if not column.is_list:
            return None
        count = column.properties.get("value_count") or {}
        fixed_size = count.get("max") if count.get("max") == count.get("min") else None
        return [None, None if column.is_ragged else fixed_size]
    if column.shape.dims is None:
        return None
    return [dim.max if dim.min == dim.max else None for dim in column.shape.dims]


def write_tensors(path: Path, key: str, arrays: Tensors) -> None:
    """A line a tensor, so that differences can be read; every float reads back as itself."""
    lines = ",\n".join(
        "  "
        + json.dumps(
            {
                "name": name,
                "datatype": DATATYPES[array.dtype.name],
                "shape": list(array.shape),
                "data": array.ravel().tolist(),
            }
        )
        for name, array in arrays.items()
    )
    path.write_text(f'{{"{key}": [\n{lines}\n]}}\n', encoding="utf-8")


def main(argv: list[str]) -> int:
    """Exports what the release can; a case that it cannot is named with its error."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("destination", metavar="DEST", type=Path)
    parser.add_argument("--only", choices=CASES, help="this case alone")
    arguments = parser.parse_args(argv)
    failed = 0
    for name in [arguments.only] if arguments.only else list(CASES):
        for runtime in RUNTIMES:
            if RUNTIMES[runtime] is None:
                continue
            try:
                export(name, runtime, arguments.destination)
                print(f"{RELEASE}_{name}_{runtime}", flush=True)
            except Exception as error:  # each release fails in its own ways
                failed += 1
                print(f"{RELEASE}_{name}_{runtime}: {type(error).__name__}: {error}", flush=True)
                if os.environ.get("EXPORT_TRACE"):
                    raise
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
