"""Exported workflows, compiled, beside the same ones that NVTabular serves (SERVE_COMPILE=off)."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from tests.end_to_end.conftest import EXAMPLES
from tests.end_to_end.test_merlin_exports import COLUMNS
from tests.support.container import Container, running, until

NAMES = ("dense", "ragged", "session")
STEP = "0_transformworkflowtriton"
BROKEN = "broken"
NUMPY = {"INT64": "i8", "INT32": "i4", "FP32": "f4", "FP64": "f8"}
BATCH_SIZES = (1, 2, 3, 5, 17, 64, 200)


@dataclass(frozen=True)
class Served:
    """Two containers that hold the same workflows; what the first holds beside, it compiles not."""

    compiled: Container
    original: Container


def workflow(name: str, directory: Path) -> Path:
    """The export's workflow alone, so that its answers are the model's."""
    shutil.copytree(EXAMPLES / name / "repository" / STEP, directory / STEP)
    return directory


def with_a_category_twice(directory: Path) -> Path:
    """Another workflow with a fault that no request of the test meets: NVTabular serves it well."""
    workflow("dense", directory)
    path = directory / STEP / "1/workflow/categories/unique.item_id.parquet"
    table = pyarrow.parquet.read_table(path)
    again = table.slice(table.num_rows - 1)
    column = table.schema.get_field_index("item_id")
    strange = pyarrow.array([10**15], table.schema.field(column).type)
    again = again.set_column(column, table.schema.field(column), strange)
    described = json.loads(table.schema.metadata[b"pandas"])
    described["index_columns"][0]["stop"] += 2
    longer = pyarrow.concat_tables([table, again, again])
    metadata = {**table.schema.metadata, b"pandas": json.dumps(described).encode()}
    pyarrow.parquet.write_table(longer.replace_schema_metadata(metadata), path)
    return directory


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """All workflows in both containers; after their unload nothing is left of them."""
    root = tmp_path_factory.mktemp("workflows")
    paths = {name: workflow(name, root / name) for name in NAMES}
    with contextlib.ExitStack() as stack:
        settings = {"SERVE_MODEL_ROOT": str(root)}
        both = Served(
            stack.enter_context(running(tmp_path_factory.mktemp("compiled"), **settings)),
            stack.enter_context(
                running(
                    tmp_path_factory.mktemp("original"),
                    SERVE_COMPILE="off",
                    SERVE_WARM="off",
                    **settings,
                )
            ),
        )
        wanted = [(one, name) for one in (both.compiled, both.original) for name in NAMES]
        with ThreadPoolExecutor(2) as pool:
            for answer in pool.map(lambda one: one[0].load(one[1], paths[one[1]]), wanted):
                assert answer.status_code == 200, answer.text
        yield both
        for container, name in wanted:
            answer = container.unload(name)
            assert answer.status_code == 200, answer.text
        for container in (both.compiled, both.original):
            assert not container.stubs()
            container.until_nothing_is_published()


def requests(name: str) -> Iterator[dict[str, Any]]:
    """Requests with the committed one's names and types; some categories are in no table."""
    committed = json.loads((EXAMPLES / name / "request.json").read_text())
    types = {tensor["name"]: tensor["datatype"] for tensor in committed["inputs"]}
    chance = random.Random(name)
    yield committed
    for rows in BATCH_SIZES:
        yield asked(COLUMNS[name](chance, rows), types)


def asked(columns: dict[str, Any], types: dict[str, str]) -> dict[str, Any]:
    return {
        "inputs": [
            {"name": key, "datatype": types[key], "shape": [len(data)], "data": data}
            for key, data in columns.items()
        ]
    }


def outputs(container: Container, name: str, request: dict[str, Any]) -> dict[str, str]:
    """Each output as it was written: JSON tells all floats apart, and the signs of zeros."""
    answer = container.invoke(name, request)
    assert answer.status_code == 200, answer.text
    return {tensor["name"]: json.dumps(tensor) for tensor in answer.json()["outputs"]}


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_nvtabulars(name: str, served: Served) -> None:
    """To the last bit, types and shapes too."""
    for request in requests(name):
        wanted = outputs(served.original, name, request)
        assert wanted
        assert outputs(served.compiled, name, request) == wanted


@pytest.mark.parametrize("name", NAMES)
def test_what_is_published(name: str, served: Served) -> None:
    """With the setting off it is what was delivered, in a copy of the archive's layout."""
    (compiled,), (original,) = (
        [path for path in container.serving.glob(f"{name}*") if (path / "1").is_dir()]
        for container in (served.compiled, served.original)
    )
    assert (compiled / "1/tables/program.json").is_file()
    assert not (original / "1/tables").exists()
    (delivered,) = (original / ".archive").resolve().rglob("1/model.py")
    assert delivered.resolve().is_relative_to(Path(served.original.models()[name]).resolve())


