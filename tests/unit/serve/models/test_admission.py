"""Loads are let in, refused and remembered, on a machine made of files."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools import Form, ServingPlan
from ensemble_tools.serving.plan import PublishedModel
from serve.errors import KilledForMemory, ResourceExhausted, TritonUnavailable
from serve.limit import Limit
from serve.models.admission import Admission, AdmissionSettings, Reservation, take_snapshot
from serve.models.registry import Registry, State
from serve.resources.census import Census, take_census
from serve.resources.footprints import Footprints, StubSettings
from serve.resources.free import TASKS, Kernel, read_available_memory
from serve.resources.gpus import GpuMemory, Gpus
from serve.resources.ledger import Ledger
from tests.unit.serve.kernel_directory import GIB, MIB, SERVER, KernelDirectory

RESERVE = 256 * MIB
#: Of a Python model that was never seen.
GUESS = (32 + 1 + 2) * MIB
#: That a load waits, where it is to.
PATIENCE_S = 20.0
#: Each call looks anew, and waits for none.
AT_ONCE: dict[str, Any] = {"fresh_s": 0.0, "patience_s": 0.0}


@dataclass
class Machine:
    """A kernel, a registry and the admission over both; models are one Python model each."""

    kernel: KernelDirectory
    registry: Registry
    admission: Admission
    settings: AdmissionSettings
    ledger: Ledger
    serving: Path
    #: Free of /dev/shm, in bytes.
    shared: list[int]
    free: int = 8 * GIB
    pids: dict[str, tuple[int, int]] = field(default_factory=dict)
    started: int = 2000

    def plan(self, name: str, config: str = 'backend: "python"', payload: int = 0) -> ServingPlan:
        """An archive with a file of that size; archives of equal size are copies."""
        source = self.kernel.root / f"archives/{payload}"
        source.mkdir(parents=True, exist_ok=True)
        with (source / "weights").open("wb") as file:
            file.truncate(payload)
        model = PublishedModel(name, "model", config, (("1", source),))
        return ServingPlan(name, Form.AS_DELIVERED, name, (model,))

    def hold(self, name: str, memory: int) -> None:
        """The model's stub holds so many bytes from now on; at no time is it seen without."""
        before = self.pids.get(name)
        self.started += 1
        self.pids[name] = (self.started, memory + MIB)
        self.show()
        self.kernel.stub(self.started, self.serving, name, memory)
        if before is not None:
            self.kernel.end(before[0])

    def drop(self, name: str) -> None:
        """Its stub has ended."""
        if name in self.pids:
            self.kernel.end(self.pids.pop(name)[0])
        self.show()

    def show(self) -> None:
        """To the kernel's files."""
        self.kernel.machine(self.free - self.used)

    @property
    def used(self) -> int:
        """By all stubs, with their regions."""
        return sum(memory for _, memory in self.pids.values())

    async def load(self, name: str, memory: int, **kind: Any) -> None:
        """A whole load that takes so much."""
        plan = self.plan(name, **kind)
        reservation = await self.admission.reserve(plan)
        model = self.registry.begin_load(name, "url")
        self.hold(name, memory)
        self.registry.finish_load(model, plan)
        reservation.settle()
        await asyncio.gather(*self.admission.learning)

    def unload(self, name: str) -> None:
        """It is gone, and what it held is free."""
        self.registry.forget(self.registry.begin_unload(name))
        self.drop(name)


