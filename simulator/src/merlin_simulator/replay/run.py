"""One replay from the archives to the report. Here its parts are joined; nothing is decided."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from merlin_simulator.addresses import find_free_port
from merlin_simulator.interrupts import INTERRUPTED, hold_signals, leaving_at_once, run_uncut
from merlin_simulator.measuring.quantities import format_seconds, format_share
from merlin_simulator.replay.asking import Asking, Runtime
from merlin_simulator.replay.capture import CapturedAsking, read_capture, schedule_capture
from merlin_simulator.replay.copies import (
    SUFFIX,
    Advance,
    SourceModel,
    find_source_models,
    make_asking,
    make_names,
    write_copies,
)
from merlin_simulator.replay.live_line import show
from merlin_simulator.replay.load import (
    Load,
    Recording,
    Schedule,
    draw_arrivals,
    zipf_shares,
)
from merlin_simulator.replay.local_endpoint import (
    Scratch,
    make_up_command,
    start_endpoint,
)
from merlin_simulator.replay.observing import Observer, wait_until_in_service
from merlin_simulator.replay.settings import (
    EndpointTrouble,
    Interrupted,
    Settings,
    UnusableModel,
    UnusableReport,
)
from merlin_simulator.replay.summary import (
    ReplayContext,
    describe_machine,
    find_versions,
    is_good,
    summarise,
)

GOOD, NOT_GOOD = 0, 1

#: AWS's start-up window in practice; the containers' own window ends before.
START_S = 500.0
#: An endpoint that somebody else runs answers within this, or is not there.
ANSWER_S = 5.0
#: For the stream to tell the end of requests that are answered.
_EVENTS_S = 5.0
#: Between two looks whether the endpoint's process lives.
_LIVES_EVERY_S = 0.5

#: What starts an endpoint for a folder of archives on a port; tests put another one in.
Command = Callable[[Settings, Scratch, int], Sequence[str]]


def replay(settings: Settings, report: Path, command: Command = make_up_command) -> int:
    """All of it; the report's folder is made. Returns the exit code, raises ReplayError.

    0 when everything that was planned was sent and each answer was right, 1 when not, 130 after an
    interruption, of which there is a report if traffic had begun. When the traffic is over, SIGTERM
    changes nothing: the endpoint stops, which takes a bounded time, and the report is written.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        return _replayed(settings, report, command)
    finally:
        signal.signal(signal.SIGTERM, before)


def _replayed(settings: Settings, report: Path, command: Command) -> int:
    sources: tuple[SourceModel, ...] = ()
    if settings.capture is not None:
        settings, schedule, asking = _read_schedule(settings, settings.capture)
    else:
        if settings.model:
            sources = find_source_models(settings.model, settings.request)
        schedule = _draw_schedule(settings)
        asking = make_asking(schedule.names, sources)
    _make_folder(report, "--report")
    logs = None if settings.endpoint_url else report / "logs"
    with _endpoint(settings, schedule.names, sources, logs, command) as (url, gone):
        recording = run_uncut(lambda: _record(settings, schedule, asking, url, gone))
    setting = ReplayContext(
        settings,
        [name + SUFFIX for name in schedule.names],
        schedule.shares,
        _describe_model(settings),
        describe_machine(),
        find_versions(logs),
        max(1, len(sources)),
    )
    write_report(report, setting, recording)
    if recording.interrupted == Interrupted.REASON:
        return INTERRUPTED
    return GOOD if is_good(recording) else NOT_GOOD


def _describe_model(settings: Settings) -> str:
    if settings.capture and settings.endpoint_url:
        return "the endpoint's archives"
    return str(settings.model or "the replay's own, which answers its name")


def _draw_schedule(settings: Settings) -> Schedule:
    shares = zipf_shares(settings.models, settings.zipf)
    arrivals = draw_arrivals(settings.rps, settings.duration_s, shares, settings.seed)
    return Schedule(make_names(settings.models), shares, arrivals)


