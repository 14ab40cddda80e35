"""Why tritonserver could not read a config, from what it prints."""

from __future__ import annotations

import pytest

from container.tritonserver.unread_configs import UnreadConfigs

HEAD = b"E1125 21:11:38.999919 29138 model_repository_manager.cc:1460] "
PARSER = b"[libprotobuf ERROR /tmp/x/text_format.cc:337] Error parsing text-format "
FIELD = (
    b'inference.ModelConfig: 2:14: Message type "inference.ModelConfig" has no field named "x".\n'
)
UNREAD = b"failed to read text proto from /tmp/w/serving/m/config.pbtxt"


def polled(name: bytes, why: bytes) -> bytes:
    return (
        HEAD + b"\"Poll failed for model directory '/tmp/w/serving::" + name + b"': " + why + b'"\n'
    )


@pytest.mark.parametrize(
    "line",
    [
        polled(b"m", b"unexpected platform 'python' for m"),
        HEAD + b"Poll failed for model directory 'm': unexpected platform 'python' for m\n",
    ],
)
def test_a_reason_is_told_once(line: bytes) -> None:
    """By new and by old versions, with a namespace and without."""
    configs = UnreadConfigs()
    configs.keep(b"something else\n" + line + b"and on\n")
    assert configs.take("m") == "unexpected platform 'python' for m"
    assert configs.take("m") == ""


def test_the_parsers_words_stand_above() -> None:
    """And are those of the next config that could not be read, and of no other."""
    configs = UnreadConfigs()
    configs.keep(PARSER + FIELD)
    configs.keep(polled(b"m", UNREAD) + polled(b"n", UNREAD))
    assert configs.take("m").startswith("2:14: Message type ")
    assert configs.take("n") == UNREAD.decode()


def test_it_is_bounded() -> None:
    """Models may print such lines without end."""
    configs = UnreadConfigs()
    for number in range(1000):
        configs.keep(polled(b"%d" % number, b"w" * 10_000))
    assert configs.take("0") == ""
    assert len(configs.take("999")) == 1000