@dataclass
class Cards(Gpus):
    """GPUs that hold what they are told to."""

    rows: dict[int, GpuMemory] = field(default_factory=dict)

    async def memory(self) -> dict[int, GpuMemory]:
        """As told."""
        return dict(self.rows)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with 8 GiB on which tritonserver runs; each call looks anew, and waits for none."""
    return make_machine(tmp_path)


def make_machine(root: Path, gpus: Cards | None = None, **settings: Any) -> Machine:
    """Such a machine."""
    shared = [1 << 40]

    def statvfs(_: Path) -> os.statvfs_result:
        return os.statvfs_result((1, 1, 1, shared[0], shared[0], 0, 0, 0, 0, 0))

    kernel, serving, registry = KernelDirectory(root), root / "serving", Registry()
    kernel.server(serving)
    reserve = Limit(RESERVE, "SERVE_MEMORY_RESERVE_MB")
    of_gpus = Limit(RESERVE if gpus else 0, "SERVE_GPU_MEMORY_RESERVE_MB")
    looked = replace(kernel.kernel, statvfs=statvfs)
    kept = AdmissionSettings(
        serving,
        reserve,
        of_gpus,
        StubSettings(MIB),
        looked,
        gpus=len(gpus.rows) if gpus else 0,
        **{**AT_ONCE, **settings},
    )
    ledger = Ledger(Footprints(kept.stubs))
    admission = Admission(registry, kept, gpus, ledger=ledger)
    return Machine(kernel, registry, admission, kept, ledger, serving, shared)


def free(machine: Machine, amount: int) -> None:
    """The machine has so much, all models included."""
    machine.free = amount + machine.used
    machine.show()


async def test_as_long_as_the_reserve_is_there(machine: Machine) -> None:
    """The first model is only held to that; a refusal says what sets the bound."""
    free(machine, RESERVE)
    (await machine.admission.reserve(machine.plan("m"))).give_back()
    free(machine, RESERVE - 1024)
    with pytest.raises(ResourceExhausted, match=r"m: 255 MiB.*256 MiB.*SERVE_MEMORY_RESERVE_MB"):
        await machine.admission.reserve(machine.plan("m"))


async def test_a_reserve_of_nothing_admits_all(machine: Machine) -> None:
    """Also with nothing free."""
    free(machine, 0)
    settings = AdmissionSettings(machine.serving, 0, kernel=machine.settings.kernel, **AT_ONCE)
    reservations = [
        await Admission(Registry(), settings).reserve(machine.plan("m")) for _ in range(3)
    ]
    for reservation in reservations:
        reservation.settle()


async def test_what_it_took_the_last_time(machine: Machine) -> None:
    """Is held against what is free, and the refusal says so."""
    await machine.load("other", 50 * MIB, payload=1)
    await machine.load("m", 1000 * MIB)
    machine.unload("m")
    free(machine, RESERVE + 1003 * MIB)
    (await machine.admission.reserve(machine.plan("m"))).give_back()
    free(machine, RESERVE + 1002 * MIB)
    says = r"m: 1258 MiB available, .*256 MiB are kept.*1003 MiB, as it took at its last load"
    with pytest.raises(ResourceExhausted, match=says):
        await machine.admission.reserve(machine.plan("m"))


async def test_one_that_the_kernel_killed(machine: Machine) -> None:
    """Is not tried again beside others before there is more memory than it had."""
    await machine.load("other", 50 * MIB, payload=1)
    free(machine, RESERVE + 700 * MIB)
    reservation = await machine.admission.reserve(machine.plan("m"))
    reservation.failed(KilledForMemory, KilledForMemory("killed"), None)
    says = r"m: 956 MiB available, .*956 MiB, as its last load was killed when it had taken that"
    with pytest.raises(ResourceExhausted, match=says):
        await machine.admission.reserve(machine.plan("m"))
    free(machine, 2 * RESERVE + 700 * MIB)
    (await machine.admission.reserve(machine.plan("m"))).give_back()
    machine.unload("other")
    free(machine, RESERVE + 700 * MIB)
    (await machine.admission.reserve(machine.plan("m"))).give_back()


async def test_others_may_have_been_meant(machine: Machine) -> None:
    """Where loads ran beside each other, or something else was lacking, nothing is learned."""
    await machine.load("other", 50 * MIB, payload=1)
    free(machine, RESERVE + 700 * MIB)
    alone = await machine.admission.reserve(machine.plan("m"))
    alone.failed(ResourceExhausted, ResourceExhausted("no pid"), None)
    first = await machine.admission.reserve(machine.plan("m"))
    second = await machine.admission.reserve(machine.plan("n", payload=2))
    for reservation in (first, second):
        reservation.failed(KilledForMemory, KilledForMemory("killed"), None)
    for plan in (machine.plan("m"), machine.plan("n", payload=2)):
        (await machine.admission.reserve(plan)).give_back()


async def test_one_of_its_form(machine: Machine) -> None:
    """An archive that was never seen is expected to take what others of its kind did."""
    await machine.load("other", 700 * MIB, payload=1)
    free(machine, RESERVE + 600 * MIB)
    with pytest.raises(ResourceExhausted, match="as others of its form did"):
        await machine.admission.reserve(machine.plan("m", payload=2))


async def test_loads_at_once_count_each_other(machine: Machine) -> None:
    """What is free is free once: of five loads that come together with room for three, three."""
    free(machine, RESERVE + 3 * GUESS)
    asked = (machine.admission.reserve(machine.plan(f"m{number}")) for number in range(5))
    reservations = await asyncio.gather(*asked, return_exceptions=True)
    refused = [
        reservation for reservation in reservations if isinstance(reservation, ResourceExhausted)
    ]
    assert len(refused) == 2
    assert "other models are expected to take 105 MiB" in str(refused[0])
    first = next(
        reservation for reservation in reservations if isinstance(reservation, Reservation)
    )
    first.give_back()
    (await machine.admission.reserve(machine.plan("next"))).give_back()


async def test_a_load_on_its_way_counts_once(machine: Machine) -> None:
    """What its stub holds by now is not free, and is expected no more."""
    free(machine, RESERVE + 2 * GUESS)
    reservation = await machine.admission.reserve(machine.plan("a"))
    machine.hold("a", 20 * MIB)
    (await machine.admission.reserve(machine.plan("b"))).give_back()
    reservation.give_back()


async def test_a_forecast_that_is_far_too_high(machine: Machine) -> None:
    """It is refused beside others; on an empty endpoint it is tried, and then known better."""
    await machine.load("m", 6 * GIB)
    machine.unload("m")
    machine.free = 5 * GIB
    await machine.load("other", 50 * MIB, payload=1)
    with pytest.raises(ResourceExhausted):
        await machine.admission.reserve(machine.plan("m"))
    machine.unload("other")
    for _ in range(6):
        await machine.load("m", 100 * MIB)
        machine.unload("m")
    await machine.load("other", 50 * MIB, payload=1)
    await machine.load("m", 100 * MIB)


async def test_models_that_a_dead_tritonserver_takes_along_come_back(machine: Machine) -> None:
    """Until they are loaded again, a load leaves them their room; they themselves are not asked."""
    await machine.load("b", 30 * MIB, payload=1)
    machine.unload("b")
    await machine.load("a", 1000 * MIB)
    machine.drop("a")
    machine.kernel.server(machine.serving, pid=SERVER + 1)
    free(machine, RESERVE + 1020 * MIB)
    coming_back = "other models are expected to take 1003 MiB"
    with pytest.raises(ResourceExhausted, match=coming_back):
        await machine.admission.reserve(machine.plan("b", payload=1))
    model = machine.registry.loaded("a")
    machine.registry.begin_reload(model)
    with pytest.raises(ResourceExhausted, match=coming_back):
        await machine.admission.reserve(machine.plan("b", payload=1))
    machine.kernel.stub(500, machine.serving, "a", 990 * MIB, parent=SERVER + 1)
    machine.registry.finish_reload(model)
    assert model.state is State.READY
    await machine.load("b", 30 * MIB, payload=1)


async def test_other_resources(machine: Machine) -> None:
    """Processes, descriptors, /dev/shm: each by its name, beside memory that is free."""
    await machine.load("first", 10 * MIB, payload=1)
    machine.kernel.write("cgroup/pids.max", "100\n")
    machine.kernel.write("cgroup/pids.current", "60\n")
    with pytest.raises(ResourceExhausted, match=r"no processes and threads .* 40 processes and"):
        await machine.admission.reserve(machine.plan("m"))
    machine.kernel.write("cgroup/pids.max", "max\n")
    machine.kernel.write(f"proc/{SERVER}/limits", "Max open files   40   40   files\n")
    for number in range(5):
        machine.kernel.write(f"proc/{SERVER}/fd/{number}", "")
    with pytest.raises(ResourceExhausted, match=r"no file descriptors of tritonserver.*35 desc"):
        await machine.admission.reserve(machine.plan("m"))


async def test_shared_memory(machine: Machine) -> None:
    """A plain Docker container has 64 MiB, and each instance takes 16 at its start."""
    settings = AdmissionSettings(machine.serving, 1, kernel=machine.settings.kernel, **AT_ONCE)
    asked = Admission(machine.registry, settings)
    reservations = [await asked.reserve(machine.plan("first"))]
    machine.shared[0] = 64 * MIB
    reservations += [await asked.reserve(machine.plan(f"m{number}")) for number in range(3)]
    with pytest.raises(ResourceExhausted, match="no shared memory in /dev/shm"):
        await asked.reserve(machine.plan("m"))
    for reservation in reservations:
        reservation.give_back()


@pytest.mark.parametrize(
    ("kept", "loading", "fails", "renewals"),
    [
        (3, False, False, 1),
        (3, False, True, 1),
        (0, False, False, 0),
        (1, False, False, 0),
        (3, True, False, 0),
    ],
    ids=["room", "fails", "no help", "little help", "while loading"],
)
async def test_what_a_tritonserver_keeps_of_dead_stubs(
    machine: Machine,
    kept: int,
    loading: bool,
    fails: bool,
    renewals: int,
) -> None:
    """It is replaced once where that makes room; else, or where that fails, loads are refused."""
    asked = 0
    there = machine.shared
    there[0] = MIB // 2

    async def renew() -> None:
        nonlocal asked
        asked += 1
        if fails:
            raise TritonUnavailable("it is gone")
        there[0] = 64 * MIB

    admitting = _beside_dead_stubs(machine, kept, renew)
    there[0] = 64 * MIB
    first = await admitting.reserve(machine.plan("first"))
    if not loading:
        machine.registry.finish_load(
            machine.registry.begin_load("first", "url"), machine.plan("first")
        )
        machine.hold("first", MIB)
        machine.kernel.stub(299, machine.serving, "first", MIB)
        first.settle()
        await asyncio.gather(*admitting.learning)
    there[0] = MIB // 2
    loads = [admitting.reserve(machine.plan(f"m{number}")) for number in range(2)]
    reservations = await asyncio.gather(*loads, return_exceptions=True)
    assert asked == renewals if not fails else asked >= 1
    for reservation in reservations:
        if renewals and not fails:
            assert isinstance(reservation, Reservation)
            reservation.give_back()
        else:
            assert isinstance(reservation, ResourceExhausted)
            assert "no shared memory in /dev/shm" in str(reservation)


async def test_a_load_beside_a_renewal_waits_for_it(machine: Machine) -> None:
    """Also one that lacks nothing: tritonserver would be killed under it. And not again soon."""
    there, begun, go_on = machine.shared, asyncio.Event(), asyncio.Event()
    there[0] = 64 * MIB

    async def renew() -> None:
        begun.set()
        await go_on.wait()
        there[0] = 64 * MIB

    admitting = _beside_dead_stubs(machine, 2, renew)
    await _one_is_there(machine, admitting)
    there[0] = MIB // 2
    lacking = asyncio.ensure_future(admitting.reserve(machine.plan("m")))
    await asyncio.wait_for(begun.wait(), 60)
    native = asyncio.ensure_future(admitting.reserve(machine.plan("n", 'backend: "onnxruntime"')))
    await asyncio.sleep(0.2)
    assert not native.done()
    go_on.set()
    for reservation in await asyncio.gather(lacking, native):
        reservation.give_back()
    begun.clear()
    there[0] = MIB // 2
    with pytest.raises(ResourceExhausted, match="no shared memory in /dev/shm"):
        await admitting.reserve(machine.plan("m"))
    assert not begun.is_set()


async def test_models_without_stubs_are_worth_as_much(machine: Machine) -> None:
    """Three of them are not to be loaded again for what two dead stubs had."""
    there = machine.shared
    there[0] = 64 * MIB

    async def renew() -> None:
        raise AssertionError

    for number in range(2):
        native = machine.plan(f"n{number}", 'backend: "onnxruntime"')
        machine.registry.finish_load(machine.registry.begin_load(f"n{number}", "url"), native)
    admitting = _beside_dead_stubs(machine, 2, renew)
    await _one_is_there(machine, admitting)
    there[0] = MIB // 2
    with pytest.raises(ResourceExhausted):
        await admitting.reserve(machine.plan("m"))


def _beside_dead_stubs(
    machine: Machine, count: int, renew: Callable[[], Awaitable[None]]
) -> Admission:
    """One on a machine whose tritonserver keeps the regions of so many stubs that died."""
    for pid in range(300, 300 + count):
        machine.kernel.stub(pid, machine.serving, "dead", MIB)
        machine.kernel.end(pid, keeps_region=True)
    settings = AdmissionSettings(
        machine.serving, 1, 0, StubSettings(MIB), machine.settings.kernel, **AT_ONCE
    )
    return Admission(machine.registry, settings, renew=renew)


async def _one_is_there(machine: Machine, admitting: Admission) -> None:
    """A native model; the first is only held to what is kept."""
    native = machine.plan("first", 'backend: "onnxruntime"')
    reservation = await admitting.reserve(native)
    machine.registry.finish_load(machine.registry.begin_load("first", "url"), native)
    reservation.settle()
    await asyncio.gather(*admitting.learning)


# -- GPUs


ON_GPU = 'backend: "tensorrt"'
ON_CPU = 'backend: "python" instance_group { kind: KIND_CPU }'


async def test_gpu_memory(tmp_path: Path) -> None:
    """A model that may use a GPU is held to its memory; one that may not is not."""
    cards = Cards(rows={0: GpuMemory(RESERVE - 1, 0), 1: GpuMemory(9 * GIB, 0)})
    machine = make_machine(tmp_path, cards, patience_s=PATIENCE_S)
    await machine.load("first", 10 * MIB, config=ON_CPU)
    says = r"no memory of GPU 0 .* 255 MiB available.*SERVE_GPU_MEMORY_RESERVE_MB"
    with pytest.raises(ResourceExhausted, match=says):
        await machine.admission.reserve(machine.plan("m", ON_GPU))
    await machine.load("second", 10 * MIB, config=ON_CPU)
    second_only = 'backend: "tensorrt" instance_group { gpus: 1 kind: KIND_GPU }'
    await machine.load("third", 0, config=second_only)


async def test_a_config_that_names_no_kind(tmp_path: Path) -> None:
    """It is on each GPU, Python models as well: of a process that was never seen a context is
    expected on each, and its memory counts once for each."""
    cards = Cards(rows={0: GpuMemory(9 * GIB, 0), 1: GpuMemory(RESERVE + 413 * MIB, 0)})
    machine = make_machine(tmp_path, cards, patience_s=PATIENCE_S)
    await machine.load("first", 10 * MIB, config=ON_CPU)
    says = r"no memory of GPU 1 .* 669 MiB available.*expected to take 414 MiB"
    for config in ('backend: "python"', 'backend: "python" instance_group { }'):
        with pytest.raises(ResourceExhausted, match=says):
            await machine.admission.reserve(machine.plan("m", config))
    cards.rows[1] = GpuMemory(RESERVE + 415 * MIB, 0)
    reservation = await machine.admission.reserve(machine.plan("m"))
    (entry,) = machine.ledger.loading
    assert entry.forecast.amounts[TASKS] >= 2 * 8
    with pytest.raises(ResourceExhausted, match="other models are expected to take 414 MiB"):
        await machine.admission.reserve(machine.plan("n", payload=2))
    reservation.give_back()


async def test_gpu_memory_that_a_load_took(tmp_path: Path) -> None:
    """The difference that it made is what its next load is expected to make."""
    cards = Cards(rows={0: GpuMemory(8 * GIB, 0)})
    machine = make_machine(tmp_path, cards, patience_s=PATIENCE_S)
    await machine.load("first", 10 * MIB, config=ON_CPU)
    plan = machine.plan("m", ON_GPU)
    reservation, model = (
        await machine.admission.reserve(plan),
        machine.registry.begin_load("m", "u"),
    )
    cards.rows[0] = GpuMemory(5 * GIB, 3 * GIB)
    machine.registry.finish_load(model, plan)
    reservation.settle()
    await asyncio.gather(*machine.admission.learning)
    machine.registry.forget(machine.registry.begin_unload(model.name))
    cards.rows[0] = GpuMemory(3 * GIB, 0)
    with pytest.raises(ResourceExhausted, match="3072 MiB, as it took"):
        await machine.admission.reserve(plan)
    # What the framework in tritonserver keeps of it is not the driver's, and is used again.
    cards.rows[0] = GpuMemory(1 * GIB, 3 * GIB)
    (await machine.admission.reserve(plan)).give_back()


# -- what goes wrong


@pytest.mark.parametrize("lost", ["give back", "cancelled"])
async def test_nothing_is_held_after_a_load_that_failed(machine: Machine, lost: str) -> None:
    """Nor by one that was cancelled while it was being decided."""
    asking = asyncio.ensure_future(machine.admission.reserve(machine.plan("m")))
    if lost == "cancelled":
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    else:
        reservation = await asking
        reservation.give_back()
        reservation.give_back()
    assert list(machine.ledger.entries) == []


@pytest.mark.parametrize("error", [OSError(24, "Too many open files"), RuntimeError("no thread")])
async def test_a_machine_that_cannot_be_looked_at(tmp_path: Path, error: Exception) -> None:
    """That is a lack, too: 507. After a load nothing is learned, and nothing fails."""

    fails = False

    def look(serving: Path, kernel: Kernel) -> Census:
        if fails:
            raise error
        return take_census(serving, kernel)

    machine = make_machine(tmp_path, take_census=look)
    reservation = await machine.admission.reserve(machine.plan("a"))
    fails = True
    with pytest.raises(ResourceExhausted, match="no resources"):
        await machine.admission.reserve(machine.plan("m"))
    machine.registry.finish_load(machine.registry.begin_load("a", "url"), machine.plan("a"))
    reservation.settle()
    await asyncio.gather(*machine.admission.learning)
    assert len(machine.ledger.footprints) == 0


async def test_a_model_that_is_gone_before_it_was_looked_at(machine: Machine) -> None:
    """Nothing is learned of it: what it holds then is not what it took."""
    plan = machine.plan("m")
    reservation, model = (
        await machine.admission.reserve(plan),
        machine.registry.begin_load("m", "u"),
    )
    machine.registry.finish_load(model, plan)
    reservation.settle()
    machine.registry.forget(machine.registry.begin_unload(model.name))
    await asyncio.gather(*machine.admission.learning)
    assert len(machine.ledger.footprints) == 0


def test_it_costs_a_load_little(machine: Machine) -> None:
    """With a hundred models it takes 4 ms of the processor's time on an idle machine."""
    for number in range(100):
        machine.kernel.stub(300 + number, machine.serving, f"x{number}", MIB)
    took = []
    for _ in range(10):
        started = time.thread_time()
        take_snapshot(machine.settings, 0.0, {})
        took.append(time.thread_time() - started)
    assert min(took) < 0.03


