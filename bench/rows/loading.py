"""Loads and unloads: what users feel most on a multi-model endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import payloads, wrk
from bench.errors import AnswerWrong
from bench.measure import Goal, Line, measure_in_turn, ratio_at_most, value_at_most
from bench.models import EXPORTS
from bench.payloads import Payload
from bench.proc import is_alive, read_cpu_seconds
from bench.rows import timed
from bench.rows.row import Row, Run
from bench.servers import BareTriton, Container, SageMakerServer, Side, wait_until
from merlin_simulator.measuring.machine import count_cores

_AT_ONCE, _BURN_S = 8, 0.5
_MANY = 200

#: By contender, in seconds.
_Took = dict[str, list[float]]


def _cold_load_python(run: Run, row: str) -> Iterator[Line]:
    model = run.contenders.archives.identity("cold")
    run.contenders.bare.deliver(model)
    loads = _timed_loads(run, {"rival": model, "limit": model, "ours": model}, payloads.small())
    rounds = run.few_rounds if run.short else run.rounds
    values = measure_in_turn(rounds, loads, run.teller(row, "load"))
    yield Line(row, "cold load, trivial Python model", "s", values, ratio_at_most(0.12))


def _cold_load_merlin(run: Run, row: str) -> Iterator[Line]:
    archives, payload = run.contenders.archives, _example("dense")
    ours = archives.merlin("cold-merlin", "dense")
    for compile_, what, goal in (
        ("auto", "workflow", ratio_at_most(0.12)),
        ("off", "workflow in NVTabular", None),
    ):
        by_hand = archives.merlin_ensemble(f"cold-merlin-{compile_}", "dense", compile_)
        run.contenders.bare.deliver(by_hand)
        models = {"rival": by_hand, "limit": by_hand, "ours": ours}
        values = measure_in_turn(
            run.few_rounds, _timed_loads(run, models, payload), run.teller(row, f"load, {what}")
        )
        yield Line(
            row,
            f"cold load, Merlin {what} + PyTorch",
            "s",
            values,
            goal,
            note=f"rival and limit: the ensemble by rewrite --compile {compile_}; "
            "ours: the export, as Merlin made it",
        )


def _timed_loads(
    run: Run, models: dict[str, str], payload: Payload
) -> dict[str, Callable[[], float]]:
    """For each contender a load that is timed, then checked by an invocation, then undone."""
    contenders = run.contenders
    servers: dict[str, tuple[SageMakerServer | BareTriton, bool]] = {
        "rival": (contenders.rival, True),
        "limit": (contenders.bare, False),
        "ours": (contenders.ours, True),
    }

    def load(contender: str, model: str) -> float:
        server, sagemaker = servers[contender]
        return timed.time_load(Side(contender, server.port, sagemaker), server, model, payload)

    return {contender: partial(load, contender, model) for contender, model in models.items()}


def _load_8_at_once(run: Run, row: str) -> Iterator[Line]:
    contenders = run.contenders
    names = [f"burning-{number}" for number in range(_AT_ONCE)]
    for name in names:
        contenders.archives.identity(name, burn_s=_BURN_S)
        contenders.bare.deliver(name)
    tell = run.teller(row, "each alone, on the limit")
    tell(0)
    alone = [_load_alone(contenders.bare, name) for name in names]
    least = max(sum(cpu for cpu, _ in alone) / count_cores(), max(took for _, took in alone))
    sides = {
        "rival": partial(_load_together, contenders.rival, names),
        "limit": partial(_load_together, contenders.bare, names),
        "ours": partial(_load_together, contenders.ours, names),
    }
    values = measure_in_turn(run.few_rounds, sides, run.teller(row, "all together"), warm=False)
    yield Line(
        row,
        f"{_AT_ONCE} models at once, until the last is loaded",
        "s",
        {**values, "least": [least]},
        ratio_at_most(1.3),
        against="least",
        note=f"least: {sum(cpu for cpu, _ in alone):.2f} s of CPU on {count_cores()} cores",
    )


def _load_alone(bare: BareTriton, name: str) -> tuple[float, float]:
    """CPU seconds of tritonserver and all below it, and seconds on the clock."""
    before, started = read_cpu_seconds(bare.process.pid), time.perf_counter()
    bare.load(name)
    took, used = time.perf_counter() - started, read_cpu_seconds(bare.process.pid) - before
    _unload_whole(bare, name)
    return used, took


def _load_together(server: SageMakerServer | BareTriton, names: list[str]) -> float:
    with ThreadPoolExecutor(len(names)) as callers:
        started = time.perf_counter()
        list(callers.map(server.load, names))
        took = time.perf_counter() - started
        list(callers.map(partial(_unload_whole, server), names))
    return took


def _load_200th(run: Run, row: str) -> Iterator[Line]:
    archives = run.contenders.archives
    names = [archives.identity(f"small-{number}") for number in range(_MANY)]
    with run.contenders.fresh_ours() as ours:
        took = _one_after_another(run, f"{row}: ours", ours, names)
        values = {"ours": took[-5:], "first 5": took[:5]}
        yield Line(
            row,
            f"load of the {_MANY}th model",
            "s",
            values,
            ratio_at_most(1.2),
            against="first 5",
        )
        yield _listing(run, row, ours)
        run.progress(f"{row}: stopping with {_MANY} models")
    with run.contenders.fresh_bare(own_threads=True) as bare:
        bare.until_ready("/v2/health/ready")
        for name in names:
            bare.deliver(name)
        took = _one_after_another(run, f"{row}: limit", bare, names)
        values = {"limit": took[-5:], "limit's first 5": took[:5]}
        yield Line(
            row,
            f"the same of the limit: load of the {_MANY}th model",
            "s",
            values,
            subject="limit",
            against="limit's first 5",
        )
        run.progress(f"{row}: stopping with {_MANY} models")


def _one_after_another(
    run: Run, row: str, server: SageMakerServer | BareTriton, names: list[str]
) -> list[float]:
    """The seconds that each load took."""
    took = []
    for number, name in enumerate(names, start=1):
        if number % 20 == 1:
            run.progress(f"{row}, load {number} of {len(names)}")
        started = time.perf_counter()
        server.load(name)
        took.append(time.perf_counter() - started)
    return took


def _listing(run: Run, row: str, ours: Container) -> Line:
    listed = ours.demand("GET", "/models")
    if (count := listed.count(b'"modelName"')) != _MANY:
        raise AnswerWrong("ours", "GET /models", f"{count} models", f"all {_MANY}")
    url = f"http://127.0.0.1:{ours.port}/models"
    target = wrk.write_target(run.scratch, "listing", url, None, {})
    tell = run.teller(row, "listing")
    values = measure_in_turn(
        run.few_rounds, {"ours": lambda: wrk.run(target, run.seconds).p50}, tell
    )
    what = f"listing {_MANY} models, p50"
    return Line(row, what, "s", values, value_at_most(0.005), against=None)


def _unload(run: Run, row: str) -> Iterator[Line]:
    archives = run.contenders.archives
    model = archives.identity("leaving")
    run.contenders.bare.deliver(model)
    models = {"rival": model, "limit": model, "ours": model}
    yield from _unloads(run, row, "unload", models, ratio_at_most(0.2))
    if not run.short:
        by_hand = archives.merlin_ensemble("leaving-by-hand", "dense", "auto")
        run.contenders.bare.deliver(by_hand)
        ours = archives.merlin("leaving-merlin", "dense")
        models = {"rival": by_hand, "limit": by_hand, "ours": ours}
        yield from _unloads(run, row, "unload of a compiled export", models, ratio_at_most(0.15))


def _unloads(
    run: Run, row: str, what: str, models: Mapping[str, str], goal: Goal
) -> Iterator[Line]:
    contenders = run.contenders
    answered: _Took = {"rival": [], "limit": [], "ours": []}
    ended: _Took = {"rival": [], "limit": [], "ours": []}
    sides: dict[str, Callable[[], float]] = {
        name: partial(_timed_unload, server, models[name], answered[name], ended[name])
        for name, server in (
            ("rival", contenders.rival),
            ("limit", contenders.bare),
            ("ours", contenders.ours),
        )
    }
    rounds = run.few_rounds if run.short else run.rounds
    freed = measure_in_turn(rounds, sides, run.teller(row, what), warm=False)
    yield Line(row, f"{what}, until everything is free", "s", freed, goal)
    answers = {name: took for name, took in answered.items() if name != "limit"}
    yield Line(row, f"{what}, until DELETE is answered", "s", answers)
    yield Line(row, f"{what}, until its processes are gone", "s", ended)


def _timed_unload(
    server: SageMakerServer | BareTriton,
    model: str,
    answered: list[float],
    ended: list[float],
) -> float:
    """The load before it is not timed.

    The seconds until the answer are put into `answered`, until no process is left into `ended`.
    """
    before, regions = {process.pid for process in server.stubs()}, server.regions()
    server.load(model)
    own = [process.pid for process in server.stubs() if process.pid not in before]
    times = _unload_whole(server, model, own, server.regions() - regions)
    answered.append(times.answered)
    ended.append(times.ended)
    return times.free


@dataclass(frozen=True)
class _Unload:
    """Seconds until it is answered, no process is left, and nothing else that was its own."""

    answered: float
    ended: float
    free: float


def _unload_whole(
    server: SageMakerServer | BareTriton,
    model: str,
    processes: Sequence[int] = (),
    regions: Set[str] = frozenset(),
) -> _Unload:
    """processes: by their ids, where the model is not one process that bears its name.

    regions: of shared memory, which must be gone as well.
    """
    stubs = processes or [process.pid for process in server.stubs(model)]
    if not stubs:
        raise AnswerWrong(server.name, f"processes of {model}", "none", "a stub that serves it")
    container = server if isinstance(server, Container) else None
    published = Path(container.triton_argument("model-repository"), model) if container else None
    if published and not published.exists():
        raise AnswerWrong(server.name, f"{published}", "nothing", "the published model")
    started = time.perf_counter()
    server.unload(model)
    answered = time.perf_counter() - started
    gone = f"{server.name}: everything of {model} is gone"
    wait_until(lambda: not any(map(is_alive, stubs)), gone)
    ended = time.perf_counter() - started
    wait_until(lambda: not (published and published.exists()), gone)
    wait_until(lambda: not regions & server.regions(), gone)
    return _Unload(answered, ended, time.perf_counter() - started)


def _example(export: str) -> Payload:
    return payloads.read_example(EXPORTS / export)


ROWS = (
    Row(
        "cold_load_python",
        "Cold load of a trivial Python model",
        "POST /models to its 200 by the clock (limit: tritonserver's own load call, strict "
        "configuration), then an invocation whose answer is compared, then an unload; in turn.",
        _cold_load_python,
        in_short=True,
        profile=(
            "tritonserver's Python backend clears a flag in shared memory and sleeps for a second "
            "before it ends a model's process (StubLauncher::UpdateHealth), then waits for a "
            "thread for up to 0.3 s. It does so for the limit and the rival too, which then polls "
            "every 0.5 s."
        ),
    ),
    Row(
        "cold_load_merlin",
        "Cold load of a Merlin export",
        "As above, of examples/merlin/dense. The rival cannot serve the export itself and is given "
        "the same ensemble, prepared ahead of time by python -m ensemble_tools rewrite: with the "
        "workflow compiled, as ours serves it, and with NVTabular, as one would make it by hand.",
        _cold_load_merlin,
        profile=(
            "half of it is the start of the process that writes the compiled workflow's tables, "
            "which the other two were given ready; the rest is tritonserver's start of a stub."
        ),
    ),
    Row(
        "load_8_at_once",
        "Eight models at once",
        f"{_AT_ONCE} models that each use {_BURN_S:g} s of CPU to initialize, asked for at "
        "the same moment; from there to the last 200. The least that the cores need: each model is "
        "loaded alone on the limit, the CPU seconds of tritonserver and its children are summed "
        "over all eight and divided by the cores, or the longest of those loads if that is more.",
        _load_8_at_once,
    ),
    Row(
        "load_200th",
        "Two hundred models",
        f"{_MANY} trivial Python models into one fresh container, one after another: the median of "
        "the last five loads against that of the first five; then GET /models with all of them "
        "loaded, wrk on one connection. The same loads on a fresh limit, whose Python models keep "
        "their 32 threads each, show how much of the growth is tritonserver's own.",
        _load_200th,
        profile=(
            "tritonserver forks itself for each Python model, with the memory mappings and "
            "threads of all models that are there, and copies each page that it writes to while "
            "the fork lasts (perf). The limit grows alike."
        ),
    ),
    Row(
        "unload",
        "Unload, with everything freed",
        "From DELETE until it is answered 200, every process of the model is gone from /proc, its "
        "regions from /dev/shm and, for ours, its files from the serving repository. Limit: "
        "tritonserver's own unload call, and then the same. The export is examples/merlin/dense, "
        "and for rival and limit the same ensemble, prepared by rewrite.",
        _unload,
        in_short=True,
        profile=(
            "tritonserver's Python backend sleeps for a second before it ends a model's process "
            "and gives its region of shared memory back. Where the processes have nothing to "
            "finalize they are ended before that, and the answer does not wait for tritonserver; "
            "a model.py of the archive's own is left its finalize."
        ),
    ),
)
