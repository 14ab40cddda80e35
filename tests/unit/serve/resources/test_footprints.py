"""What a load is expected to take, from what loads took."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ensemble_tools import Demand, ModelDemand
from serve.resources.census import Usage
from serve.resources.footprints import Footprints, MeasuredLoad, StubSettings
from serve.resources.free import DESCRIPTORS, MEMORY, SHARED_MEMORY, TASKS, gpu_memory
from tests.unit.serve.kernel_directory import GIB, MIB


def demand(
    identity: str = "a",
    kind: str = "python",
    payload: int = 0,
    instances: int = 1,
    on_gpus: dict[int, int] | None = None,
) -> Demand:
    """An archive of one model."""
    return Demand(identity, (ModelDemand("m", kind, instances, payload, on_gpus or {}),))


def held(memory: int, peak: int = 0, stubs: int = 1) -> Usage:
    """What stubs hold, each with a region of 16 MiB and 7 threads."""
    return Usage(memory, max(memory, peak), stubs * 16 * MIB, stubs, stubs * 7)


@pytest.fixture
def footprints() -> Footprints:
    """As it is when the container starts."""
    return Footprints(StubSettings())


def memory(footprints: Footprints, of: Demand) -> int:
    """The forecast, in MiB."""
    return footprints.forecast(of).amounts[MEMORY] // MIB


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [
        ("generated step", 38, 48),
        ("python", 48, 60),
        ("pytorch", 160, 260),
        ("tensorflow", 400, 580),
        ("workflow", 280, 430),
        ("ensemble", 0, 0),
        ("tensorrt", 1, 100),
    ],
)
def test_a_machine_that_has_seen_nothing(
    footprints: Footprints, kind: str, least: int, most: int
) -> None:
    """Figures that were measured elsewhere decide."""
    assert least <= memory(footprints, demand(kind=kind)) <= most
    if kind != "ensemble":
        assert "its form and its files' sizes" in footprints.forecast(demand(kind=kind)).why


def test_files_and_instances_count(footprints: Footprints) -> None:
    """Each instance has its own weights, its own region, threads and descriptors."""
    one, four = demand(payload=100 * MIB), demand(payload=100 * MIB, instances=4)
    assert memory(footprints, four) == 4 * memory(footprints, one)
    assert memory(footprints, one) > 100
    amounts = footprints.forecast(four).amounts
    assert amounts[SHARED_MEMORY] == 64 * MIB
    assert amounts[TASKS] >= 4 * 8
    assert amounts[DESCRIPTORS] >= 4


def test_an_archive_that_was_loaded(footprints: Footprints) -> None:
    """What it took, the peak of its load included, whatever its kind would have let expect."""
    footprints.learn(demand(), MeasuredLoad({"m": held(300 * MIB, 500 * MIB)}))
    assert memory(footprints, demand()) == 502
    assert footprints.forecast(demand()).why == "as it took at its last load"
    assert footprints.forecast(demand()).amounts[SHARED_MEMORY] == 16 * MIB


def test_one_that_was_killed(footprints: Footprints) -> None:
    """Takes more than there was, until a load of it has told better."""
    footprints.killed(demand("a"), 700 * MIB)
    forecast = footprints.forecast(demand("a"))
    assert (forecast.amounts[MEMORY], forecast.doubt) == (700 * MIB, 1)
    assert forecast.why == "as its last load was killed when it had taken that"
    assert memory(footprints, demand("b")) < 700
    footprints.learn(demand("a"), MeasuredLoad({"m": held(300 * MIB)}))
    assert memory(footprints, demand("a")) == 302
    footprints.killed(demand("a"), 100 * MIB)
    assert memory(footprints, demand("a")) == 302


def test_a_figure_rises_at_once_and_falls_by_halves(footprints: Footprints) -> None:
    """One that is far too high is right again after a few loads."""
    footprints.learn(demand(), MeasuredLoad({"m": held(100 * MIB)}))
    footprints.learn(demand(), MeasuredLoad({"m": held(4 * GIB)}))
    assert memory(footprints, demand()) >= 4096
    for _ in range(8):
        footprints.learn(demand(), MeasuredLoad({"m": held(100 * MIB)}))
    assert memory(footprints, demand()) < 130


def test_growth_after_the_load(footprints: Footprints) -> None:
    """A model that grew in service is expected to do so again; no more than that."""
    footprints.learn(demand(), MeasuredLoad({"m": held(100 * MIB)}))
    footprints.observe(demand(), held(150 * MIB))
    footprints.observe(demand(), held(90 * MIB))
    assert memory(footprints, demand()) == 152
    assert footprints.growth(demand(), held(110 * MIB)) == 40 * MIB
    assert footprints.growth(demand(), held(500 * MIB)) == 0
    assert footprints.growth(demand("never"), held(1)) == 0


def test_others_of_its_form(footprints: Footprints) -> None:
    """An archive that was never seen is expected to take what its kind does, and its own files."""
    doubts = [footprints.forecast(demand("b")).doubt]
    footprints.learn(demand("a", payload=50 * MIB), MeasuredLoad({"m": held(250 * MIB)}))
    doubts += [footprints.forecast(demand(name)).doubt for name in "ba"]
    assert doubts == [8, 2, 1]
    assert memory(footprints, demand("b", payload=70 * MIB)) == 272
    assert footprints.forecast(demand("b")).why == "as others of its form did"
    assert memory(footprints, demand("b", kind="pytorch")) < 250


def test_one_that_takes_much_does_not_stand_for_all(footprints: Footprints) -> None:
    """Nor does one archive that is loaded again and again."""
    for number in range(8):
        footprints.learn(demand(f"small-{number}"), MeasuredLoad({"m": held(60 * MIB)}))
    for _ in range(50):
        footprints.learn(demand("huge"), MeasuredLoad({"m": held(8 * GIB)}))
    assert memory(footprints, demand("new")) == 62


def test_what_lives_in_tritonserver(footprints: Footprints) -> None:
    """Told by its growth when no other load ran beside; else what was known stays."""
    native = demand(kind="onnxruntime", payload=10 * MIB)
    guess = memory(footprints, native)
    footprints.learn(native, MeasuredLoad({}, None))
    assert memory(footprints, native) == guess
    footprints.learn(native, MeasuredLoad({}, 700 * MIB))
    assert memory(footprints, native) == 700
    footprints.learn(native, MeasuredLoad({}, None))
    assert memory(footprints, native) == 700
    assert memory(footprints, demand("b", "onnxruntime")) == 690
    assert footprints.forecast(native).amounts[SHARED_MEMORY] == 0


def test_memory_that_tritonserver_gave_back_meanwhile(footprints: Footprints) -> None:
    """A load takes nothing less than nothing."""
    native = demand(kind="onnxruntime")
    footprints.learn(native, MeasuredLoad({}, -300 * MIB))
    assert memory(footprints, native) == 0


#: Of a process that a library for GPUs is imported in.
CONTEXT = 414 * MIB


def test_gpus(footprints: Footprints) -> None:
    """The sizes of the files for each instance, on each GPU that it may use, until a load has
    told."""
    both = demand(kind="tensorrt", payload=100, on_gpus={0: 1, 1: 3})
    second = demand("b", "tensorrt", payload=100, on_gpus={1: 1})
    first = footprints.forecast(both, [0, 1]).amounts
    assert (first[gpu_memory(0)], first[gpu_memory(1)]) == (100, 300)
    assert gpu_memory(0) not in footprints.forecast(second, [0, 1]).amounts
    assert footprints.forecast(second, [0]).amounts.keys() == footprints.held(held(0)).keys()
    footprints.learn(both, MeasuredLoad({}, 0, {1: 5000}))
    learned = footprints.forecast(both, [0, 1]).amounts
    assert (learned[gpu_memory(0)], learned[gpu_memory(1)]) == (0, 5000)


@pytest.mark.parametrize(
    ("kind", "context"),
    [("python", CONTEXT), ("workflow", CONTEXT), ("executor", CONTEXT), ("tensorrt", 0)],
)
def test_a_context_for_each_process(footprints: Footprints, kind: str, context: int) -> None:
    """A Python program that uses a GPU has one of its own, beside its weights; models inside of
    tritonserver share the one that is there."""
    found = footprints.forecast(demand(kind=kind, payload=10, on_gpus={0: 2}), [0])
    assert found.amounts[gpu_memory(0)] == 2 * (10 + context)


def test_a_backend_that_may_be_ours(footprints: Footprints) -> None:
    """It counts as a Python program until a load has shown that it lives in tritonserver."""
    native = demand(kind="pytorch", on_gpus={0: 1})
    assert footprints.forecast(native, [0]).amounts[gpu_memory(0)] == CONTEXT
    footprints.learn(demand("b", "pytorch"), MeasuredLoad({}, 10))
    assert footprints.forecast(native, [0]).amounts[gpu_memory(0)] == 0


def test_gpus_while_other_loads_ran_beside(footprints: Footprints) -> None:
    """Whose the difference was is not known, so the guess stays; once it is known, that stays."""
    model = demand(kind="tensorrt", payload=100, on_gpus={0: 1})
    footprints.learn(model, MeasuredLoad({}, None, None))
    assert footprints.forecast(model, [0]).amounts[gpu_memory(0)] == 100
    footprints.learn(model, MeasuredLoad({}, 0, {0: 700}))
    footprints.learn(model, MeasuredLoad({}, None, None))
    assert footprints.forecast(model, [0]).amounts[gpu_memory(0)] == 700


def test_a_python_program_that_takes_nothing_of_a_gpu(footprints: Footprints) -> None:
    """Once that is known it is asked of no GPU, whose config names no kind: one that others have
    filled refuses it no load."""
    model = demand(on_gpus={0: 1})
    footprints.learn(model, MeasuredLoad({"m": held(50 * MIB)}, 0, {}))
    assert gpu_memory(0) not in footprints.forecast(model, [0]).amounts


def test_who_lives_in_tritonserver(footprints: Footprints) -> None:
    """Python programs do not; for backends that may be ours a load tells."""
    native = demand(kind="pytorch", on_gpus={0: 1})
    assert not footprints.in_server(native)
    footprints.learn(native, MeasuredLoad({}, 10))
    assert footprints.in_server(native)
    assert not footprints.in_server(demand("b", "python", on_gpus={0: 1}))


def test_it_is_bounded() -> None:
    """However many archives and kinds there were."""
    footprints = Footprints(StubSettings())
    for number in range(3000):
        footprints.learn(demand(str(number), f"kind-{number}"), MeasuredLoad({"m": held(MIB)}))
    assert len(footprints) == 1000
    assert footprints.kinds == 100
    assert footprints.forecast(demand("2999")).why == "as it took at its last load"
    assert footprints.forecast(demand("0")).why != "as it took at its last load"


@pytest.mark.parametrize(("kind", "growth"), [("workflow", 800), ("compiled workflow", 0)])
def test_category_files(footprints: Footprints, kind: str, growth: int) -> None:
    """NVTabular reads them at the first request, so its model is to grow; a table's writer ends."""
    small = demand(kind=kind)
    large = Demand("b", (replace(small.models[0], table_bytes=800 * MIB),))
    assert memory(footprints, large) == memory(footprints, small) + 800
    footprints.learn(large, MeasuredLoad({"m": held(50 * MIB)}))
    assert footprints.growth(large, held(50 * MIB)) == growth * MIB
    assert memory(footprints, large) >= 800