async def test_guesses_wait_for_what_others_turn_out_to_take(tmp_path: Path) -> None:
    """Archives of a kind that was never loaded, all at once, each of thrice the guess.

    There is room for three of them, and for ten by their guesses: the first is loaded, and then it
    is known. One that is refused for good is refused at once.
    """
    machine = make_machine(tmp_path, patience_s=60.0)
    free(machine, RESERVE + 10 * GUESS)
    outcomes: list[str] = []

    async def load(number: int) -> None:
        try:
            await machine.load(f"m{number}", 3 * GUESS, payload=number)
            outcomes.append("loaded")
        except ResourceExhausted:
            outcomes.append("refused")

    await asyncio.wait_for(asyncio.gather(*(load(number) for number in range(8))), 60)
    assert sorted(outcomes) == ["loaded"] * 3 + ["refused"] * 5


@pytest.mark.parametrize("end", ["fails", "is cancelled", "takes for ever"])
async def test_a_guess_that_does_not_come_true(tmp_path: Path, end: str) -> None:
    """Who waits for it goes on when it has failed, and after a time whatever it does."""
    machine = make_machine(tmp_path, patience_s=0.3 if end == "takes for ever" else 60.0)
    free(machine, RESERVE + 3 * GUESS + MIB)
    first = await machine.admission.reserve(machine.plan("a", payload=1))

    async def load(name: str) -> None:
        (await machine.admission.reserve(machine.plan(name))).give_back()

    began = time.monotonic()
    second, third = (asyncio.ensure_future(load(name)) for name in "bc")
    if end != "takes for ever":
        done, _ = await asyncio.wait({second, third}, timeout=0.1)
        assert not done
    if end == "is cancelled":
        third.cancel()
    if end != "takes for ever":
        first.give_back()
    await asyncio.wait_for(asyncio.wait({second, third}), 60)
    assert second.exception() is None
    assert third.cancelled() or third.exception() is None
    assert end != "takes for ever" or time.monotonic() - began >= 0.3
    assert not machine.admission.waiting


