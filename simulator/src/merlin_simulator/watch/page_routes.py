"""The endpoint's page, its data, and the metrics of it."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from merlin_simulator.rules import Rules
from merlin_simulator.watch.events import Event, EventLog
from merlin_simulator.watch.features import read_features
from merlin_simulator.watch.state import EndpointView, InstanceState, Viewed

#: Where the page's files lie.
PAGE = Path(__file__).parent / "page"

#: The files that may be asked for, so that no path is ever put together from a request.
MEDIA_TYPES: Mapping[str, str] = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}

#: Everything from here, nothing inline, nobody's frame.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

#: no-cache asks back each time, and gets the file that belongs to this version.
PAGE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}

#: no-transform and X-Accel-Buffering keep proxies from holding events back.
LIVE_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
}


def answer_json(content: Any, status: int = 200) -> Response:
    """As ASCII: output of processes that is no UTF-8 comes as surrogates, which have no UTF-8."""
    body = json.dumps(content)
    return Response(body, status, headers=LIVE_HEADERS, media_type="application/json")


def answer_page(name: str) -> Response:
    """One of the pages, by its file's name."""
    return FileResponse(PAGE / name, media_type="text/html", headers=PAGE_HEADERS)


def make_static_routes() -> list[Route]:
    """Scripts and styles of the pages, below /simulator/static/."""
    files = sorted(path for path in PAGE.iterdir() if path.suffix in MEDIA_TYPES)
    return [Route(f"/simulator/static/{path.name}", _file(path)) for path in files]


def _file(path: Path) -> Callable[[Request], Awaitable[Response]]:
    async def file(_: Request) -> Response:
        media_type = MEDIA_TYPES[path.suffix]
        return FileResponse(path, media_type=media_type, headers=PAGE_HEADERS)

    return file


#: What a comment is sent after when nothing happens: proxies cut connections at 60 s and more.
HEARTBEAT_S = 15.0

#: Events that are written at once, so that a long backlog is some hundred kB at a time in memory.
BATCH = 500

#: What EventSource waits before it tries again, milliseconds.
RETRY_MS = 1000

#: Instances whose containers are asked for what they count.
_ANSWERING = (InstanceState.IN_SERVICE, InstanceState.UNHEALTHY)

#: Where the page of one of many endpoints is, and below it its data.
ONE_OF_MANY = "/simulator/endpoints/{name}"


@dataclass(frozen=True)
class Watched:
    """An endpoint that a page shows."""

    endpoint: Viewed
    log: EventLog
    #: Drawn into the memory bars; None draws none.
    memory_threshold: float | None = Rules.memory_threshold
    more: Callable[[], Mapping[str, Any]] = dict  # what else its state says
    #: Tells its events from those of another one that had its name.
    run: str = field(default_factory=lambda: secrets.token_hex(4))
    #: Finishes event streams, which have no end of their own.
    ended: asyncio.Event = field(default_factory=asyncio.Event)


def make_page_routes(
    endpoint: Viewed,
    log: EventLog,
    ending: asyncio.Event | None = None,
    memory_threshold: float | None = Rules.memory_threshold,
    heartbeat_s: float = HEARTBEAT_S,
) -> list[Route]:
    """Every route that the page of the only endpoint needs, all of them GET.

    Event streams have no end of their own, and a server that stops waits for its answers: whoever
    runs the server sets ending when it begins to stop, and the streams finish at once. A reader
    that takes nothing off its connection is left to the server's own time-out.
    """
    watched = Watched(endpoint, log, memory_threshold, ended=ending or asyncio.Event())
    return [
        Route("/", _index),
        *make_static_routes(),
        *_data_routes("/simulator", lambda _: watched, heartbeat_s),
    ]


def make_endpoint_routes(
    find: Callable[[str], Watched | None], heartbeat_s: float = HEARTBEAT_S
) -> list[Route]:
    """The pages of endpoints that come and go, without the static files; all of them GET.

    find: an endpoint by its name, None where there is none: asked at each request.
    """

    def named(request: Request) -> Watched | None:
        return find(request.path_params["name"])

    async def page(request: Request) -> Response:
        return await _index(request) if named(request) is not None else _missing(request)

    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{request.url.path}/")

    return [
        Route(ONE_OF_MANY, redirect),
        Route(f"{ONE_OF_MANY}/", page),
        *_data_routes(ONE_OF_MANY, named, heartbeat_s),
    ]


