"""moto's applications behind a server of threads on this machine.

moto keeps what it has once per process, so one server of a service at a time.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from merlin_simulator.errors import PlatformFailed
from merlin_simulator.same_origin import Hosts, make_same_origin

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication
    from werkzeug.serving import BaseWSGIServer

_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_BACKLOG = 128
#: How often the server looks whether it shall stop, seconds.
_POLL_S = 0.05


@contextmanager
def run_moto(
    app: WSGIApplication, host: str = "127.0.0.1", port: int = 0, public_url: str | None = None
) -> Iterator[str]:
    """The application's url while it is served; port 0 takes a free one.

    Pages of other origins are not served, though they may find the port. Raises PlatformFailed when
    the address cannot be had.
    """
    with _listening(host, port) as listening:
        server = _server(make_same_origin(app, Hosts(host, public_url)), listening)
    # A daemon: a signal before the next line must not leave a thread that never ends.
    thread = threading.Thread(target=server.serve_forever, args=(_POLL_S,), daemon=True)
    thread.start()
    try:
        yield _url(host, server.port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def create_app(service: str) -> Any:
    """A service of moto, for Flask; without moto's leave for pages of every origin (CORS)."""
    from moto.moto_server import werkzeug_app

    werkzeug_app.DISABLE_GLOBAL_CORS = True
    return werkzeug_app.create_backend_app(service)


def forget(service: str) -> None:
    """All that moto has of a service."""
    from moto.backends import get_backend

    # To reset one may make another: of its region, or for a request that is still answered.
    for account in tuple(get_backend(service).values()):
        for backend in tuple(account.values()):
            backend.reset()


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except (OSError, OverflowError) as error:
        raise PlatformFailed(
            f"The local S3 cannot listen on {host}:{port} ({error}): name another port or host."
        ) from error
    with contextlib.closing(listening):
        yield listening


def _server(app: WSGIApplication, listening: socket.socket) -> BaseWSGIServer:
    """A server on its own copy of the socket; werkzeug would end the process on a taken port."""
    from moto.moto_server.werkzeug_app import MotoRequestHandler
    from werkzeug.serving import make_server

    # No line per request on stderr.
    quiet = type("Quiet", (MotoRequestHandler,), {"log_request": lambda *_: None})
    host, port = listening.getsockname()[:2]
    return make_server(host, port, app, True, request_handler=quiet, fd=listening.fileno())


def _url(host: str, port: int) -> str:
    reached = _ANY_ADDRESS.get(host, host)
    return f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