def _read_schedule(settings: Settings, capture: Path) -> tuple[Settings, Schedule, Asking]:
    """Archives of others are asked what they were asked; the replay's own, its own requests."""
    are_others = bool(settings.model or settings.endpoint_url)
    requests = read_capture(capture, bodies=are_others)
    settings, schedule = schedule_capture(settings, requests)
    if not are_others:
        return settings, schedule, make_asking(schedule.names, ())
    folder = settings.model
    missing = [n for n in schedule.names if folder and not (folder / (n + SUFFIX)).is_file()]
    if missing:
        assert folder is not None, "archives are missing in a folder"
        archive = missing[0] + SUFFIX
        archives = (path for path in folder.rglob(f"*{SUFFIX}") if path.is_file())
        below = (path.relative_to(folder).as_posix() for path in archives)
        deeper = next((path for path in below if path.endswith(f"/{archive}")), "")
        other = f", but {deeper}" if deeper else ""
        advice = ", or with --capture the one that has <endpoint>/<variant>/" if deeper else ""
        raise UnusableModel(
            f"{folder}: found {len(schedule.names) - len(missing)} of the {len(schedule.names)} "
            f"archives that were asked in {capture}, and no {archive}{other}; give the folder "
            f"that has all of them{advice}."
        )
    return settings, schedule, CapturedAsking(requests)


def _make_folder(folder: Path, option: str) -> None:
    """Make it, and see that files can be made in it: before the traffic, not after."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UnusableReport(
            f"{option} {folder}: no files can be written there ({error.strerror or error}); "
            "name a folder that you may write to."
        ) from error


def make_archives(settings: Settings, folder: Path) -> None:
    """The archives only, in a folder that is made, for an endpoint that somebody else runs."""
    sources = find_source_models(settings.model, settings.request) if settings.model else ()
    _make_folder(folder, "--archives-only")
    _write_archives(make_names(settings.models), sources, folder)


def write_report(folder: Path, setting: ReplayContext, recording: Recording) -> None:
    """report.json and report.html."""
    # Only here: matplotlib takes a second to import. By now nothing runs that would be left.
    with leaving_at_once():
        from merlin_simulator.replay.figures import draw_figures
        from merlin_simulator.replay.page import format_shares, write_report_page

    summary = summarise(setting, recording)
    (folder / "report.json").write_text(json.dumps(summary, indent=1) + "\n", "utf-8")
    (folder / "report.html").write_text(
        write_report_page(summary, draw_figures(summary, recording)), "utf-8"
    )
    latency, ratio = summary["latency_s"], summary["hit_ratio"]
    for kind in ("warm", "cold"):
        if latency[kind]["count"]:
            p50, p99 = format_seconds(latency[kind]["p50"]), format_seconds(latency[kind]["p99"])
            _say(f"{kind}: {latency[kind]['count']} requests, p50 {p50}, p99 {p99}")
    if spent := format_shares(summary["cold_parts_s"]):
        _say(f"  cold requests waited for: {spent}")
    _say(
        f"hit ratio {'-' if ratio is None else format_share(ratio)}, "
        f"{summary['loading']['evictions']} evictions, "
        f"{sum(kind['count'] for kind in summary['failures'])} failures, "
        f"{len(recording.not_sent)} not sent"
    )
    for kind in summary["failures"]:
        _say(f"  {kind['count']} x {kind['name']}: {kind['example']}")
    _say(f"report: {folder / 'report.html'}")


@contextmanager
def _endpoint(
    settings: Settings,
    names: tuple[str, ...],
    sources: tuple[SourceModel, ...],
    logs: Path | None,
    command: Command,
) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """(url, what says why it is gone) of the given endpoint, or of one made for this replay."""
    if logs is None:
        assert settings.endpoint_url is not None, "an endpoint of ours has logs"
        yield settings.endpoint_url, lambda: None
        return
    logs.mkdir(exist_ok=True)
    release = hold_signals()
    try:
        temporary = tempfile.TemporaryDirectory(prefix="replay-")
    finally:
        release()  # between the folder and who removes it no Ctrl-C comes
    with temporary as folder:
        scratch = Scratch(Path(folder) / "archives", Path(folder) / "endpoint")
        for directory in (scratch.archives, scratch.work):
            directory.mkdir()
        if settings.capture and settings.model:
            scratch = replace(scratch, archives=settings.model)
        else:
            _write_archives(names, sources, scratch.archives)
        port = find_free_port()
        try:
            with start_endpoint(
                command(settings, scratch, port), port, logs / "endpoint.log"
            ) as endpoint:
                yield endpoint.url, endpoint.gone
        finally:
            for written in scratch.work.glob("*.log"):
                shutil.copyfile(written, logs / written.name)


def _write_archives(names: tuple[str, ...], sources: tuple[SourceModel, ...], folder: Path) -> None:
    began = time.monotonic()
    with _progress("archives", len(names)) as advance:
        write_copies(names, sources, folder, advance)
    _say(f"{len(names)} archives made in {format_seconds(time.monotonic() - began)}")


@contextmanager
def _progress(title: str, total: int) -> Iterator[Advance]:
    """A bar on a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from tqdm import tqdm  # only people at a terminal pay for its import

    with tqdm(total=total, desc=title, leave=False) as bar:
        yield bar.update