def _data_routes(
    below: str, find: Callable[[Request], Watched | None], heartbeat_s: float
) -> list[Route]:
    async def state(_: Request, watched: Watched) -> Response:
        more = {"run": watched.run, "at": time.time(), "memory_threshold": watched.memory_threshold}
        return answer_json({**to_json(watched.endpoint.view()), **more, **watched.more()})

    async def events(request: Request, watched: Watched) -> Response:
        position = _position(request, watched.run, watched.log.last)
        frames = _frames(watched.log, position, watched.run, watched.ended, heartbeat_s)
        return StreamingResponse(frames, media_type="text/event-stream", headers=LIVE_HEADERS)

    async def health(_: Request, watched: Watched) -> Response:
        answer = _health(watched.endpoint.view())
        served = answer["status"] == InstanceState.IN_SERVICE.value
        return answer_json(answer, 200 if served else 503)

    async def targets(_: Request, watched: Watched) -> Response:
        return answer_json(make_targets(watched.endpoint.view()))

    async def features(_: Request, watched: Watched) -> Response:
        serving = (it for it in watched.endpoint.view().instances if it.state in _ANSWERING)
        return answer_json(await read_features([instance.url for instance in serving]))

    def route(name: str, answer: Callable[[Request, Watched], Awaitable[Response]]) -> Route:
        async def found(request: Request) -> Response:
            watched = find(request)
            return _missing(request) if watched is None else await answer(request, watched)

        return Route(f"{below}/{name}", found)

    return [
        route("state", state),
        route("events", events),
        route("health", health),
        route("targets", targets),
        route("features", features),
    ]


def _missing(request: Request) -> Response:
    name = request.path_params["name"]
    message = (
        f"There is no endpoint {name}: it was deleted, or never created. / shows those there are."
    )
    return PlainTextResponse(message, 404, headers=LIVE_HEADERS)


def to_json(view: EndpointView) -> dict[str, Any]:
    """The view as JSON knows it: the dataclasses' field names, enums by value."""
    return asdict(view, dict_factory=_plain)


def _plain(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: value.value if isinstance(value, Enum) else value for key, value in pairs}


async def _index(_: Request) -> Response:
    return answer_page("index.html")


def make_targets(view: EndpointView) -> list[dict[str, Any]]:
    """Targets for Prometheus' http_sd_configs: each container's address and labels."""
    return [
        {
            "targets": [urlsplit(instance.url).netloc],
            "labels": {
                "instance": instance.name,
                "endpoint_name": view.endpoint_name,
                "variant_name": instance.variant,
            },
        }
        for instance in view.instances
    ]


def _health(view: EndpointView) -> dict[str, Any]:
    """in service as soon as one instance is; what each of them does, and why."""
    instances = {
        instance.name: {"state": instance.state.value, "message": instance.message}
        for instance in view.instances
    }
    served = any(instance.state is InstanceState.IN_SERVICE for instance in view.instances)
    return {
        "status": InstanceState.IN_SERVICE.value if served else "not in service",
        "endpoint_name": view.endpoint_name,
        "instances": instances,
    }


def _position(request: Request, run: str, last: int) -> int:
    """The sequence number after which a reader goes on.

    An id is SEQUENCE-RUN: numbers begin at 1 again when the simulator does, and a page that was
    open meanwhile must not take the new run's first events for those it has. A bare number is
    taken as it stands.
    """
    number, _, of_run = request.headers.get("last-event-id", "").partition("-")
    if not (number.isascii() and number.isdigit() and len(number) < 20):
        return 0
    known = int(number) <= last and of_run in ("", run)
    return int(number) if known else 0


async def _frames(
    log: EventLog, position: int, run: str, ended: asyncio.Event, heartbeat_s: float
) -> AsyncIterator[str]:
    """Events as server-sent events, a comment when it is quiet, until ended is set.

    Nothing is queued for a reader: one that is slow is told later out of what the log keeps.
    """
    news = asyncio.Event()
    stop = log.listen(lambda _: news.set())
    try:
        yield f"retry: {RETRY_MS}\n\n"
        while not ended.is_set():
            news.clear()
            while events := log.since(position)[:BATCH]:
                position = events[-1].sequence
                yield "".join(_frame(event, run) for event in events)
            if not await _either(news, ended, seconds=heartbeat_s):
                yield ": nothing new\n\n"
    finally:
        stop()


def _frame(event: Event, run: str) -> str:
    data = json.dumps(event.as_json(), separators=(",", ":"))
    return f"id: {event.sequence}-{run}\ndata: {data}\n\n"


async def _either(*signals: asyncio.Event, seconds: float) -> bool:
    """Whether one of the signals is set within that time."""
    waiting = [asyncio.ensure_future(signal.wait()) for signal in signals]
    try:
        done, _ = await asyncio.wait(waiting, timeout=seconds, return_when="FIRST_COMPLETED")
        return bool(done)
    finally:
        for future in waiting:
            future.cancel()
