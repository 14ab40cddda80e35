"""Loads and unloads: what users feel most on a multi-model endpoint."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from bench import payloads, wrk
from bench.errors import AnswerWrong
from bench.measure import Goal, Line, ratio_at_most, value_at_most
from bench.models import EXPORTS
from bench.proc import is_alive, read_cpu_seconds
from bench.rows.row import Row, Run
from bench.servers import Container, Server, time_load, wait_until
from merlin_simulator.measuring.machine import count_cores

_AT_ONCE, _BURN_S = 8, 0.5
_MANY = 200
#: From a load to its unload: models that are evicted have long been idle.
_IDLE_S = 0.5


def _measure_python_load(run: Run) -> Iterator[Line]:
    model = run.contenders.archives.write_identity("cold")
    run.contenders.bare.deliver(model)
    loads = {
        name: partial(time_load, server, model, payloads.make_small())
        for name, server in run.contenders.servers.items()
    }
    rounds = run.few_rounds if run.short else run.rounds
    values = run.take_turns("load", loads, rounds=rounds, warm=True)
    yield Line("cold load, trivial Python model", "s", values, ratio_at_most(0.12))


def _measure_merlin_load(run: Run) -> Iterator[Line]:
    for compile_, what, goal in (
        ("auto", "workflow", ratio_at_most(0.12)),
        ("off", "workflow in NVTabular", None),
    ):
        models = _prepare_export(run, f"cold-merlin-{compile_}", "cold-merlin", compile_)
        example = payloads.read_example(EXPORTS / "dense")
        loads = {
            name: partial(time_load, server, models[name], example)
            for name, server in run.contenders.servers.items()
        }
        values = run.take_turns(f"load, {what}", loads, rounds=run.few_rounds, warm=True)
        note = (
            f"rival and limit: the ensemble by rewrite --compile {compile_}; "
            "ours: the export, as Merlin made it"
        )
        yield Line(f"cold load, Merlin {what} + PyTorch", "s", values, goal, note=note)


def _measure_merlin_reload(run: Run) -> Iterator[Line]:
    archives, example = run.contenders.archives, payloads.read_example(EXPORTS / "dense")
    for name in ("reloaded", "reloaded-beside"):
        archives.copy_export(name, "dense")
    inside: dict[str, list[float]] = {}

    def load(side: str, server: Container, model: str) -> float:
        before = server.read_load_seconds("tritonserver")
        seconds = time_load(server, model, example)
        inside.setdefault(side, []).append(server.read_load_seconds("tritonserver") - before)
        return seconds

    with run.contenders.start_ours("keeping", {"SERVE_TABLE_CACHE_MB": "1024"}) as keeping:
        loads = {
            "first": partial(load, "first", run.contenders.ours, "reloaded"),
            "again": partial(load, "again", keeping, "reloaded"),
            "beside": partial(load, "beside", keeping, "reloaded-beside"),
        }
        seconds = run.take_turns("load, first and again", loads, warm=True)
    for side, what, goal in (
        ("first", "first load, Merlin workflow + PyTorch", value_at_most(0.25)),
        ("again", "load of it once more", value_at_most(0.12)),
        ("beside", "load of another archive with its workflow", None),
    ):
        yield Line(what, "s", {"ours": seconds[side]}, goal, against=None)
        own = inside[side][-len(seconds[side]) :]
        yield Line(f"{what}, in tritonserver", "s", {"ours": own}, against=None)


def _prepare_export(run: Run, by_hand: str, export: str, compile_: str) -> dict[str, str]:
    """The model of each contender: the export, and an ensemble prepared by hand where need be."""
    archives = run.contenders.archives
    archives.copy_export(export, "dense")
    archives.rewrite_export(by_hand, "dense", compile_)
    run.contenders.bare.deliver(by_hand)
    return {"rival": by_hand, "limit": by_hand, "ours": export}


def _measure_8_at_once(run: Run) -> Iterator[Line]:
    contenders = run.contenders
    names = [f"burning-{number}" for number in range(_AT_ONCE)]
    for name in names:
        contenders.archives.write_identity(name, burn_s=_BURN_S)
        contenders.bare.deliver(name)
    run.progress("each alone, on the limit")
    loads = [_load_alone(contenders.bare, name) for name in names]
    cpu_s = sum(cpu for cpu, _ in loads)
    least = max(cpu_s / count_cores(), max(seconds for _, seconds in loads))
    sides = {
        name: partial(_load_together, server, names) for name, server in contenders.servers.items()
    }
    values = run.take_turns("all together", sides, rounds=run.few_rounds, warm=False)
    yield Line(
        f"{_AT_ONCE} models at once, until the last is loaded",
        "s",
        {**values, "least": [least]},
        ratio_at_most(1.3),
        against="least",
        note=f"least: {cpu_s:.2f} s of CPU on {count_cores()} cores",
    )


def _load_alone(server: Server, name: str) -> tuple[float, float]:
    """CPU seconds of tritonserver and all below it, and seconds on the clock."""
    before = read_cpu_seconds(server.process.pid)
    seconds = _time(server.load, name)
    used = read_cpu_seconds(server.process.pid) - before
    _unload_whole(server, name)
    return used, seconds


def _load_together(server: Server, names: list[str]) -> float:
    with ThreadPoolExecutor(len(names)) as callers:
        seconds = _time(lambda: list(callers.map(server.load, names)))
        list(callers.map(partial(_unload_whole, server), names))
    return seconds


def _measure_200th(run: Run) -> Iterator[Line]:
    archives = run.contenders.archives
    names = [archives.write_identity(f"small-{number}") for number in range(_MANY)]
    with run.contenders.start_ours() as ours:
        loads = _load_one_after_another(run, ours, names)
        values = {"ours": loads[-5:], "first 5": loads[:5]}
        what = f"load of the {_MANY}th model"
        yield Line(what, "s", values, ratio_at_most(1.2), against="first 5")
        yield _measure_listing(run, ours)
        run.progress(f"stopping with {_MANY} models")
    with run.contenders.start_bare(own_threads=True) as bare:
        bare.until_ready()
        for name in names:
            bare.deliver(name)
        loads = _load_one_after_another(run, bare, names)
        values = {"limit": loads[-5:], "limit's first 5": loads[:5]}
        what = f"the same of the limit: {what}"
        yield Line(what, "s", values, subject="limit", against="limit's first 5")
        run.progress(f"stopping with {_MANY} models")


def _load_one_after_another(run: Run, server: Server, names: list[str]) -> list[float]:
    """The seconds of each load."""
    loads = []
    for number, name in enumerate(names, start=1):
        if number % 20 == 1:
            run.progress(f"{server.name}, load {number} of {len(names)}")
        loads.append(_time(server.load, name))
    return loads


def _measure_listing(run: Run, ours: Container) -> Line:
    listing = ours.demand("GET", "/models")
    if (count := listing.count(b'"modelName"')) != _MANY:
        raise AnswerWrong("ours", "GET /models", f"{count} models", f"all {_MANY}")
    url = f"http://127.0.0.1:{ours.port}/models"
    target = wrk.write_target(run.scratch, "listing", url, None, {})
    values = run.send("listing", {"ours": target}, rounds=run.few_rounds, warm=True)
    return Line(f"listing {_MANY} models, p50", "s", values, value_at_most(0.005), against=None)


def _measure_unload(run: Run) -> Iterator[Line]:
    model = run.contenders.archives.write_identity("leaving")
    run.contenders.bare.deliver(model)
    models = dict.fromkeys(run.contenders.servers, model)
    yield from _measure_unloads(run, "unload", models, ratio_at_most(0.2))
    if not run.short:
        models = _prepare_export(run, "leaving-by-hand", "leaving-merlin", "auto")
        what = "unload of a compiled export"
        yield from _measure_unloads(run, what, models, ratio_at_most(0.15))
        yield _measure_return(run, models)


def _measure_unloads(run: Run, what: str, models: Mapping[str, str], goal: Goal) -> Iterator[Line]:
    unloads: dict[str, list[_Unload]] = {name: [] for name in models}

    def unload(name: str, server: Server) -> float:
        unloads[name].append(_load_and_unload(server, models[name]))
        return unloads[name][-1].free

    sides = {name: partial(unload, name, server) for name, server in run.contenders.servers.items()}
    rounds = run.few_rounds if run.short else run.rounds
    free = run.take_turns(what, sides, rounds=rounds, warm=False)
    answered = {name: [it.answered for it in unloads[name]] for name in ("rival", "ours")}
    ended = {name: [it.ended for it in of_name] for name, of_name in unloads.items()}
    yield Line(f"{what}, until everything is free", "s", free, goal)
    yield Line(f"{what}, until DELETE is answered", "s", answered)
    yield Line(f"{what}, until its processes are gone", "s", ended)


def _measure_return(run: Run, models: Mapping[str, str]) -> Line:
    sides = {
        name: partial(_load_right_after, server, models[name])
        for name, server in run.contenders.servers.items()
    }
    what = "load of a compiled export right after its unload"
    values = run.take_turns(what, sides, rounds=run.rounds, warm=False)
    return Line(what, "s", values, value_at_most(0.25))


def _load_right_after(server: Server, model: str) -> float:
    """The seconds of a load that comes as soon as an unload of that name is answered."""
    server.load(model)
    server.unload(model)
    seconds = _time(server.load, model)
    server.unload(model)
    if isinstance(server, Container):
        gone = f"{server.name}: everything of {model} is gone"
        wait_until(lambda: not any(server.repository.glob(f"{model}*")), gone)
    return seconds


@dataclass(frozen=True)
class _Unload:
    """Seconds until it is answered, no process is left, and nothing else that was its own."""

    answered: float
    ended: float
    free: float


def _load_and_unload(server: Server, model: str) -> _Unload:
    earlier, regions = {process.pid for process in server.list_stubs()}, server.list_regions()
    server.load(model)
    own = [process.pid for process in server.list_stubs() if process.pid not in earlier]
    time.sleep(_IDLE_S)
    return _unload_whole(server, model, own, server.list_regions() - regions)


def _unload_whole(
    server: Server, model: str, processes: Sequence[int] = (), regions: Set[str] = frozenset()
) -> _Unload:
    """Time an unload until all of the model is gone.

    processes: by their ids, where the model is not one process that bears its name. regions: of
    shared memory, which must be gone as well.
    """
    stubs = processes or [process.pid for process in server.list_stubs(model)]
    if not stubs:
        raise AnswerWrong(server.name, f"processes of {model}", "none", "a stub that serves it")
    published = server.repository / model if isinstance(server, Container) else None
    if published and not published.exists():
        raise AnswerWrong(server.name, f"{published}", "nothing", "the published model")
    gone = f"{server.name}: everything of {model} is gone"
    started = time.perf_counter()
    server.unload(model)
    answered = time.perf_counter() - started
    wait_until(lambda: not any(map(is_alive, stubs)), gone)
    ended = time.perf_counter() - started
    wait_until(lambda: not (published and published.exists()), gone)
    wait_until(lambda: not regions & server.list_regions(), gone)
    return _Unload(answered, ended, time.perf_counter() - started)


def _time(call: Callable[..., object], *arguments: object) -> float:
    started = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - started


ROWS = (
    Row(
        "cold_load_python",
        "Cold load of a trivial Python model",
        "POST /models to its 200 by the clock (limit: tritonserver's own load call, strict "
        "configuration), then an invocation whose answer is compared, then an unload; in turn.",
        _measure_python_load,
        in_short=True,
    ),
    Row(
        "cold_load_merlin",
        "Cold load of a Merlin export",
        "As above, of examples/merlin/dense. The rival cannot serve the export itself and is given "
        "the same ensemble, prepared ahead of time by python -m ensemble_tools rewrite: with the "
        "workflow compiled, as ours serves it, and with NVTabular, as one would make it by hand.",
        _measure_merlin_load,
    ),
    Row(
        "reload_merlin",
        "Loads of one Merlin workflow, first and again",
        "POST /models of examples/merlin/dense to its 200 by the clock, then an invocation whose "
        "answer is compared, then an unload; in turn: without tables of an earlier load "
        "(SERVE_TABLE_CACHE_MB=0), with them, and with those of another archive that has the same "
        "workflow. PyTorch's interpreter runs already. In tritonserver: serve_load_seconds' stage "
        "of that name.",
        _measure_merlin_reload,
    ),
    Row(
        "load_8_at_once",
        "Eight models at once",
        f"{_AT_ONCE} models that each use {_BURN_S:g} s of CPU to initialize, asked for at "
        "the same moment; from there to the last 200. The least that the cores need: each model is "
        "loaded alone on the limit, the CPU seconds of tritonserver and its children are summed "
        "over all eight and divided by the cores, or the longest of those loads if that is more.",
        _measure_8_at_once,
    ),
    Row(
        "load_200th",
        "Two hundred models",
        f"{_MANY} trivial Python models into one fresh container, one after another: the median of "
        "the last five loads against that of the first five; then GET /models with all of them "
        "loaded, wrk on one connection. The same loads on a fresh limit, whose Python models keep "
        "their 32 threads each, show how much of the growth is tritonserver's own.",
        _measure_200th,
    ),
    Row(
        "unload",
        "Unload, with everything freed",
        "From DELETE until it is answered 200, every process of the model is gone from /proc, its "
        "regions from /dev/shm and, for ours, its files from the serving repository. Limit: "
        "tritonserver's own unload call, and then the same. The export is examples/merlin/dense, "
        "and for rival and limit the same ensemble, prepared by rewrite. Then POST /models as soon "
        "as a DELETE of the same name is answered, to its 200.",
        _measure_unload,
        in_short=True,
    ),
)