def test_values_are_counted(served: Served) -> None:
    """Those of an export whose steps are joined, beside the sizes in its category files."""
    root = Path(served.compiled.models()["dense"]).parent / "counted"
    shutil.copytree(EXAMPLES / "dense/repository", root)
    request = json.loads((EXAMPLES / "dense/request.json").read_text())
    with served.compiled.loaded("counted", root):
        assert (served.compiled.serving / f"counted/1/steps/counted.{STEP}").is_dir()
        for _ in range(3):
            outputs(served.compiled, "counted", request)
        until(lambda: count_rows(served.compiled, "counted") == 15, "all rows are counted")
        columns = counted_columns(served.compiled, "counted")
    assert {*columns} == {tensor["name"] for tensor in request["inputs"]}
    assert {(column["counted"], column["values"]) for column in columns.values()} == {(15, 15)}
    assert {name for name in columns if columns[name]["has_keys"]} == {"item_id", "user_id"}
    sent = {tensor["name"]: np.array(tensor["data"]) for tensor in request["inputs"]}
    for name in ("item_id", "user_id"):
        file = root / STEP / f"1/workflow/categories/unique.{name}.parquet"
        vocabulary, sizes = (column.to_numpy() for column in pyarrow.parquet.read_table(file))
        assert columns[name]["unseen"] == 3 * np.count_nonzero(~np.isin(sent[name], vocabulary))
        assert sum(columns[name]["buckets"]) == 15 - columns[name]["unseen"]
        assert sum(columns[name]["fitted"]["buckets"]) == sizes.sum()


def counted_columns(container: Container, name: str) -> dict[str, Any]:
    """The counts of a model with one workflow."""
    answer = container.http.get(f"/models/{name}/features")
    assert answer.status_code == 200, answer.text
    ((columns,),) = (model["workflows"].values() for model in answer.json()["models"])
    return {column["column"]: column for column in columns}


def count_rows(container: Container, name: str) -> int:
    """0 before anything has come."""
    return int(max(column["rows_seen"] for column in counted_columns(container, name).values()))


def test_the_log_says_what_is_compiled(served: Served) -> None:
    compiled = served.compiled
    until(lambda: compiled.log.count('compiled="1 of 1') >= len(NAMES), "the log says so")
    assert 'compiled="1 of 1' not in served.original.log


def resident(container: Container, name: str) -> int:
    """Bytes of the model's stub processes that are not shared with others."""
    pids = container.stubs(name)
    assert pids
    sizes = [
        int(line.split()[1])
        for pid in pids
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        if line.startswith(("Private_Clean:", "Private_Dirty:"))
    ]
    return sum(sizes) * 1024


@pytest.mark.parametrize("name", NAMES)
def test_memory(name: str, served: Served) -> None:
    """NVTabular's stub holds pandas, dask, numba and more; this one numpy."""
    compiled, original = resident(served.compiled, name), resident(served.original, name)
    assert compiled < original / 3
    assert compiled < 60 * 2**20


def test_a_broken_category_file(served: Served, tmp_path_factory: pytest.TempPathFactory) -> None:
    """NVTabular serves it, the log says why, and its answers are right."""
    root = Path(served.compiled.models()["dense"]).parent
    directory = with_a_category_twice(root / BROKEN)
    with served.compiled.loaded(BROKEN, directory):
        assert not list(served.compiled.serving.glob(f"{BROKEN}*/1/tables"))
        why = "unique.item_id.parquet has a category twice"
        until(lambda: why in served.compiled.log, "the log says why")
        for request in requests("dense"):
            wanted = outputs(served.original, "dense", request)
            assert outputs(served.compiled, BROKEN, request) == wanted
    # Its process is a warm interpreter's child: what was published goes soon behind the DELETE.
    until(lambda: not list(served.compiled.serving.glob(f"{BROKEN}*")), "nothing is left")


def test_a_category_file_that_nothing_can_read(served: Served) -> None:
    """NVTabular would fail at each request: the load is refused, as with a file that is missing."""
    directory = workflow("dense", Path(served.compiled.models()["dense"]).parent / "unreadable")
    path = directory / STEP / "1/workflow/categories/unique.item_id.parquet"
    path.write_bytes(path.read_bytes()[:-30])
    answer = served.compiled.load("unreadable", directory)
    assert answer.status_code == 400
    assert str(path) in answer.text
    assert "export it again" in answer.text
    assert not list(served.compiled.serving.glob("unreadable*"))


