"""AWS's services as moto plays them, for the tests of what asks them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def moto_server() -> Iterator[str]:
    """Its address, until the end of the block."""
    from moto.server import ThreadedMotoServer  # only here: importing it takes a second

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
