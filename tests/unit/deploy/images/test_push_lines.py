"""What the engine writes while it pushes, and what is shown of it."""

from __future__ import annotations

import io
from typing import Any

import pytest

from deploy.images.push import PushStopped, PushTally
from deploy.terminal import draw_bar, progress_on

DIGEST = f"sha256:{'d' * 64}"


def heard(*lines: dict[str, Any]) -> PushTally:
    """A push that has said so much."""
    tally = PushTally()
    for line in lines:
        tally.hear(line)
    return tally


def layer(name: str, status: str, current: int = 0, total: int = 0) -> dict[str, Any]:
    """A line about a layer."""
    detail = {"current": current, "total": total} if total else {}
    return {"status": status, "progressDetail": detail, "id": name}


MIDDLE = (
    {"status": "The push refers to repository [127.0.0.1:5000/merlin]"},
    *(layer(name, "Preparing") for name in "abcd"),
    layer("d", "Waiting"),
    layer("a", "Layer already exists"),
    layer("b", "Mounted from shop/merlin"),
    layer("c", "Pushing", 500_000_000, 2_000_000_000),
)


def test_layers_and_bytes_are_counted() -> None:
    """Those that were there, or came from another repository, are not sent."""
    tally = heard(*MIDDLE)
    assert (tally.done, tally.were_there) == (2, 2)
    assert tally.in_words() == "2 of 4 layers, 500.0 MB of 2.0 GB"
    assert draw_bar(tally) == "[#############-----------]"


def test_a_layer_that_is_tried_again_is_said() -> None:
    waiting = layer("c", "Retrying in 5 seconds")
    assert heard(*MIDDLE, waiting).in_words().endswith("(Retrying in 5 seconds)")
    assert heard(*MIDDLE, waiting, layer("c", "Pushed")).waiting is None


def test_at_its_end_there_is_a_digest() -> None:
    """The engine may have sent more than it had told of, as with a layer of 512 bytes."""
    end = {"progressDetail": {}, "aux": {"Tag": "1", "Digest": DIGEST, "Size": 740}}
    small = (layer("e", "Pushing", 1024, 512), layer("e", "Pushed"))
    tally = heard(*MIDDLE, layer("c", "Pushed"), layer("d", "Pushed"), *small, end)
    assert tally.digest == DIGEST
    assert tally.in_words() == "5 of 5 layers, 2.0 GB"


def test_an_error_ends_it() -> None:
    """With the engine's words on one line."""
    with pytest.raises(PushStopped, match=r"^no basic auth credentials$"):
        heard({"errorDetail": {}, "error": "no basic\nauth credentials."})


class Terminal(io.StringIO):
    """One that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_elsewhere_than_on_a_terminal_there_is_now_and_then_a_line() -> None:
    """No more than one in five seconds, whatever happens."""
    now, written = [0.0], io.StringIO()
    with progress_on(written, lambda: now[0]) as tell:
        for second in range(12):
            now[0] = float(second)
            tell(heard(*MIDDLE))
    assert written.getvalue() == "2 of 4 layers, 500.0 MB of 2.0 GB\n" * 2


def test_a_bar_leaves_nothing_on_the_terminal() -> None:
    written = Terminal()
    with progress_on(written, lambda: 0.0) as tell:
        tell(heard(*MIDDLE))
    assert "[#############-----------] 2 of 4 layers" in written.getvalue()
    assert written.getvalue().endswith("\r\x1b[K")
