"""tritonserver up to 24.05 starts a dead stub again by itself, and so does the container's reload.

Stubs of the real 2.36 are killed at different moments under traffic: every caller gets his answer,
and in the end each model has as many stubs as it had, none of them older than the last death.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import TRITON_2_36, Container, running, until
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH

OLD = pytest.mark.parametrize("triton", ["2.36"], indirect=True)
CALLERS = 6
LOST, BACK = "a model's Triton models were lost", "the model was loaded again"
#: tritonserver's own words for it.
STARTED_AGAIN = "Stub process is unhealthy and it will be restarted"


@dataclass
class Attacked:
    """The model m1 of two steps, the first with three stubs.

    answering: a file with the ids of the second step's stubs, one for each answer. before: how much
    the log said before.
    """

    container: Container
    answering: Path
    before: int

    @property
    def said(self) -> str:
        """What the log has said since."""
        return self.container.log[self.before :]

    def until_said(self, words: str, times: int = 1) -> None:
        until(lambda: self.said.count(words) >= times, words, self.container)

    def kill(self, step: str) -> None:
        """kill -9 of the stubs that it has now."""
        for pid in self.container.stubs(f"m1.{step}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def all_at_once(attacked: Attacked) -> None:
    """Of both steps."""
    attacked.kill("add0")
    attacked.kill("add1")
    attacked.until_said(BACK)


def that_which_tritonserver_started(attacked: Attacked) -> None:
    """Once it has answered those who waited in tritonserver, and before it is unloaded."""
    (first,) = attacked.container.stubs("m1.add1")
    attacked.kill("add1")

    def answers() -> list[int]:
        return [pid for pid in map(int, attacked.answering.read_text().split()) if pid != first]

    until(answers, "another one answers", attacked.container)
    with contextlib.suppress(ProcessLookupError):
        os.kill(answers()[0], signal.SIGKILL)
    attacked.until_said(BACK)


def another_step_while_it_is_unloaded(attacked: Attacked) -> None:
    """Just when tritonserver is about to tell the stub to finalize."""
    attacked.kill("add1")
    attacked.until_said(LOST)
    attacked.until_said("successfully unloaded")
    time.sleep(0.4)  # of the second that it takes for that
    attacked.kill("add0")
    attacked.until_said(BACK)


def twice_in_a_row(attacked: Attacked) -> None:
    """As soon as the model is back."""
    attacked.kill("add0")
    attacked.until_said(BACK)
    already = attacked.said.count(STARTED_AGAIN)
    attacked.kill("add0")
    attacked.until_said(STARTED_AGAIN, already + 1)


#: Adds 2, slowly, so that others wait for it in tritonserver; notes its id in the file `marker`.
SLOW_ADDER = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        time.sleep(0.02)
        with open(self.words["marker"], "a") as file:
            file.write("%d\\n" % os.getpid())
        return respond(request, values + 2)
"""


def written(answering: Path) -> dict[str, models.Writable]:
    three = replace(models.adder(1), more="instance_group { kind: KIND_CPU count: 2 }\n")
    slow = models.PythonModel(SLOW_ADDER, parameters={"marker": answering})
    return {"add0": three, "add1": slow, "sum": models.Chain(("add0", "add1"))}


@contextlib.contextmanager
def traffic(container: Container) -> Iterator[list[tuple[float, httpx.Response]]]:
    """Callers who ask on and on, for as long as the block lasts; what each was answered."""
    answered: list[tuple[float, httpx.Response]] = []
    stop = threading.Event()

    def call(caller: int) -> None:
        number = 1000.0 * caller
        while not stop.is_set():
            number += 1
            answered.append((number, container.invoke("m1", infer([number]))))

    with ThreadPoolExecutor(CALLERS) as pool:
        calling = [pool.submit(call, caller) for caller in range(CALLERS)]
        try:
            yield answered
        finally:
            stop.set()
    for caller in calling:
        caller.result()


