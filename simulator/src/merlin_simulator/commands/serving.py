"""Listening and serving until Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from collections.abc import Awaitable, Callable

import uvicorn
from starlette.types import ASGIApp

from merlin_simulator.errors import PlatformFailed, SimulatorError
from merlin_simulator.incoming import Hosts, SameOriginApp, StrictProtocol

_logger = logging.getLogger(__name__)


class Failures(list[BaseException]):
    """Failures that end the serving: the first one added does."""

    def __init__(self) -> None:
        super().__init__()
        self.end: Callable[[], None] = lambda: None

    def add(self, error: BaseException) -> None:
        """It fails, and ends."""
        self.append(error)
        self.end()


class _Server(uvicorn.Server):
    """Says that it stops before it waits for its open answers."""

    def __init__(
        self, config: uvicorn.Config, ending: asyncio.Event, stop: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(config)
        self._ending, self._stop = ending, stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Event streams end, callers of models that are coming are told, then all else ends."""
        print("ending: requests that are being answered, then the containers", flush=True)
        self._ending.set()
        await self._stop()
        await super().shutdown(sockets)


def serve_app(
    app: ASGIApp,
    listening: socket.socket,
    ending: asyncio.Event,
    stop: Callable[[], Awaitable[None]],
    failures: Failures,
    hosts: Hosts,
) -> None:
    """Until a signal, or until failures has one: then raises it.

    ending is set when the end begins, and stop is awaited before open answers are. hosts: by which
    it may be asked; what a web page of another origin asks does not reach the application.
    """
    config = uvicorn.Config(
        SameOriginApp(app, hosts),
        # asyncio's own loop: it starts processes without running Python in a forked child.
        loop="asyncio",
        http=StrictProtocol,
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        # A caller whose idle connection is closed as it sends gets an error: uvicorn's own 5 s are
        # less than what clients think of. AWS does not say; load balancers there have 60 s.
        timeout_keep_alive=75,
        timeout_graceful_shutdown=5,
    )
    server = _Server(config, ending, stop)

    def leave(*_: object) -> None:
        server.should_exit = True

    failures.end = leave
    # Before uvicorn listens to signals itself, and after: it raises them again once it has stopped
    # for them, and by then it has done its work.
    # SIGHUP comes when the terminal is closed.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    server.run(sockets=[listening])
    if not server.started:
        raise PlatformFailed("it did not start: what was logged above says why")
    if failures:
        raise _translate(failures[0])


def _translate(error: BaseException) -> Exception:
    """An error as commands tell it; the log says where one of the simulator's own is from."""
    if isinstance(error, SimulatorError | OSError):
        return error
    _logger.error("the simulator failed", exc_info=error)
    return PlatformFailed(f"it failed ({type(error).__name__}: {error}), by its own fault")


def listen(host: str, port: int) -> socket.socket:
    """An answer is written as a head and a body, and both leave at once.

    With Nagle's algorithm the body waits until the caller has acknowledged the head, which callers
    put off for 40 ms. asyncio turns it off only for sockets that name their protocol, which those
    of create_server do not. Raises OSError with a sentence.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
        # Accepted connections have it from here.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listening
    except OSError as error:
        # create_server says the address again.
        why = (error.strerror or str(error)).partition(" (while")[0]
        other = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        raise OSError(
            f"port {port} of {host} cannot be listened at ({why}): choose another {other}"
        ) from error
