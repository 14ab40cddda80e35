"""SERVE_COMPILE_CHECK: a compiled workflow that errs is noticed, and NVTabular serves the model."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from ensemble_tools import (
    Namespace,
    compile_plan,
    plan,
    publish,
    read_executor_graph,
    read_repository,
    write_tables,
)
from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.serving.workflow_check import Verdict
from tests.end_to_end.conftest import EXAMPLES
from tests.support.check_program import CheckProgram, check_program
from tests.support.container import running

DAMAGED = "tests.support.damaged_container"
STEP = "dense.0_transformworkflowtriton"

Damage = Callable[[Path], None]


def _numbers(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return {tensor["name"]: tensor["data"] for tensor in answer.json()["outputs"]}


def _read(name: str) -> Any:
    return json.loads((EXAMPLES / "dense" / name).read_text())


def _expected() -> Any:
    outputs = _read("expected.json")["outputs"]
    return {tensor["name"]: pytest.approx(tensor["data"], rel=1e-6) for tensor in outputs}


def _settings(check: bool) -> dict[str, str]:
    return {"SERVE_MODEL_ROOT": str(EXAMPLES), "SERVE_COMPILE_CHECK": str(check).lower()}


@pytest.mark.parametrize("check", [True, False])
def test_a_damaged_table(tmp_path: Path, check: bool) -> None:
    """With the check NVTabular answers, and the log says why; without it the numbers are wrong."""
    with running(tmp_path, program=DAMAGED, **_settings(check)) as container:
        with container.loaded("dense", EXAMPLES / "dense/repository"):
            numbers = _numbers(container.invoke("dense", _read("request.json")))
            assert (numbers == _expected()) == check
            joined = container.serving / "dense/1/steps" / STEP
            version = (container.serving / STEP if check else joined) / "1"
            assert (version / "tables").exists() != check
            assert joined.exists() != check
        reason = "compiled, it differs from NVTabular (usual values, 1 row: tensor 'user_id': 1 of"
        assert (reason in container.log) == check
        container.until_nothing_is_published()


def test_workflows_that_are_equal(tmp_path: Path) -> None:
    """They are served compiled, and the log says what was asked of each."""
    names = ("dense", "ragged", "session")
    with running(tmp_path, **_settings(True)) as container:
        for name in names:
            with container.loaded(name, EXAMPLES / name / "repository"):
                (step,) = container.serving.glob(f"{name}/1/steps/{name}.0_*")
                assert (step / "1/tables").exists()
        assert container.log.count("a compiled workflow is NVTabular's equal") == len(names)
        assert container.log.count('compiled="1 of 1') == len(names)
        assert "not_compiled" not in container.log


@pytest.fixture(scope="module")
def program() -> Iterator[CheckProgram]:
    """The check's program for all that is asked of it alone; the containers above start it."""
    with check_program() as running_program:
        yield running_program


def _one_label(tables: Path) -> None:
    labels = np.load(tables / "0.beside.0.npy")
    labels[len(labels) // 2] += 1
    np.save(tables / "0.beside.0.npy", labels)


def _program(tables: Path, change: Callable[[dict[str, Any]], None]) -> None:
    written = json.loads((tables / "program.json").read_text())
    change(written)
    (tables / "program.json").write_text(json.dumps(written))


def _slightly_other_mean(tables: Path) -> None:
    def change(written: dict[str, Any]) -> None:
        step = next(step for step in written["steps"] if step["operation"] == "normalize")
        mean = step["given"]["mean"]
        value = mean["value"] if isinstance(mean, dict) else mean
        step["given"]["mean"] = {"dtype": "float64", "value": value * (1 + 1e-6)}

    _program(tables, change)


def _one_category_less(tables: Path) -> None:
    for part in ("0.keys", "beside.0"):
        path = tables / f"0.{part}.npy"
        np.save(path, np.load(path)[:-1])


@pytest.mark.parametrize(
    ("damage", "tensor"),
    [
        (None, ""),
        (_one_label, "user_id"),
        (_one_category_less, "user_id"),
        (_slightly_other_mean, "age"),
    ],
)
def test_the_program_notices(
    tmp_path: Path, damage: Damage | None, tensor: str, program: CheckProgram
) -> None:
    """One label, one category that is not there, a mean that is a millionth too large."""
    found: list[Verdict] = []

    def check(model: PublishedModel, directory: Path) -> str:
        if damage is not None:
            damage(directory / "1/tables")
        found.append(program.ask(model, directory))
        assert not list(directory.rglob("__pycache__"))
        return found[-1].reason

    repository = read_repository(EXAMPLES / "dense/repository")
    served = plan(repository, read_executor_graph(repository), Namespace("m"))
    served = compile_plan(served, repository)
    published = publish(served, tmp_path, write_tables, check)
    (step,) = (model for model in published.models if model.source_name.startswith("0_"))
    assert (step.compiled is not None) == (not tensor)
    if tensor:
        assert step.not_compiled.startswith("compiled, it differs from NVTabular (")
        assert f"tensor '{tensor}" in step.not_compiled
        assert not (tmp_path / step.triton_name / "1/tables").exists()
    else:
        (verdict,) = found
        assert verdict.asked - 1 == verdict.answered  # NVTabular refuses a request without rows
    assert {path.name for path in tmp_path.iterdir()} == set(published.triton_names)
