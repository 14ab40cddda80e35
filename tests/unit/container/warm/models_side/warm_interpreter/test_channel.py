"""What stubs and forked processes send each other."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

#: Not typed: it is the models' Python that runs it.
channel: Any = import_module("container.warm.models_side.warm_interpreter.channel")

Ends = tuple[Any, Any]
LARGE = channel.PACKET_MAX * 3
DTYPES = [np.dtype(name) for name in ("?", "<i1", "<u8", "<f2", "<f4", "<f8", "S5", "<U3")]


def ends_of(pair: tuple[socket.socket, socket.socket]) -> Ends:
    """Both ends, with memory of their own."""
    one, other = os.memfd_create("one"), os.memfd_create("other")
    childs, stubs = os.pipe()
    return (
        channel.Channel(pair[0], one, other, stubs),
        channel.Channel(pair[1], other, one, childs),
    )


@pytest.fixture(scope="module")
def ends() -> Iterator[Ends]:
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with pair[0], pair[1]:
        yield ends_of(pair)


def passed(ends: Ends, words: Any, *sent: Any) -> tuple[Any, list[Any]]:
    """What arrives."""
    ends[0].send(words, sent)
    found: tuple[Any, list[Any]] = ends[1].receive()
    return found


def same(one: Any, other: Any) -> bool:
    """Bit for bit, NaN too."""
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def test_more_small_arrays_than_the_kernel_takes_pieces(ends: Ends) -> None:
    """An export may have hundreds of features."""
    sent = [np.full((1, 1), number, np.float32)[::-1] for number in range(700)]
    _, found = passed(ends, "", *sent)
    assert [array.item() for array in found] == [*range(700)]


@given(
    st.lists(
        arrays.arrays(st.sampled_from(DTYPES), arrays.array_shapes(min_dims=0, min_side=0)),
        max_size=4,
    )
)
def test_arrays_arrive_as_they_are(ends: Ends, sent: list[Any]) -> None:
    """Of any type and shape, empty ones and numbers without a dimension."""
    words, found = passed(ends, ("kind", {"a": [1, None]}), *sent)
    assert words == ("kind", {"a": [1, None]})
    assert len(found) == len(sent)
    assert all(map(same, found, sent))
    assert all(each.flags.writeable for each in found)


@given(st.lists(st.binary(max_size=9), max_size=20))
def test_strings_arrive_as_they_are(ends: Ends, sent: list[bytes]) -> None:
    _, (found,) = passed(ends, "", np.array([*sent, b""], np.object_)[:-1])
    assert found.tolist() == sent


def test_what_is_no_string_becomes_one(ends: Ends) -> None:
    """As Triton has it."""
    _, (found,) = passed(ends, "", np.array([["é", 1], [b"\0", None]], np.object_))
    assert found.tolist() == [["é", "1"], [b"\0", "None"]]


@pytest.mark.parametrize("size", [channel.PACKET_MAX + n for n in (-300, -100, -65, 0, 1)])
def test_around_the_size_of_a_packet(ends: Ends, size: int) -> None:
    sent = np.frombuffer(os.urandom(size), np.uint8)
    _, (found,) = passed(ends, "", sent)
    assert same(found, sent)


@pytest.mark.slow
def test_sizes_in_any_order(ends: Ends) -> None:
    """Memory grows, and is given back; what is not contiguous arrives as it looks."""
    for count in (10, 40 << 20, 3, 1 << 20, 60 << 20, LARGE):
        sent = np.arange(count, dtype=np.uint8)[::-1].reshape(-1, 1).T
        _, (found,) = passed(ends, "", sent)
        assert same(found, np.ascontiguousarray(sent))
        ends[0].trim()


def test_many_strings(ends: Ends) -> None:
    sent = np.array([b"x" * 100] * LARGE, np.object_)
    _, (found,) = passed(ends, "", sent)
    assert found.tolist() == sent.tolist()


def test_the_other_side_is_gone() -> None:
    """Whoever sends, or waits, is told so."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one, _ = ends_of(pair)
    with pair[0]:
        threading.Timer(0.05, pair[1].close).start()
        with pytest.raises(channel.Gone):
            one.receive()
        with pytest.raises(channel.Gone):
            one.send("")


def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        channel.connect(str(tmp_path / "none.sock"), 1.0)


def test_nobody_answers(tmp_path: Path) -> None:
    """A path may be long."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    within = os.open(folder, os.O_PATH)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"/proc/self/fd/{within}/a.sock")
        os.close(within)
        listening.listen()
        end, connection = channel.connect(str(folder / "a.sock"), 0.05)
        with connection, pytest.raises(OSError, match="timed out"):
            end.receive()
