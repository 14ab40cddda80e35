"""Whether the translating container answers a request as tritonserver does.

Equal are: the status, the members of the JSON part and their order, every output's name, data type,
shape and parameters, its values bit for bit, and whether it is binary; and the Content-Type fits.
A refusal is compared with the one of the container that translates nothing.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from serve.invoke.headers import BINARY_MEDIA_TYPE
from tests.json_requests.generate import Case
from tests.json_requests.served import RawAnswer, Ways

_FLOATS: dict[str, np.dtype[Any]] = {"FP32": np.dtype("<f4"), "FP64": np.dtype("<f8")}
#: By how much tritonserver may miss an FP64 text of 16 and more digits, in units of the last place.
_ULPS = 2
_SIZE_PARAMETER = f"{BINARY_MEDIA_TYPE.decode()};json-header-size="


@dataclass(frozen=True)
class Outcome:
    """The status of the translating container's answer; how it differs, if it does."""

    status: int
    difference: str | None = None


def compare(case: Case, ways: Ways) -> Outcome:
    """Ask all who are needed to judge the case."""
    to_triton, to_container = dict(case.headers), dict(case.headers)
    if case.head_size is not None:
        to_triton["Inference-Header-Content-Length"] = str(case.head_size)
        to_container["Content-Type"] = f"{_SIZE_PARAMETER}{case.head_size}"
    ours = ways.translating.ask(case.model, case.body, to_container)
    direct = ways.triton.ask(case.model, case.body, to_triton)
    if ours.status == direct.status == 200:
        return Outcome(200, difference(direct, ours, exact=not case.long_doubles))
    untouched = ways.untouched.ask(case.model, case.body, to_container)
    if ours.status != untouched.status:
        found = f"untouched {_said(untouched)}, translated {_said(ours)}"
    elif ours.status == 200:
        found = f"tritonserver {_said(direct)}, the containers {_said(ours)}"
    elif 0 in (ours.status, direct.status):
        found = f"no answer: tritonserver {_said(direct)}, the containers {_said(ours)}"
    else:
        return Outcome(ours.status)
    return Outcome(ours.status, found)


def difference(direct: RawAnswer, ours: RawAnswer, *, exact: bool = True) -> str | None:
    """How our answer differs from tritonserver's own, both of them 200; None if it does not.

    exact: whether FP64 values must be the same bit for bit.
    """
    expected = _read(direct, direct.headers.get("inference-header-content-length"))
    content_type = ours.headers.get("content-type", "none")
    size = None
    if content_type.startswith(_SIZE_PARAMETER):
        size = content_type.removeprefix(_SIZE_PARAMETER)
    elif content_type != "application/json":
        return f"Content-Type {content_type}"
    if (size is None) != (expected.size is None):
        return (
            f"Content-Type {content_type}, but tritonserver's answer is {expected.size or 'JSON'}"
        )
    try:
        found = _read(ours, size)
    except (ValueError, KeyError) as error:
        return f"our answer cannot be read: {error!r}"
    if expected.head != found.head:
        return f"JSON part {expected.head}, ours {found.head}"
    for one, other in zip(expected.outputs, found.outputs, strict=False):
        if one.described != other.described:
            return f"output {one.described}, ours {other.described}"
        if not _same(one, other, exact=exact):
            return f"values of {one.described}: {_first_unlike(one.values, other.values)}"
    if len(expected.outputs) != len(found.outputs):
        return f"{len(expected.outputs)} outputs, ours {len(found.outputs)}"
    return None


@dataclass(frozen=True)
class _Output:
    described: list[tuple[str, Any]]
    datatype: str
    values: list[Any] | bytes


@dataclass(frozen=True)
class _Answer:
    size: str | None
    head: list[tuple[str, Any]]
    outputs: list[_Output]


def _read(answer: RawAnswer, size: str | None) -> _Answer:
    body = answer.body
    encoding = answer.headers.get("content-encoding", "identity")
    if encoding != "identity":
        body = zlib.decompress(body, wbits=zlib.MAX_WBITS | 32)
    text, tensors = (body, b"") if size is None else (body[: int(size)], body[int(size) :])
    head = json.loads(text.decode("utf-8", "surrogateescape"), object_pairs_hook=_unique)
    outputs = []
    for output in head.pop("outputs"):
        datatype = output["datatype"]
        if "data" in output:
            values: list[Any] | bytes = _typed(output.pop("data"), datatype)
            form = "JSON"
        else:
            length = output.get("parameters", {}).get("binary_data_size", 0)
            values, tensors = tensors[:length], tensors[length:]
            form = "binary"
        outputs.append(_Output([*output.items(), ("form", form)], datatype, values))
    if tensors:
        raise ValueError(f"{len(tensors)} bytes behind the last tensor")
    return _Answer(size and "binary", [*head.items(), ("encoding", encoding)], outputs)


def _unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(members)
    if len(unique) != len(members):
        raise ValueError(f"a member twice: {[name for name, _ in members]}")
    return unique


def _typed(data: list[Any], datatype: str) -> list[Any]:
    expected = {"BOOL": bool, "BYTES": str}.get(datatype, float if datatype in _FLOATS else int)
    kinds = {*map(type, data)}
    if not kinds <= ({float, int} if expected is float else {expected}):
        raise ValueError(f"{datatype} written as {kinds}")
    return data


def _same(one: _Output, other: _Output, *, exact: bool) -> bool:
    if one.values == other.values and one.datatype not in _FLOATS:
        return True
    if one.datatype not in _FLOATS:
        return False
    expected, found = _bits(one), _bits(other)
    if expected.shape != found.shape:
        return False
    if exact or one.datatype == "FP32":
        return bool((expected == found).all())
    ulps = np.abs(expected - found)
    return bool((ulps <= _ULPS).all())


def _bits(output: _Output) -> np.ndarray[Any, Any]:
    """Floats as integers; every NaN that was written as a word is one NaN.

    FP32 stands in JSON as the double that it is, and is compared as that.
    """
    bits: np.ndarray[Any, Any]
    if isinstance(output.values, bytes):
        bits = np.frombuffer(output.values, f"<i{_FLOATS[output.datatype].itemsize}")
    else:
        bits = np.array(output.values, "<f8").view("<i8")
    return bits


def _first_unlike(one: list[Any] | bytes, other: list[Any] | bytes) -> str:
    if len(one) != len(other):
        return f"{len(one)} of them, ours {len(other)}"
    pairs = enumerate(zip(one, other, strict=True))
    unlike = [(place, a, b) for place, (a, b) in pairs if repr(a) != repr(b)]
    return f"{len(unlike)} differ, of {len(one)}: {unlike[:3]}"


def _said(answer: RawAnswer) -> str:
    return f"{answer.status} {answer.body[:200]!r}"