# -- candidates, which have what nobody else needs


async def test_a_candidate_is_not_waited_for(tmp_path: Path) -> None:
    """Though what it takes is a guess, for which a load would wait if it were a model's."""
    machine = make_machine(tmp_path, patience_s=60.0)
    free(machine, RESERVE + 3 * GUESS + MIB)
    plan = machine.plan("a=candidate", payload=1)
    candidate = await machine.admission.reserve(plan, spare=True)
    other = await asyncio.wait_for(machine.admission.reserve(machine.plan("b")), 30)
    other.give_back()
    candidate.give_back()


async def test_no_tritonserver_is_replaced_for_a_candidate(machine: Machine) -> None:
    """It is for a model that finds as little room."""
    machine.shared[0] = 64 * MIB
    renewals = []

    async def renew() -> None:
        renewals.append(machine)

    admitting = _beside_dead_stubs(machine, 2, renew)
    await _one_is_there(machine, admitting)
    machine.shared[0] = MIB // 2
    for spare in (True, False):
        assert not renewals
        with pytest.raises(ResourceExhausted):
            await admitting.reserve(machine.plan("m"), spare=spare)
    assert renewals


async def test_another_registrys_models_are_there_too(machine: Machine) -> None:
    """One that is loaded is remembered for as long as it is, with what it takes."""
    candidates = Registry()
    machine.admission.follow(candidates)
    plan = machine.plan("m=candidate")
    reservation = await machine.admission.reserve(plan, spare=True)
    machine.hold("m=candidate", 20 * MIB)
    model = candidates.begin_load("m=candidate", "url")
    candidates.finish_load(model, plan)
    reservation.settle()
    await asyncio.gather(*machine.admission.learning)
    (await machine.admission.reserve(machine.plan("other"))).give_back()
    assert machine.ledger.get("m=candidate") is not None
    candidates.forget(candidates.begin_unload("m=candidate"))
    (await machine.admission.reserve(machine.plan("other"))).give_back()
    assert machine.ledger.get("m=candidate") is None


