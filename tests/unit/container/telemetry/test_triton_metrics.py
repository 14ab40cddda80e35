"""tritonserver's page over loopback: all of it in time, or none."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from container.telemetry.triton_metrics import fetch_page

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"


@pytest.fixture
def answering() -> Iterator[Callable[..., int]]:
    """Listens on a port that is returned; sends these pieces to who asks, one after another."""
    sockets: list[socket.socket] = []

    def listen(*pieces: bytes, pause_s: float = 0.0) -> int:
        listener = socket.create_server(("127.0.0.1", 0))
        sockets.append(listener)

        def answer() -> None:
            wire, _ = listener.accept()
            with wire:
                wire.recv(10_000)
                for piece in pieces:
                    try:
                        wire.sendall(piece)
                    except OSError:
                        return
                    time.sleep(pause_s)

        threading.Thread(target=answer, daemon=True).start()
        return int(listener.getsockname()[1])

    yield listen
    for listener in sockets:
        listener.close()


def test_a_whole_page(answering: Callable[..., int]) -> None:
    assert fetch_page(answering(HEAD % 8, b"nv_x", b" 12\n"), 60.0) == "nv_x 12\n"


@pytest.mark.parametrize(
    "pieces",
    [
        (HEAD % 1000, b"nv_x 12"),
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", b"nv_x 12"),
        (b"HTTP/1.1 503 Unavailable\r\ncontent-length: 2\r\n\r\nx\n",),
        (b"no HTTP at all\r\n",),
        (b"",),
    ],
    ids=["too short", "no end of a line", "another status", "no HTTP", "nothing"],
)
def test_what_is_no_page(answering: Callable[..., int], pieces: tuple[bytes, ...]) -> None:
    """Half of a number is a wrong one."""
    assert fetch_page(answering(*pieces)) == ""


def test_a_page_that_trickles_is_not_waited_for(answering: Callable[..., int]) -> None:
    """The limit is for all of it: who goes on reading has a whole page at last."""
    port = answering(HEAD % 61, *(b"x" for _ in range(60)), b"\n", pause_s=0.05)
    assert fetch_page(port, 0.3) == ""


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    assert fetch_page(port) == ""
    assert fetch_page(None) == ""