def in_binary(request: dict[str, Any]) -> tuple[bytes, dict[str, str]]:
    """The request with binary tensors, and the header that says so."""
    tensors = {
        tensor["name"]: np.array(tensor["data"], np.dtype(NUMPY[tensor["datatype"]])).tobytes()
        for tensor in request["inputs"]
    }
    inputs = [
        {
            **{key: value for key, value in tensor.items() if key != "data"},
            "parameters": {"binary_data_size": len(tensors[tensor["name"]])},
        }
        for tensor in request["inputs"]
    ]
    head = json.dumps({"inputs": inputs}).encode()
    kind = f"application/vnd.sagemaker-triton.binary+json;json-header-size={len(head)}"
    return head + b"".join(tensors.values()), {"Content-Type": kind}


@pytest.mark.parametrize(
    ("name", "changed", "says"),
    [
        ("dense", {"user_id": []}, " has 5 rows, and column 'user_id' has 0; "),
        ("session", {"category": [1]}, "column 'category' has 1 rows, and column 'item_id' has 19"),
        ("dense", None, "the request has no rows: "),
        ("session", None, "the request has no rows: "),
        ("ragged", {"genres__offsets": [0, 3, 4, 4, 6, 99]}, "column 'genres': the last offset is"),
        ("ragged", {"genres__offsets": [0, 5, 3, 4, 6, 13]}, "column 'genres': the offset 3 comes"),
        ("ragged", {"genres__offsets": [0, -1, 3, 4, 6, 13]}, "the offset -1 comes after 0; "),
        ("ragged", {"genres__offsets": []}, "column 'genres': the last offset is missing"),
        ("ragged", {"genres__values": []}, "column 'genres': the last offset is 13"),
    ],
)
def test_mistakes_are_told_alike(
    name: str, changed: dict[str, Any] | None, says: str, served: Served
) -> None:
    """400 in the same words, from NVTabular too, and whether the data are JSON or binary."""
    good = json.loads((EXAMPLES / name / "request.json").read_text())
    types = {tensor["name"]: tensor["datatype"] for tensor in good["inputs"]}
    columns = {tensor["name"]: tensor["data"] for tensor in good["inputs"]}
    if changed is None:
        changed = {key: [] for key in columns}
    request = asked(columns | changed, types)
    binary, headers = in_binary(request)
    for container in (served.compiled, served.original):
        for answer in (
            container.invoke(name, request),
            container.invoke(name, binary, **headers),
        ):
            assert answer.status_code == 400
            said = answer.json()["error"]
            assert says in said
            assert STEP not in said


@pytest.mark.parametrize(
    ("name", "changed", "column"),
    [
        ("dense", {"age": [1.0, 2.0]}, "age"),
        ("dense", {"age": None}, "age"),
        ("dense", {"user_id": []}, "user_id"),
        ("ragged", {"genres__offsets": [0, 1, 2, 3, 4, 10**6]}, "genres"),
        ("ragged", {"genres__offsets": [0, 3, 1, 1, 1, 1]}, "genres"),
        ("ragged", {"genres__values": []}, "genres"),
        ("session", {"timestamp": [1]}, "timestamp"),
    ],
)
def test_malformed_requests(
    name: str, changed: dict[str, Any], column: str, served: Served
) -> None:
    """An error that names the column; the next request is answered."""
    good = json.loads((EXAMPLES / name / "request.json").read_text())
    types = {tensor["name"]: tensor["datatype"] for tensor in good["inputs"]}
    columns = {tensor["name"]: tensor["data"] for tensor in good["inputs"]} | changed
    columns = {key: data for key, data in columns.items() if data is not None}
    answer = served.compiled.invoke(name, asked(columns, types))
    assert answer.status_code == 400
    assert column in answer.text
    assert outputs(served.compiled, name, good)


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_an_earlier_load(name: str, served: Served) -> None:
    """An archive with a workflow that was loaded before: one set of tables, and the same bytes."""
    container = served.compiled

    def count_hits() -> float:
        (line,) = re.findall(
            r'serve_tables_total\{result="hit"\} (.*)', container.http.get("/metrics").text
        )
        return float(line)

    def find_tables(model: str) -> dict[str, int]:
        (directory,) = (container.serving / model).glob("*/tables")
        return {path.name: path.stat().st_ino for path in directory.glob("*.npy")}

    hits = count_hits()
    root = Path(container.models()[name]).parent
    again = f"second-{name}"
    with container.loaded(again, workflow(name, root / again)):
        assert count_hits() == hits + 1
        assert find_tables(again) == find_tables(name)
        for request in requests(name):
            first, second = (container.invoke(model, request) for model in (name, again))
            assert (second.status_code, second.json()["outputs"]) == (200, first.json()["outputs"])
