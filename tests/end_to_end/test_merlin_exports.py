"""Every committed Merlin export answers, through the container, what Merlin computes.

The truths are two: the numbers that Merlin computed offline when the export was made, and the
executor model of the same export, served by a tritonserver without the container.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import EXAMPLES, EXPORTS
from tests.support.container import Container, running
from tests.support.plain_triton import PlainTriton, plain_triton
from tests.support.protocol import binary_values, sized, values

#: float32 has 24 bits; between the offline run in one process and a server, on another CPU, sums of
#: some dozen products may be taken in another order: some units in the last place, 6e-8 each.
RELATIVE = 1e-6
ABSOLUTE = 1e-7
SEED = 20_240_501
BATCH_SIZES = (1, 5, 64, *range(2, 19))  # 20 requests

Request = dict[str, Any]


def _read(name: str, file: str) -> Any:
    return json.loads((EXAMPLES / name / file).read_text())


def check_outputs(outputs: list[Any], expected: list[Any]) -> None:
    """Names, types and shapes are equal, whole numbers exactly, others within the tolerance."""
    assert {tensor["name"] for tensor in outputs} == {tensor["name"] for tensor in expected}
    found = {tensor["name"]: tensor for tensor in outputs}
    for tensor in expected:
        answer = found[tensor["name"]]
        assert (answer["datatype"], answer["shape"]) == (tensor["datatype"], tensor["shape"])
        if tensor["datatype"].startswith("FP"):
            assert answer["data"] == pytest.approx(tensor["data"], rel=RELATIVE, abs=ABSOLUTE)
        else:
            assert answer["data"] == tensor["data"]


@pytest.mark.parametrize("name", EXPORTS)
def test_offline_numbers(name: str, exports: Container) -> None:
    """The committed request is answered with the numbers that Merlin computed offline."""
    answer = exports.invoke(name, _read(name, "request.json"))
    assert answer.status_code == 200, answer.text
    check_outputs(answer.json()["outputs"], _read(name, "expected.json")["outputs"])


def _children(name: str) -> set[str]:
    return {f"{name}.{path.name}" for path in (EXAMPLES / name / "repository").glob("[0-9]_*")}


@pytest.mark.parametrize("name", EXPORTS)
def test_served_by_one_process(name: str, exports: Container) -> None:
    """The executor is not run: its children are, by a child of a warm interpreter."""
    assert not list(exports.serving.glob(f"{name}.*"))
    assert {path.name for path in exports.serving.glob(f"{name}/1/steps/*")} == _children(name)
    assert len(exports.stubs(name)) == 1


@pytest.fixture(scope="module")
def ensembles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """All exports, each an ensemble that tritonserver runs, as it is asked for."""
    directory: Path = tmp_path_factory.mktemp("ensembles")
    with running(directory, SERVE_MODEL_ROOT=str(EXAMPLES), SERVE_REWRITE="ensemble") as container:
        for name in EXPORTS:
            assert container.load(name, EXAMPLES / name / "repository").status_code == 200
        yield container


@pytest.mark.parametrize("name", EXPORTS)
def test_served_as_an_ensemble(name: str, ensembles: Container) -> None:
    """tritonserver runs the children, and the numbers are the same."""
    assert (ensembles.serving / name / "config.pbtxt").read_text().count("model_name") >= 2
    assert not ensembles.stubs(name)
    assert {path.name for path in ensembles.serving.glob(f"{name}.*")} == _children(name)
    answer = ensembles.invoke(name, _read(name, "request.json"))
    assert answer.status_code == 200, answer.text
    check_outputs(answer.json()["outputs"], _read(name, "expected.json")["outputs"])


@pytest.mark.parametrize("name", EXPORTS)
def test_the_same_refusals(name: str, exports: Container, ensembles: Container) -> None:
    """What a step refuses is told in the same words, whoever runs the steps."""
    request = _read(name, "request.json")
    longest = max(request["inputs"], key=lambda tensor: len(tensor["data"]))
    longest["data"].append(longest["data"][-1])
    longest["shape"][0] += 1
    joined, apart = (on.invoke(name, request) for on in (exports, ensembles))
    assert (joined.status_code, joined.text) == (apart.status_code, apart.text)
    assert joined.status_code == 400


def test_no_export_answers_for_another(exports: Container) -> None:
    """The exports have the same step names, and each refuses the others' requests."""
    requests = {name: _read(name, "request.json") for name in EXPORTS}
    columns = {
        name: {tensor["name"] for tensor in request["inputs"]} for name, request in requests.items()
    }
    for name in EXPORTS:
        for other in EXPORTS:
            if columns[name] != columns[other]:
                assert exports.invoke(name, requests[other]).status_code == 400


