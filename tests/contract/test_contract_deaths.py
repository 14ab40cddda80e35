"""Processes die: stubs, and tritonserver."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container, running, until
from tests.support.protocol import complaint, infer, values
from tests.support.slow_triton import slow_to_start_again
from tests.support.tritons import BOTH


def _kill_stubs(container: Container, triton_name: str) -> None:
    """kill -9, and wait until they are no more."""
    killed = container.stubs(triton_name)
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not killed & container.stubs(triton_name), "the stubs are gone")


#: Callers that come together.
CALLERS = 20


@BOTH
@pytest.mark.parametrize("dying", ["m1", "m1.add1"])
def test_killed_stub(dying: str, mortal: Container, archive: Archive) -> None:
    """Every request that meets a dead stub is answered: the model is loaded again under it."""
    directory = archive(m=models.adder(3)) if dying == "m1" else models.sums(archive(), [0, 1, 2])
    with mortal.loaded("m1", directory), ThreadPoolExecutor(CALLERS) as pool:
        _kill_stubs(mortal, dying)
        sent = [pool.submit(mortal.invoke, "m1", infer([n])) for n in range(CALLERS)]
        answers = [values(future.result()) for future in sent]
        assert answers == [[n + 3.0] for n in range(CALLERS)]
        assert mortal.models().keys() == {"m1", WITNESS}
        assert len(mortal.stubs(dying)) == 1


@BOTH
def test_killed_instance(mortal: Container, archive: Archive) -> None:
    """The other instance of the lost model, which 2.51 never releases, is ended as well."""
    two = replace(models.adder(3), more="instance_group { kind: KIND_CPU count: 1 }\n")
    with mortal.loaded("m1", archive(m=two)), ThreadPoolExecutor(CALLERS) as pool:
        old = mortal.stubs("m1")
        assert len(old) == 2
        killed = min(old)
        os.kill(killed, signal.SIGKILL)
        until(lambda: killed not in mortal.stubs("m1"), "the stub is gone")
        for _ in range(10):  # until one meets the dead stub
            sent = [pool.submit(mortal.invoke, "m1", infer([n])) for n in range(CALLERS)]
            answers = [values(future.result()) for future in sent]
            assert answers == [[n + 3.0] for n in range(CALLERS)]
        until(lambda: not old & mortal.stubs("m1"), "the older generation is gone", mortal)
        assert len(mortal.stubs("m1")) == 2


@BOTH
def test_killed_during_a_request(mortal: Container, archive: Archive, tmp_path: Path) -> None:
    """A request that is under way when its stub dies is answered after the model is back."""
    marker = tmp_path / "marker"
    with (
        mortal.loaded("m1", archive(m=models.slow(marker))),
        ThreadPoolExecutor(1) as pool,
    ):
        sent = pool.submit(mortal.invoke, "m1", infer([1.5]))
        until(marker.exists, "the model runs")
        _kill_stubs(mortal, "m1")
        assert values(sent.result()) == [1.5]


@BOTH
def test_a_model_that_kills_itself(mortal: Container, archive: Archive) -> None:
    """A model that dies of each request gets a 500 each time, and the others are fine."""
    with mortal.loaded("m1", archive(m=models.killing)), ThreadPoolExecutor(8) as pool:
        fatal = [pool.submit(mortal.invoke, "m1", infer([1])) for _ in range(3)]
        others = [pool.submit(mortal.invoke, WITNESS, infer([n])) for n in range(20)]
        assert [values(future.result()) for future in others] == [[n + 3.0] for n in range(20)]
        for future in fatal:
            answer = future.result()
            assert answer.status_code == 500, answer.text
            assert "m1" in complaint(answer)
        assert "m1" in mortal.models()


@BOTH
def test_killed_tritonserver(triton: Mapping[str, str], tmp_path: Path) -> None:
    """A killed tritonserver comes back with its models; until then /ping says so, nothing hangs."""
    go = tmp_path / "go"  # or nobody may see the 503
    slow = slow_to_start_again(tmp_path, triton.get("SERVE_TRITON_SERVER"), go)
    with running(tmp_path, SERVE_TRITON_SERVER=slow) as container:
        directory = models.sums(container.model_root / "one/model", [1, 2])
        single = models.write_archive(container.model_root / "two/model", {"m": models.named})
        with container.loaded("m.1", directory), container.loaded("m2", single):
            first = container.triton()
            old = container.stubs()
            os.kill(first, signal.SIGKILL)
            with ThreadPoolExecutor(8) as pool:
                sent = [pool.submit(container.invoke, "m.1", infer([n])) for n in range(8)]
                until(lambda: container.ping() == 503, "/ping is 503", container)
                assert container.models().keys() == {"m.1", "m2"}
                go.touch()
                for n, future in enumerate(sent):
                    _check_met_a_restart(future.result(), [n + 3.0])
            until(lambda: container.ping() == 200, "/ping is 200 again", container)
            _until_answers(container, "m.1", [4.0])
            assert values(container.invoke("m2", infer([5])), "WHO") == ["m"]
            assert container.models().keys() == {"m.1", "m2"}
            assert container.triton() != first
            assert not old & container.stubs()
            assert len(container.stubs()) == 3
            assert len(container.regions()) == 3
        assert values_of_a_new_load(container) == [6.0]


def _check_met_a_restart(answer: httpx.Response, expected: list[float]) -> None:
    """Answered before or after; between them a 503 that says so, never a wrong model or number."""
    if answer.status_code == 503:
        assert "tritonserver" in complaint(answer)
    else:
        assert values(answer) == expected


def _until_answers(container: Container, name: str, expected: list[float]) -> None:
    def answers() -> bool:
        answer = container.invoke(name, infer([1]))
        _check_met_a_restart(answer, expected)
        return answer.status_code == 200

    until(answers, f"{name} answers", container)


def values_of_a_new_load(container: Container) -> list[object]:
    """A model can be loaded into a restarted tritonserver."""
    directory = models.write_archive(container.model_root / "three/model", {"m": models.adder(5)})
    with container.loaded("m3", directory):
        return values(container.invoke("m3", infer([1])))


#: Not at once: 2.51 dies when a step errs while the others are still being started.
RAISING_LATER = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        time.sleep(0.2)
        raise ValueError("these values are not welcome")
"""
BRANCHED = """platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
output { name: "OTHER" data_type: TYPE_FP32 dims: [-1] }
ensemble_scheduling {
  step { model_name: "raising" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OTHER" } }
  step { model_name: "slow" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } }
}
"""


@BOTH
def test_unload_after_an_error_beside_a_running_step(
    triton: Mapping[str, str], tmp_path: Path
) -> None:
    """tritonserver never releases such a request; the unload ends all the same, and a new load.

    So does the container, whose last request is such a one.
    """
    with running(tmp_path, **triton) as container:
        directory = models.write_archive(
            container.model_root / "hash/model",
            {
                "raising": models.PythonModel(RAISING_LATER),
                "slow": models.slow(tmp_path / "marker"),
            },
        )
        (directory / "e/1").mkdir(parents=True)
        (directory / "e/config.pbtxt").write_text(BRANCHED)
        assert container.load("m1", directory).status_code == 200
        _errs(container)
        assert container.unload("m1").status_code == 200
        assert container.models() == {}
        assert not container.stubs()
        assert container.load("m1", directory).status_code == 200
        _errs(container)


def _errs(container: Container) -> None:
    refused = container.invoke("m1", infer([1.0]))
    assert refused.status_code in (400, 500)  # 2.36 answers everything with 400
    assert "not welcome" in complaint(refused)