@dataclass
class _Stop:
    """Set once, with the first reason."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str | None = None

    def set(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.event.set()


async def _record(
    settings: Settings,
    schedule: Schedule,
    asking: Asking,
    url: str,
    gone: Callable[[], str | None],
) -> Recording:
    """The traffic on an endpoint that may still be starting."""
    runtime = Runtime(url, settings.endpoint_name)
    target_models = [name + SUFFIX for name in schedule.names]
    load = Load(runtime, asking, target_models, settings.outstanding)
    observer = Observer(url, settings.endpoint_name)
    if not settings.endpoint_url:
        _say(f"endpoint {settings.endpoint_name} starts; its page: {url}/")
    try:
        async with _stopping(gone) as stop:
            await _until_ready(observer, settings, gone, stop)
            await observer.begin()
            started_at = time.time()
            duration = format_seconds(settings.duration_s)
            _say(f"traffic: {len(schedule.arrivals)} requests in {duration}")
            async with _beside(show(load, observer, settings.duration_s)):
                await load.run(schedule.arrivals, stop.event)
            elapsed = load.elapsed
            await _wait_for_events(load, observer, gone)
    finally:
        await observer.close()
        await runtime.close()
    return Recording(
        started_at,
        elapsed,
        load.planned,
        load.samples,
        load.not_sent,
        observer.events,
        observer.looks,
        observer.missed,
        stop.reason,
    )


async def _until_ready(
    observer: Observer, settings: Settings, gone: Callable[[], str | None], stop: _Stop
) -> None:
    name = settings.endpoint_name
    began = time.monotonic()
    # Ours takes its time, and is known to be there by its process.
    answer_s = ANSWER_S if settings.endpoint_url else START_S

    def waiting(states: str) -> None:
        if settings.endpoint_url:
            _say(f"waiting until every instance is in service: {states}")

    await wait_until_in_service(
        observer, name, lambda: stop.reason or gone(), START_S, answer_s, waiting
    )
    took = format_seconds(time.monotonic() - began)
    # Ours alone has just been started, and its page was told then.
    waited = f"; its page: {settings.endpoint_url}/" if settings.endpoint_url else f" after {took}"
    _say(f"endpoint {name} is in service{waited}")


async def _wait_for_events(load: Load, observer: Observer, gone: Callable[[], str | None]) -> None:
    if gone() is None:
        ids = {sample.request_id for sample in load.samples if sample.request_id}
        await observer.heard_of(ids, _EVENTS_S)


@asynccontextmanager
async def _stopping(gone: Callable[[], str | None]) -> AsyncIterator[_Stop]:
    """Ctrl-C, SIGTERM and the endpoint's end stop the traffic; a second Ctrl-C stops at once."""
    stop, loop = _Stop(), asyncio.get_running_loop()

    def interrupt(number: signal.Signals) -> None:
        stop.set(Interrupted.REASON)
        if number == signal.SIGINT:
            loop.remove_signal_handler(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, interrupt, number)
    try:
        async with _beside(_watch(gone, stop)):
            yield stop
    except EndpointTrouble as trouble:
        if stop.reason == Interrupted.REASON:
            raise Interrupted from trouble
        raise
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


async def _watch(gone: Callable[[], str | None], stop: _Stop) -> None:
    while (reason := gone()) is None:  # noqa: ASYNC110 # a process that ends sets no event
        await asyncio.sleep(_LIVES_EVERY_S)
    stop.set(reason)


@asynccontextmanager
async def _beside(work: Coroutine[object, object, None]) -> AsyncIterator[None]:
    """The work goes on for as long as the block lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
