"""Operations that meet: on one model they are serial, on different ones they do not touch."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container, until
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH

CONNECTIONS = 16
MANY = 50


def _invoke_beside(container: Container, loading: Future[httpx.Response]) -> int:
    """How many of ten invocations are answered while the load runs."""
    count = 0
    for _ in range(10):
        assert values(container.invoke("quick", infer([1]))) == [1.0]
        count += not loading.done()
    return count


def test_while_a_model_is_loaded(container: Container, archive: Archive, tmp_path: Path) -> None:
    """The others answer as ever; it is not listed, not invoked, not unloaded, not loaded twice."""
    marker, go = tmp_path / "marker", tmp_path / "go"
    late = archive("late", m=models.held(go, marker))
    with (
        container.loaded("quick", archive("quick", m=models.identity)),
        ThreadPoolExecutor(CONNECTIONS + 1) as pool,
    ):
        loading = pool.submit(container.load, "late", late)
        try:
            until(marker.exists, "the model is being loaded")
            beside = [pool.submit(_invoke_beside, container, loading) for _ in range(CONNECTIONS)]
            assert container.ping() == 200
            assert container.models().keys() == {WITNESS, "quick"}
            for answer in (
                container.unload("late"),
                container.invoke("late", infer([1])),
                container.http.get("/models/late"),
            ):
                assert answer.status_code == 404
                assert "is being loaded" in complaint(answer)
            again = container.load("late", late)
            assert again.status_code == 409
            assert "is already being loaded" in complaint(again)
            assert sum(each.result() for each in beside) == 10 * CONNECTIONS
        finally:
            go.touch()
        assert loading.result().status_code == 200
        assert values(container.invoke("late", infer([1]))) == [1.0]
        assert container.unload("late").status_code == 200


@BOTH
def test_everything_is_back_when_an_unload_answers(
    container: Container, archive: Archive, tmp_path: Path
) -> None:
    """The model's processes, its shared memory and files are gone, and what it has started.

    In whatever session that is; that of another model goes on. Their ids are given back.
    """
    mine, others = tmp_path / "mine", tmp_path / "others"
    five = {f"add{number}": models.adder(number) for number in range(5)}
    chained = {**five, "parent": models.parent(mine)}
    sums = archive("one", **chained, sum=models.Chain(tuple(chained)))
    with container.loaded("m2", archive("other", m=models.parent(others))):
        before = container.snapshot()
        assert container.load("m1", sums).status_code == 200
        during = container.snapshot()
        assert len(during.stubs - before.stubs) == 7  # one is forked by the parent
        assert len(during.regions - before.regions) == 6
        assert len(during.published - before.published) == 7
        assert len(_running(mine)) == len(_running(others)) == 3
        assert values(container.invoke("m1", infer([1]))) == [11.0]
        container.descendants()  # from here on none of them may outlive the container
        assert container.unload("m1").status_code == 200
        assert container.snapshot() == before
        assert not _running(mine)
        assert len(_running(others)) == 3
        assert values(container.invoke("m2", infer([1]))) == [1.0]
    assert not _running(others)


def _running(marker: Path) -> list[str]:
    """Those of the ids in the file that are taken, also by zombies."""
    return [pid for pid in marker.read_text().split() if Path("/proc", pid).exists()]


@BOTH
def test_a_queue_of_a_step_that_is_full(
    container: Container, archive: Archive, tmp_path: Path
) -> None:
    """Whoever is one too many is refused, by nobody but the container; the unload does not hang.

    Of a step beside another one tritonserver before 26.02 answers nothing then, for ever.
    """
    marker = tmp_path / "marker"
    more = "max_batch_size: 8\ndynamic_batching { default_queue_policy { max_queue_size: 1 } }\n"
    bounded = replace(models.slow(marker), more=more)
    quick = replace(models.identity, more="max_batch_size: 8\n")
    forked = archive(slow=bounded, quick=quick, both=models.Fork(("quick", "slow"), batches=True))
    asked = {"inputs": [{"name": "IN", "datatype": "FP32", "shape": [1, 1], "data": [0.2]}]}
    with ThreadPoolExecutor(MANY) as pool, container.loaded("forked", forked):
        answers = list(pool.map(lambda _: container.invoke("forked", asked), range(MANY)))
        counts = Counter(answer.status_code for answer in answers)
        assert counts.keys() == {200, 503}
        refused = next(answer for answer in answers if answer.status_code == 503)
        assert "(max_queue_size of slow)" in complaint(refused)
        assert container.invoke("forked", asked).status_code == 200


@pytest.mark.thorough
def test_many_models(container: Container, archive: Archive) -> None:
    """Fifty models, loaded, invoked and unloaded side by side, each answer and leave nothing."""
    before = container.snapshot()
    directories = [archive(f"a{n}", add0=models.adder(n)) for n in range(MANY)]

    def live(number: int) -> list[object]:
        with container.loaded(f"m{number}", directories[number]):
            return values(container.invoke(f"m{number}", infer([0.5])))

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        assert list(pool.map(live, range(MANY))) == [[n + 0.5] for n in range(MANY)]
    assert container.snapshot() == before
