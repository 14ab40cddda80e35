"""An inference request in JSON whose FP64 go as binary tensors; the rest goes as it came. No I/O.

tritonserver's JSON parser does not round correctly: of FP64 with 17 digits it changes the last bit
of every tenth. A category, a bucket or a bound then is another one. So every FP64 is read here,
whatever the size of its request.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from serve.invoke.json.binary_request import dump_envelope, move_data
from serve.invoke.json.tensor_json import NotTaken, Steps

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class GivenInput(NamedTuple):
    """One input of a request that has been checked (request_checks)."""

    datatype: str
    elements: int  # how many its shape has
    span: tuple[int, int] | None  # of its data, a list, in the text; None where they are binary
    binary_size: int  # bytes of its data behind the text

    @property
    def is_moved(self) -> bool:
        """Whether it is FP64 in JSON."""
        return self.datatype == "FP64" and self.span is not None and self.elements > 0


def read_exact_doubles(
    text: bytes, inputs: Sequence[GivenInput], tensors: Sequence[bytes]
) -> Steps[list[bytes]]:
    """The request's JSON without FP64, and all of its binary tensors.

    tensors: those behind the text, in pieces. Raises NotTaken for what is no list of numbers, or
    not as many as the shape has: tritonserver says what is wrong with it.
    """
    envelope = _read_envelope(text, inputs)
    behind = deque(memoryview(piece) for piece in tensors)
    body: list[Any] = [b""]
    for each, tensor in zip(envelope["inputs"], inputs, strict=True):
        if tensor.span is None:
            body += _take(behind, tensor.binary_size)
        elif not tensor.is_moved:
            each["data"] = orjson.Fragment(text[slice(*tensor.span)])
        else:
            body += yield from move_data(each, tensor.elements, text, *tensor.span)
    body[0] = dump_envelope(envelope)
    return body


def _read_envelope(text: bytes, inputs: Sequence[GivenInput]) -> dict[str, Any]:
    """The request without its data. Its numbers stay the text that they are."""
    pieces, position = [], len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
    for tensor in inputs:
        if tensor.span is not None:
            pieces.append(text[position : tensor.span[0]])
            position = tensor.span[1]
    pieces.append(text[position:])
    try:
        envelope: dict[str, Any] = json.loads(
            b"0".join(pieces),
            parse_int=orjson.Fragment,
            parse_float=orjson.Fragment,
            parse_constant=orjson.Fragment,
        )
    except ValueError as error:  # `Inf` in a parameter
        raise NotTaken from error
    return envelope


def _take(behind: deque[memoryview], size: int) -> Iterator[memoryview]:
    """So many bytes from the front."""
    while size:
        piece = behind.popleft()
        if len(piece) > size:
            behind.appendleft(piece[size:])
            piece = piece[:size]
        size -= len(piece)
        yield piece