def test_binary_answer(exports: Container) -> None:
    """A binary answer holds the same bits as the JSON one."""
    request = _read("dense", "request.json")
    text = json.dumps({**request, "parameters": {"binary_data_output": True}}).encode()
    answer = exports.invoke("dense", text, Content_Type=sized(len(text)))
    _, _, size = answer.headers["content-type"].partition("json-header-size=")
    assert int(size) < len(answer.content)
    plain = values(exports.invoke("dense", request), "click")
    assert binary_values(answer, "click") == pytest.approx(plain, rel=0, abs=0)


# --- the executor itself --------------------------------------------------------------------------


def _dense(chance: random.Random, rows: int) -> Request:
    return {
        "user_id": [chance.choice([*range(1000, 1020), 5, -7, 10**12]) for _ in range(rows)],
        "item_id": [chance.choice([*range(30), 99999, -1]) for _ in range(rows)],
        "age": [round(chance.uniform(0, 100), 3) for _ in range(rows)],
        "price": [chance.uniform(0, 200) for _ in range(rows)],
        "visits": [chance.randrange(10**6) for _ in range(rows)],
    }


def _two_workflows(chance: random.Random, rows: int) -> Request:
    columns = _dense(chance, rows)
    del columns["visits"]
    return columns


def _ragged(chance: random.Random, rows: int) -> Request:
    lengths = [chance.randrange(8) for _ in range(rows)]
    lengths[0] = lengths[0] or 1
    offsets = [sum(lengths[:row]) for row in range(rows + 1)]
    return {
        "user_id": [chance.choice([*range(1000, 1020), 5, -7]) for _ in range(rows)],
        "genres__values": [chance.choice([*range(15), 99999]) for _ in range(offsets[-1])],
        "genres__offsets": offsets,
        "price": [chance.uniform(0, 200) for _ in range(rows)],
    }


def _session(chance: random.Random, rows: int) -> Request:
    sessions = [session for session in range(1, rows + 1) for _ in range(chance.randrange(1, 13))]
    chance.shuffle(sessions)
    count = len(sessions)
    return {
        "item_id": [chance.choice([*range(100, 112), 99999]) for _ in range(count)],
        "category": [chance.choice([1, 2, 3, 4, 77]) for _ in range(count)],
        "timestamp": chance.sample(range(10 * count), count),
        "session_id": sessions,
    }


COLUMNS: dict[str, Callable[[random.Random, int], Request]] = {
    "dense": _dense,
    "ragged": _ragged,
    "session": _session,
    "two_workflows": _two_workflows,
}


def _random_requests(name: str) -> list[Request]:
    """Requests with the committed one's names and types; some categories are in no table."""
    chance = random.Random(f"{SEED} {name}")
    types = {tensor["name"]: tensor["datatype"] for tensor in _read(name, "request.json")["inputs"]}
    requests = []
    for rows in BATCH_SIZES:
        columns = COLUMNS[name](chance, rows)
        assert columns.keys() == types.keys()
        requests.append(
            {
                "inputs": [
                    {"name": key, "datatype": types[key], "shape": [len(data)], "data": data}
                    for key, data in columns.items()
                ]
            }
        )
    return requests


#: Each executor imports Merlin and NVTabular, which takes seconds.
_MORE = {"dense", "ragged", "two_workflows"}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.thorough if name in _MORE else ()) for name in EXPORTS
    ],
)
def executor(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, PlainTriton]]:
    """An export's name, and its executor model served as Merlin wrote it."""
    name: str = request.param
    repository: Path = EXAMPLES / name / "repository"
    children = sorted(path.name for path in repository.glob("[0-9]_*"))
    with plain_triton(
        tmp_path_factory.mktemp(f"plain_{name}"), repository, [*children, "executor_model"]
    ) as server:
        yield name, server


def test_executor_offline_numbers(executor: tuple[str, PlainTriton]) -> None:
    """The executor answers the offline numbers too: it may stand for the truth below."""
    name, server = executor
    answer = server.infer("executor_model", _read(name, "request.json"))
    assert answer.status_code == 200, answer.text
    check_outputs(answer.json()["outputs"], _read(name, "expected.json")["outputs"])


def test_equal_to_the_executor(executor: tuple[str, PlainTriton], exports: Container) -> None:
    """On random requests the ensemble's numbers are the executor's, to the last bit."""
    name, server = executor
    for request in _random_requests(name):
        truth = server.infer("executor_model", request)
        assert truth.status_code == 200, truth.text
        answer = exports.invoke(name, request)
        assert answer.status_code == 200, answer.text
        wanted = {tensor["name"]: tensor for tensor in truth.json()["outputs"]}
        found = {tensor["name"]: tensor for tensor in answer.json()["outputs"]}
        assert found == wanted
