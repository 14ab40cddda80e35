"""The committed Merlin exports served as the executor itself, in a namespace beside each other."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import EXAMPLES, EXPORTS
from tests.support.container import Container, running, until

#: As in test_exports: sums of some dozen float32 products in another order on another CPU.
RELATIVE = 1e-6
ABSOLUTE = 1e-7
#: Nine Merlin processes and four with torch start, two models at once, on a small machine.


@pytest.fixture(scope="module")
def executors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """All exports, each as its executor; their unloading leaves nothing."""
    directory: Path = tmp_path_factory.mktemp("executors")
    with (
        running(directory, SERVE_MODEL_ROOT=str(EXAMPLES), SERVE_REWRITE="executor") as container,
        ThreadPoolExecutor(2) as pool,
    ):
        paths = [EXAMPLES / name / "repository" for name in EXPORTS]
        for answer in pool.map(container.load, EXPORTS, paths):
            assert answer.status_code == 200, answer.text
        yield container
        for answer in pool.map(container.unload, EXPORTS):
            assert answer.status_code == 200, answer.text
        assert not container.stubs()
        container.until_nothing_is_published()


def _read(name: str, file: str) -> Any:
    return json.loads((EXAMPLES / name / file).read_text())


def _check(container: Container, name: str) -> None:
    """The committed request is answered with the numbers that Merlin computed offline."""
    answer = container.invoke(name, _read(name, "request.json"))
    assert answer.status_code == 200, answer.text
    found = {tensor["name"]: tensor for tensor in answer.json()["outputs"]}
    for wanted in _read(name, "expected.json")["outputs"]:
        tensor = found.pop(wanted["name"])
        assert (tensor["datatype"], tensor["shape"]) == (wanted["datatype"], wanted["shape"])
        assert tensor["data"] == pytest.approx(wanted["data"], rel=RELATIVE, abs=ABSOLUTE)
    assert not found


@pytest.mark.parametrize("name", EXPORTS)
def test_offline_numbers(name: str, executors: Container) -> None:
    """Each executor reaches its own children, though all archives use the same names for them."""
    _check(executors, name)


@pytest.mark.parametrize("name", EXPORTS)
def test_served_as_the_executor(name: str, executors: Container) -> None:
    """Merlin's model.py runs; its children are loaded for it, under its namespace."""
    assert len(executors.stubs(name)) == 1
    children = {path.name for path in (EXAMPLES / name / "repository").glob("[0-9]_*")}
    served = {path.name for path in executors.serving.glob(f"{name}.*")}
    assert served == {f"{name}.{child}" for child in children}
    delivered = executors.serving / name / ".archive" / name / "executor_model/1/model.py"
    assert delivered.resolve() == EXAMPLES / name / "repository/executor_model/1/model.py"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (4, "refused by design: column 'item_id' has 5 rows, and column 'user_id' has 4; "),
        (0, "refused by design: column 'item_id' has 5 rows, and column 'user_id' has 0; "),
        (None, "the request has no rows: Categorify of "),
    ],
)
def test_columns_that_do_not_fit(rows: int | None, said: str, executors: Container) -> None:
    """A 400 that names them, as from the other forms, whatever Merlin says of them."""
    request = _read("dense", "request.json")
    for column in request["inputs"] if rows is None else request["inputs"][:1]:
        column["data"] = column["data"][: rows or 0]
        column["shape"] = [rows or 0]
    answer = executors.invoke("dense", request)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(said)


def test_a_child_that_dies(executors: Container) -> None:
    """The request that meets a child's dead stub, through Merlin's traceback, is answered."""
    child = "dense.0_transformworkflowtriton"
    for pid in executors.stubs(child):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not executors.stubs(child), "the stub is gone")
    _check(executors, "dense")
    assert len(executors.stubs(child)) == 1