@pytest.mark.thorough
@OLD
@pytest.mark.parametrize(
    "attack",
    [
        all_at_once,
        that_which_tritonserver_started,
        another_step_while_it_is_unloaded,
        twice_in_a_row,
    ],
)
def test_stubs_that_die_under_traffic(
    attack: Callable[[Attacked], None], mortal: Container, archive: Archive, tmp_path: Path
) -> None:
    """Each request is answered rightly, or with one sentence; and there is no stub too many."""
    attacked = Attacked(mortal, tmp_path / "answering", len(mortal.log))
    with mortal.loaded("m1", archive(**written(attacked.answering))):
        first = mortal.stubs("m1.add0") | mortal.stubs("m1.add1")
        assert len(first) == 4
        with traffic(mortal) as answered:
            until(lambda: len(answered) > CALLERS, "they are answered", mortal)
            attack(attacked)
            since = len(answered)
            until(lambda: len(answered) > since + 5 * CALLERS, "they are again", mortal)
        for number, answer in answered:
            if answer.status_code == 200:
                assert values(answer) == [number + 3.0]
            else:
                assert answer.status_code == 500, answer.text
                assert "m1" in complaint(answer)
        assert values(mortal.invoke("m1", infer([1]))) == [4.0]
        until(
            lambda: (
                not first & mortal.stubs()
                and (len(mortal.stubs("m1.add0")), len(mortal.stubs("m1.add1"))) == (3, 1)
            ),
            "there are as many as there were",
            mortal,
        )
        assert mortal.models().keys() == {"m1", WITNESS}


@BOTH
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_an_unload_of_what_is_dead(when: str, mortal: Container, archive: Archive) -> None:
    """Of a model whose stub died before, or dies in the second before it is told to finalize.

    tritonserver, of both versions, waits for its last word for ever; the unload does not, nor does
    the next load.
    """
    directory = archive(m=models.adder(3))
    assert mortal.load("m1", directory).status_code == 200
    (stub,) = mortal.stubs("m1")
    with ThreadPoolExecutor(1) as pool:
        if when == "before":
            os.kill(stub, signal.SIGKILL)
            until(lambda: stub not in mortal.stubs("m1"), "the stub is gone")
        unloading = pool.submit(mortal.unload, "m1")
        if when == "meanwhile":
            time.sleep(0.4)
            with contextlib.suppress(ProcessLookupError):
                os.kill(stub, signal.SIGKILL)
        assert unloading.result().status_code == 200
    with mortal.loaded("m1", directory):
        assert values(mortal.invoke("m1", infer([1]))) == [4.0]


#: Kills its own process while it is started, once, if the file `armed` exists.
FAILING_ONCE = """
class TritonPythonModel(Each):
    def initialize(self, args):
        super().initialize(args)
        if os.path.exists(self.words["armed"]):
            os.unlink(self.words["armed"])
            os.kill(os.getpid(), signal.SIGKILL)

    def answer(self, request, values):
        time.sleep(0.02)
        return respond(request, values)
"""


@pytest.mark.tritonserver
def test_a_stub_that_tritonserver_cannot_start_again(tmp_path: Path) -> None:
    """As for want of memory. 2.36 dies of the requests that wait for it; then all comes back."""
    armed = tmp_path / "armed"
    with running(tmp_path, SERVE_TRITON_SERVER=str(TRITON_2_36)) as container:
        failing = models.PythonModel(FAILING_ONCE, parameters={"armed": armed})
        for name, model in {"m1": failing, "neighbour": models.adder(3)}.items():
            archive = models.write_archive(container.model_root / name / "model", {"m": model})
            assert container.load(name, archive).status_code == 200
        armed.touch()
        (first,) = container.stubs("m1")
        with ThreadPoolExecutor(CALLERS) as pool:
            os.kill(first, signal.SIGKILL)
            sent = [pool.submit(container.invoke, "m1", infer([n])) for n in range(CALLERS)]
            for n, future in enumerate(sent):
                answer = future.result()
                if answer.status_code == 200:
                    assert values(answer) == [float(n)]
                else:
                    assert answer.status_code == 503, answer.text
                    assert "tritonserver" in complaint(answer)
        assert not armed.exists()
        until(lambda: container.ping() == 200, "/ping is 200", container)
        for name, expected in (("m1", 1.0), ("neighbour", 4.0)):
            until(
                lambda name=name: container.invoke(name, infer([1])).status_code == 200,  # type: ignore[misc]
                f"{name} answers",
                container,
            )
            assert values(container.invoke(name, infer([1]))) == [expected]
        until(lambda: len(container.stubs()) == 2, "there are as many as there were", container)
        assert first not in container.stubs()
