"""What kills tritonserver twice does not reach it again, and the others notice nothing after that.

The killers are Python models that kill their parent: what they do no reader of requests or archives
can foresee.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import Container, running, until
from tests.support.protocol import complaint, infer, values
from tests.support.quick_container import told

#: tritonserver lives again, and all its models are back.
BACK_S = 60.0


@pytest.fixture(scope="module")
def hurt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """A container of its own, which ends at the second death that nobody explains."""
    environment: Mapping[str, str] = {"SERVE_MEMORY_RESERVE_MB": "0"}
    few = Constants(restart_limit=1, restart_window_s=600)
    with running(tmp_path_factory.mktemp("hurt"), **told(few), **environment) as container:
        for name in ("n1", "n2"):
            archive = write(container, name, m=models.adder(3))
            assert container.load(name, archive).status_code == 200
        yield container


def write(container: Container, name: str, **written: models.Writable) -> Path:
    return models.write_archive(container.model_root / name / "model", written)


def neighbours_answer(container: Container) -> None:
    """Also when they have to be brought back first."""
    for name in ("n1", "n2"):
        until(lambda name=name: _answers(container, name), f"{name} answers", container, BACK_S)  # type: ignore[misc]


def _answers(container: Container, name: str) -> bool:
    answer = container.invoke(name, infer([1]))
    if answer.status_code == 200:
        assert values(answer) == [4.0]
    else:
        assert answer.status_code == 503, answer.text
    return answer.status_code == 200


def after_a_death(container: Container, first: int) -> None:
    until(lambda: first not in _tritons(container), "the first one is gone", container)
    until(lambda: container.ping() == 200, "/ping is 200", container)
    neighbours_answer(container)


def _tritons(container: Container) -> set[int]:
    found = container.descendants()
    return {process.pid for process in found if process.command[0].endswith("/tritonserver")}


def test_a_request_that_kills(hurt: Container) -> None:
    """503 twice, then 400 with a sentence; then tritonserver lives, and other requests are served.

    Neither counts for the deaths that are allowed: this container has but one.
    """
    assert hurt.load("assassin", write(hurt, "assassin", m=models.assassin)).status_code == 200
    for _ in range(2):
        first = hurt.triton()
        answer = hurt.invoke("assassin", infer([13]))
        assert answer.status_code == 503, answer.text
        after_a_death(hurt, first)
    alive = hurt.triton()
    for _ in range(3):
        refused = hurt.invoke("assassin", infer([13]))
        assert refused.status_code == 400, refused.text
        assert "in flight when tritonserver died twice" in complaint(refused)
    assert values(hurt.invoke("assassin", infer([12]))) == [12.0]
    neighbours_answer(hurt)
    assert hurt.triton() == alive
    assert hurt.unload("assassin").status_code == 200