# -- a hundred models where there is reservation for twenty


@dataclass
class Traffic:
    """Copies of five archives, asked for at random by callers that load what is not there."""

    machine: Machine
    limit: int
    admit: Callable[[ServingPlan], Awaitable[Reservation]]
    kills: int = 0
    loads: int = 0
    refused: int = 0
    last_used: dict[str, int] = field(default_factory=dict)
    busy: set[str] = field(default_factory=set)

    async def caller(self, dice: random.Random, turns: int) -> None:
        """One of them, one model after the other."""
        for turn in range(turns):
            number = 1 + int(99 * dice.random() ** 1.5)
            name = f"m{number:03}"
            if name in self.busy:
                continue
            self.busy.add(name)
            self.last_used[name] = turn
            if name not in self.machine.pids:
                await self.load(name, number)
            elif dice.random() < 0.5:
                self.hold(name, 170 * MIB)  # it grows by requests
            self.busy.discard(name)

    async def load(self, name: str, number: int) -> None:
        """As the platform does: on 507 another model is unloaded, and it is tried again."""
        plan = self.machine.plan(name, payload=number % 5)
        while True:
            try:
                reservation = await self.admit(plan)
                break
            except ResourceExhausted:
                self.refused += 1
                await self.evict()
        self.loads += 1
        model = self.machine.registry.begin_load(name, "url")
        for memory in (20, 80, 150):
            await asyncio.sleep(0)
            self.hold(name, memory * MIB)
        self.machine.registry.finish_load(model, plan)
        reservation.settle()

    async def evict(self) -> None:
        """The least recently used of the models that nobody wants."""
        loaded = [it.name for it in self.machine.registry.all_loaded() if it.name not in self.busy]
        if loaded:
            self.machine.unload(min(loaded, key=lambda name: self.last_used[name]))
        await asyncio.sleep(0.001)

    def hold(self, name: str, memory: int) -> None:
        """The kernel kills where it goes over the limit."""
        self.machine.hold(name, memory)
        if self.machine.used > self.limit:
            self.kills += 1


@pytest.mark.slow
@pytest.mark.parametrize("looks_ahead", [True, False])
async def test_a_hundred_models_where_there_is_room_for_twenty(
    tmp_path: Path, looks_ahead: bool
) -> None:
    """Nothing is killed, however many loads come at once; looking at the reserve is not enough."""
    limit = RESERVE + 20 * 175 * MIB
    machine = make_machine(tmp_path, patience_s=PATIENCE_S)
    machine.free = limit

    async def reserve_alone(_: ServingPlan) -> Reservation:
        if read_available_memory(machine.kernel.kernel) < RESERVE:
            raise ResourceExhausted("no memory")
        return Reservation(machine.admission, None, None)

    admit = machine.admission.reserve if looks_ahead else reserve_alone
    traffic = Traffic(machine, limit, admit)
    callers = (traffic.caller(random.Random(seed), 12) for seed in range(12))
    await asyncio.wait_for(asyncio.gather(*callers), 120)
    assert traffic.loads > 60
    assert traffic.refused > 10
    assert (traffic.kills == 0) is looks_ahead
