"""Plain strings all at once are what they are one by one; whatever cannot be proved is left."""

from __future__ import annotations

import json
import random
import struct

import pytest

from serve.invoke.json.strings import read_plain, write_plain


def data_of(strings: list[str]) -> bytes:
    """BYTES data, string by string."""
    encoded = [string.encode() for string in strings]
    return b"".join(struct.pack("<I", len(each)) + each for each in encoded)


LISTS = [
    ["a"],
    ["", "", ""],
    ["", "a", "", "bc"],
    ["user_1", "käse", "日本", "😀", "x" * 255, "y" * 256, "z" * 70_000],
    ["]", "[", ",", "{}", " a ", "true", ", "],
    [str(number) for number in range(1000)],
]


@pytest.mark.parametrize("strings", LISTS)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("around", [b"", b" \n\t"])
def test_read(strings: list[str], separators: tuple[str, str], around: bytes) -> None:
    """Compact or with a space behind each comma, and space around the list."""
    text = json.dumps(strings, ensure_ascii=False, separators=separators).encode()
    found = read_plain(around + text + around)
    assert found == (None if b"\n" in around else (data_of(strings), len(strings)))
    assert read_plain(b" " + text + b" ") == (data_of(strings), len(strings))


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b'["a"',
        b'"a"]',
        b'[["a"]]',
        b'["a",["b"]]',
        b'["a" "b"]',
        b'["a",,"b"]',
        b'["a",]',
        b'[,"a"]',
        b'["a";"b"]',
        b'["a", "b","c"]',
        b'["a"  ,"b"]',
        b'["a\\n"]',
        b'["a\n"]',
        b'["a\0"]',
        b'["a",1]',
        b'[1,"a"]',
        b'["a",1,"b"]',
        b'["a"]]',
        b'["\xff"]',
        b'["\xed\xa0\x80"]',
        b'["a"]"',
        b'{"a","b"}',
        b'["a":"b"]',
        b'x["a"]',
        b'["a"]x',
        b'["a",\t"b"]',
        b'["a",xx"b"]',
    ],
)
def test_not_read(text: bytes) -> None:
    """No list of plain strings, or one that is written in another way."""
    assert read_plain(text) is None


@pytest.mark.parametrize("strings", LISTS)
def test_written(strings: list[str]) -> None:
    """What is written reads back, and what cannot be proved is not written."""
    data = data_of(strings)
    found = write_plain(data, last=True)
    if found is None:
        assert max(map(len, strings)) > 255 or "" in strings
        return
    text, used, count = found
    assert (json.loads(b"[" + text + b"]"), used, count) == (strings, len(data), len(strings))


def test_written_from_windows() -> None:
    """Wherever a window ends, the strings in front of its end are those that stand there."""
    strings = ["a", "bcd", "0123456789", "é", "xy"]
    data = data_of(strings)
    for end in range(len(data)):
        found = write_plain(data[:end], last=False)
        if found is not None:
            text, used, count = found
            assert 0 < count < len(strings)
            assert json.loads(b"[" + text + b"]") == strings[:count]
            assert used == len(data_of(strings[:count]))
    assert found is not None
    assert found[2] == len(strings) - 1


@pytest.mark.parametrize("string", ['a"b', "a\\b", "a\nb", "\0", "\0\0\0\0", "a\x1f"])
def test_not_written(string: str) -> None:
    """What JSON escapes is left to those who do."""
    assert write_plain(data_of(["plain", string, "plain"]), last=True) is None


def test_noise() -> None:
    """Bytes that are no strings, or other strings than they seem, are never taken for some."""
    chance = random.Random(1)
    taken = 0
    for _ in range(20_000):
        count = chance.randrange(1, 5)
        data = bytearray(
            data_of(["ab"[: chance.randrange(3)] * chance.randrange(3) for _ in range(count)])
        )
        for _ in range(chance.randrange(3)):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 2, 97])
        found = write_plain(bytes(data), last=True)
        if found is None:
            continue
        taken += 1
        text, used, strings = found
        assert used == len(data)
        assert data_of(json.loads(b"[" + text + b"]")) == bytes(data)
        assert strings == len(json.loads(b"[" + text + b"]"))
    assert taken > 1000
