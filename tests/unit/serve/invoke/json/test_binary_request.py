"""Requests in JSON as requests with binary tensors: what is taken, and what is left as it came."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serve.invoke.json.binary_request import BinaryRequest, make_binary_request
from serve.invoke.json.tensor_json import NotTaken
from tests.support.examples import examples

#: A list of so many integers is long enough to be taken out.
_COUNT = 1500
_NUMBERS = [*range(_COUNT)]
#: The longest that one step may take on a machine with others on it. Most take a tenth of a
#: millisecond; it is seconds where the time grows with the square of the body.
_STEP_S = 0.25


def taken(text: bytes | Mapping[str, Any], answer_is_large: bool = False) -> BinaryRequest | None:
    """The request with binary tensors; None where it is not taken."""
    body = text if isinstance(text, bytes) else json.dumps(text).encode()
    steps = make_binary_request(body, answer_is_large)
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: BinaryRequest = end.value
        return found
    except NotTaken:
        return None


def tensor(name: str = "IN", data: Any = None, **others: Any) -> dict[str, Any]:
    """An input of integers."""
    data = _NUMBERS if data is None else data
    return {"name": name, "datatype": "INT32", "shape": [len(data)], "data": data, **others}


def request(*inputs: dict[str, Any], **others: Any) -> dict[str, Any]:
    """A request with these inputs; with one of its own where there is none."""
    return {"inputs": list(inputs or [tensor()]), **others}


def many_short(**others: Any) -> dict[str, Any]:
    """A request of over 8 KB with 60 features of a few rows."""
    return request(*(tensor(f"IN_{n}", [*range(30)]) for n in range(60)), **others)


def test_many_short_lists_are_left_to_tritonserver() -> None:
    """It reads them faster."""
    assert taken(many_short()) is None


def test_many_short_lists_with_a_large_answer() -> None:
    """They stay as they are; only the answer is asked for in binary."""
    text = json.dumps(many_short(id="7")).encode()
    found = taken(text, answer_is_large=True)
    assert found is not None
    assert not found.tensors
    assert found.in_json is None
    assert found.head == b'{"parameters":{"binary_data_output":true},' + text[1:]


@pytest.mark.parametrize(
    "others",
    [
        {"parameters": {}},
        {"outputs": [{"name": "OUT"}]},
        {"id": "\n"},
        {"id": '"parameters"'},
    ],
)
def test_many_short_lists_that_say_more(others: dict[str, Any]) -> None:
    """A parameter in front is the same request only where there are no others."""
    assert taken(many_short(**others), answer_is_large=True) is None


@pytest.mark.parametrize("start", [b"[", b"{}{", b'"{', b"{,", b"\xef\xbb\xbf{"])
def test_many_short_lists_in_what_is_no_object(start: bytes) -> None:
    """It goes on as it came."""
    text = start + json.dumps(many_short()).encode()[1:]
    assert taken(text, answer_is_large=True) is None


def test_a_plain_request() -> None:
    """The data go behind the JSON, and every output is asked for as a binary tensor."""
    found = taken(request(id="7"))
    assert found is not None
    raw = np.array(_NUMBERS, "<i4").tobytes()
    described = {"name": "IN", "datatype": "INT32", "shape": [_COUNT]}
    assert json.loads(found.head) == {
        "inputs": [{**described, "parameters": {"binary_data_size": len(raw)}}],
        "id": "7",
        "parameters": {"binary_data_output": True},
    }
    assert b"".join(found.tensors) == raw
    assert found.in_json is None


def test_several_inputs() -> None:
    """The tensors come in the order of the inputs; short lists stay where they are."""
    words = ["a]", 'b"],"', "é", '"data":['] * 300
    inputs = [
        tensor("a", _NUMBERS, parameters={"x": 1}),
        tensor("b", [1, 2]),
        tensor("c", words, datatype="BYTES"),
        tensor("d", [0.5] * _COUNT, datatype="FP64"),
    ]
    found = taken(request(*inputs))
    assert found is not None
    head = json.loads(found.head)["inputs"]
    sizes = [each.get("parameters", {}).get("binary_data_size") for each in head]
    strings = b"".join(len(w.encode()).to_bytes(4, "little") + w.encode() for w in words)
    assert sizes == [4 * _COUNT, None, len(strings), 8 * _COUNT]
    assert head[0]["parameters"]["x"] == 1
    assert head[1] == inputs[1]
    raw = np.array(_NUMBERS, "<i4").tobytes() + strings + np.full(_COUNT, 0.5, "<f8").tobytes()
    assert b"".join(found.tensors) == raw


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("outputs", [[], None])
def test_all_outputs(binary: bool, outputs: list[Any] | None) -> None:
    """Without a list of outputs, binary_data_output says what the caller wants."""
    others = {} if outputs is None else {"outputs": outputs}
    found = taken(request(**others, parameters={"binary_data_output": binary, "mine": 1.5}))
    assert found is not None
    assert found.in_json == (frozenset() if binary else None)
    assert json.loads(found.head)["parameters"] == {"binary_data_output": True, "mine": 1.5}


def test_listed_outputs() -> None:
    """Outputs that are wanted in JSON are asked for in binary."""
    outputs = [
        {"name": "a"},
        {"name": "b", "parameters": {"binary_data": True}},
        {"name": "c", "parameters": {"binary_data": False, "x": "y"}},
    ]
    found = taken(request(outputs=outputs))
    assert found is not None
    assert found.in_json == frozenset({"a", "c"})
    head = json.loads(found.head)
    assert head["outputs"] == [
        {"name": "a", "parameters": {"binary_data": True}},
        outputs[1],
        {"name": "c", "parameters": {"binary_data": True, "x": "y"}},
    ]
    assert "parameters" not in head


def test_classes_are_not_taken() -> None:
    """An answer has as many strings of them as the caller asked for."""
    assert taken(request(outputs=[{"name": "a", "parameters": {"classification": 3}}])) is None


_BODY = json.dumps(request()).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        _BODY[:-1],
        _BODY + b"x",
        b"\xef\xbb\xbf" + _BODY,
        _BODY.replace(b"inputs", b"inp\xffuts"),
        _BODY.replace(b"1499]", b"1499,]"),
        _BODY.replace(b"1499]", b"1499]]"),
        _BODY.replace(b"1499]", b"1499}"),
        _BODY.replace(b"[0,", b"[[0,"),
        _BODY.replace(b"[0,", b"[,0,"),
        _BODY.replace(b"[0,", b"[null,"),
        _BODY.replace(b'"data"', b'"data":[1],"data"'),
        _BODY.replace(b'"inputs"', b'"inputs":[],"inputs"'),
        _BODY.replace(b'"name"', b'"name":"x","na\\u006de"'),
        _BODY.replace(b'"data"', b'"d\\u0061ta":[],"data"'),
        _BODY.replace(b'"data"', b'"more\\"data"'),
        _BODY.replace(b'{"inputs"', b'{"x":NaN,"inputs"'),
        _BODY.replace(b'{"inputs"', b'{"x":"\\ud800","inputs"'),
        _BODY.replace(b'{"inputs"', b'{"x":18446744073709551616,"inputs"'),
        _BODY.replace(b'{"inputs"', b'{"x":' + b"[" * 9000 + b"]" * 9000 + b',"inputs"'),
        _BODY.replace(b'"data"', b'"data":"\\u0000data 0"}],"x":[{"data"'),
        _BODY.replace(b'"data"', b'"data":"\\u0000d\\u0061ta 0"}],"x":[{"data"'),
    ],
)
def test_texts_that_are_left(text: bytes) -> None:
    """What is no request, or may be read in more than one way, is left to tritonserver."""
    assert taken(_BODY) is not None
    assert text != _BODY
    assert taken(text) is None


@pytest.mark.parametrize(
    "others",
    [
        {"shape": [_COUNT - 1]},
        {"shape": [-_COUNT]},
        {"shape": [0]},
        {"shape": []},
        {"shape": None},
        {"shape": [float(_COUNT)]},
        {"shape": [True, _COUNT]},
        {"shape": [_COUNT, *([1] * 40)]},
        {"shape": [1 << 64, 0, _COUNT]},
        {"name": None},
        {"datatype": "FP16"},
        {"datatype": "INT7"},
        {"datatype": {}},
        {"datatype": None},
        {"datatype": "BOOL"},
        {"datatype": "BYTES"},
        {"parameters": None},
        {"parameters": []},
        {"parameters": {"binary_data_size": 4}},
        {"parameters": {"shared_memory_region": "x"}},
        {"parameters": {"shared_memory_offset": "x"}},
        {"parameters": {"shared_memory_byte_size": -1}},
        {"parameters": {"data": _NUMBERS}},
    ],
)
def test_inputs_that_are_left(others: dict[str, Any]) -> None:
    """An input of which anything is not as it must be leaves the request as it came."""
    assert taken(request(tensor("other"), tensor(**others))) is None


@pytest.mark.parametrize(
    "others",
    [
        {"outputs": None},
        {"outputs": {}},
        {"outputs": [None]},
        {"outputs": [{}]},
        {"outputs": [{"name": 1}]},
        {"outputs": [{"name": "a", "parameters": []}]},
        {"outputs": [{"name": "a", "parameters": {"binary_data": 1}}]},
        {"outputs": [{"name": "a"}, {"name": "a", "parameters": {"binary_data": True}}]},
        {"outputs": [{"name": f"{number}"} for number in range(1001)]},
        {"parameters": None},
        {"parameters": []},
        {"parameters": {"binary_data_output": "x"}},
        {"parameters": {"binary_data_output": 1}},
        {"parameters": {"data": _NUMBERS}},
        {"data": _NUMBERS},
        {"x": [{"data": _NUMBERS}]},
        {"x": "y" * 300_000},
    ],
)
def test_requests_that_are_left(others: dict[str, Any]) -> None:
    """A request of which anything is not as it must be is left as it came."""
    assert taken(request()) is not None
    assert taken(request(**others)) is None


@pytest.mark.parametrize(
    "text", [b'"inputs":{}', b'"inputs":[null]', b'"inputs":[[]]', b'"inputs":null', b'"id":"1"']
)
def test_inputs_of_another_kind(text: bytes) -> None:
    """Without a list of inputs that are objects there is nothing to take."""
    assert taken(b"{" + text + b"}") is None


def test_numbers_keep_their_texts() -> None:
    """A number in what is left of the text is written as it was."""
    text = _BODY[:-1] + b',"parameters":{"a":0.30000000000000004,"b":1E400,"c":-0.0,"d":1e2}}'
    found = taken(text)
    assert found is not None
    assert b'"a":0.30000000000000004,"b":1E400,"c":-0.0,"d":1e2' in found.head


_KEYS = st.text(max_size=2) | st.sampled_from(["data", "name", "parameters"])
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 1 << 65) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_MEMBERS = st.sampled_from(["name", "datatype", "shape", "data", "parameters", "x"])
_TOP_MEMBERS = st.sampled_from(["inputs", "outputs", "parameters", "id", "x"])


@settings(max_examples=examples(300))
@given(
    of_tensor=st.dictionaries(_MEMBERS, _ANY, max_size=2),
    of_request=st.dictionaries(_TOP_MEMBERS, _ANY, max_size=2),
    long=st.booleans(),
)
def test_any_members(of_tensor: dict[str, Any], of_request: dict[str, Any], long: bool) -> None:
    """Whatever stands where: the request is taken or left, and nothing else is raised."""
    body = request({**tensor(data=_NUMBERS if long else [1]), **of_tensor})
    taken({**body, **of_request})


@settings(max_examples=examples(300))
@given(
    place=st.integers(0, len(_BODY) - 1),
    gone=st.integers(0, 2),
    put=st.binary(max_size=2)
    | st.sampled_from([b'"', b"[", b"]", b"}", b"{", b",", b'"data":[', b'"]', b"\\"]),
)
def test_any_damage(place: int, gone: int, put: bytes) -> None:
    """What is no JSON is never taken; what is taken holds what Python reads in it."""
    text = _BODY[:place] + put + _BODY[place + gone :]
    found = taken(text)
    if found is not None:
        (given_input,) = json.loads(text)["inputs"]
        if found.tensors:
            data = np.array(given_input["data"], "i8").astype("<i4")
            assert b"".join(found.tensors) == data.tobytes()


_MEGABYTES = 2_000_000


def _repeated(unit: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    return before + unit * (_MEGABYTES // len(unit)) + after


_HEAD = b'{"inputs":[{"name":"IN","datatype":"%s","shape":[1],"data":['
_WORDS, _FLOATS, _BOOLS = (_HEAD % name for name in (b"BYTES", b"FP32", b"BOOL"))


@pytest.mark.parametrize(
    "text",
    [
        _repeated(b'"data":['),
        _repeated(b'"data":["'),
        _repeated(b'{"data":['),
        _repeated(b'{"data":[1'),
        _repeated(b'{"data":["],"', b'{"inputs":['),
        _repeated(b'{"data":["a"]},', b'{"inputs":['),
        _repeated(b'"data":'),
        _repeated(b'"data"' + b" " * 1000),
        _repeated(b'"data":[' + b" " * 3000),
        _repeated(b"["),
        _repeated(b'"'),
        _repeated(b"[", _FLOATS),
        _repeated(b" ", _FLOATS, b"1]}]}"),
        _repeated(b",", _FLOATS),
        _repeated(b"[[[[[[[[1]]]]]]]],", _FLOATS, b"1]}]}"),
        _repeated(b"[" * 500 + b"true" + b"]" * 500 + b",", _BOOLS, b"true]}]}"),
        _repeated(b"[],", _BOOLS, b"true]}]}"),
        _repeated(b'"]]]]]]]]",', _WORDS, b'"a"]}]}'),
        _repeated(b'"[]}",', _WORDS, b'"a"]}]}'),
        _repeated(b'"a\\"],\\"",', _WORDS, b'"a"]}]}'),
        _repeated(b'\\",', _WORDS + b'"', b'"]}]}'),
        _repeated(b'"\\\\",', _WORDS, b'"a"]}]}'),
        _repeated(b"]", _WORDS + b'"', b'"]}]}'),
        _repeated(b"]" + b" " * 5000, _WORDS + b'"a"'),
        b'{"inputs":[{"data":'
        + json.dumps(_NUMBERS).encode()
        + b',"name":"a","datatype":"INT32","shape":['
        + b"999999999999999999," * 9000
        + b"9]}]}",
    ],
    ids=lambda text: text[:40].decode(),
)
def test_no_step_takes_long(text: bytes) -> None:
    """Bodies made to be slow hold the event loop no longer than others."""
    steps = make_binary_request(text)
    longest = 0.0
    running = True
    while running:
        before = time.thread_time()
        try:
            next(steps)
        except (StopIteration, NotTaken):
            running = False
        longest = max(longest, time.thread_time() - before)
    assert longest < _STEP_S
