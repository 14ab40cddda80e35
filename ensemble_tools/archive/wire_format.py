"""Protobuf's wire format, read field by field from a file; what is passed over is never read.

An ONNX file or a SavedModel may have gigabytes of weights, and what it says of its tensors is some
hundred bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

#: Fields that are looked at in one file; a large graph has some 10,000 nodes.
_MAX_FIELDS = 100_000
#: Bytes of a varint.
_LONGEST = 10
#: Of a name.
_MAX_TEXT = 64 * 1024
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}
_SIGN = 1 << 63


class NotReadable(Exception):
    """The file is no such message, or larger than what is looked at."""


@dataclass(frozen=True)
class Span:
    """The part of the file with a field of bytes: a text or a message of its own."""

    start: int
    stop: int


class Message:
    """A message in a file. The file's position is shared: a span may be read at any time."""

    def __init__(self, file: BinaryIO, span: Span, budget: list[int] | None = None) -> None:
        self._file, self._span = file, span
        self._budget = [_MAX_FIELDS] if budget is None else budget

    def fields(self) -> Iterator[tuple[int, int | Span]]:
        """Each field's number, and its integer or its span; raises NotReadable, OSError."""
        offset = self._span.start
        while offset < self._span.stop:
            self._budget[0] -= 1
            self._file.seek(offset)
            tag, offset = self._read_varint(offset)
            number, wire = tag >> 3, tag & 7
            value: int | Span = 0
            if wire == _VARINT:
                value, offset = self._read_varint(offset)
            elif wire == _BYTES:
                length, offset = self._read_varint(offset)
                value = Span(offset, offset + length)
                offset += length
            elif wire in _FIXED:
                offset += _FIXED[wire]
            else:
                raise NotReadable
            if offset > self._span.stop or number == 0 or self._budget[0] < 0:
                raise NotReadable
            yield number, value

    def messages(self, number: int) -> Iterator[Message]:
        """The messages in the field of this number, in their order."""
        for field_number, value in self.fields():
            if field_number == number and isinstance(value, Span):
                yield self.at(value)

    def first(self, number: int) -> Message | None:
        """The message in the first field of this number."""
        return next(self.messages(number), None)

    def at(self, span: Span) -> Message:
        """The message that a span holds."""
        return Message(self._file, span, self._budget)

    def integer(self, number: int) -> int | None:
        """The last field of this number, signed, as protobuf takes it; None where there is none."""
        numbers = [value for field_number, value in self.fields() if field_number == number]
        value = numbers[-1] if numbers else None
        if not isinstance(value, int):
            return None
        return value - 2 * _SIGN if value & _SIGN else value

    def text(self, number: int) -> str:
        """The last text in a field of this number; empty where there is none."""
        return next(reversed(self.texts(number)), "")

    def texts(self, number: int) -> list[str]:
        """The texts in the fields of this number, in their order."""
        spans = [
            value
            for field_number, value in self.fields()
            if field_number == number and isinstance(value, Span)
        ]
        return [self._read_text(span) for span in spans]

    def _read_text(self, span: Span) -> str:
        if span.stop - span.start > _MAX_TEXT:
            raise NotReadable
        self._file.seek(span.start)
        try:
            return self._file.read(span.stop - span.start).decode()
        except UnicodeDecodeError as error:
            raise NotReadable from error

    def _read_varint(self, offset: int) -> tuple[int, int]:
        value = 0
        for shift in range(0, 7 * _LONGEST, 7):
            byte = self._file.read(1)
            if not byte:
                raise NotReadable
            value |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return value & (2 * _SIGN - 1), offset + shift // 7 + 1
        raise NotReadable


def open_message(file: BinaryIO) -> Message:
    """The message that a file is."""
    return Message(file, Span(0, file.seek(0, 2)))
