"""What tritonserver must not be given, and all that it may be: property tests beside the list."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
import time
import tracemalloc
import zlib
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import BadRequest, BodyTooLarge, CallerError
from serve.invoke.request_checks import (
    CheckedRequest,
    check_object,
    check_request,
    check_strings,
)
from serve.invoke.request_types import ELEMENT_SIZES, MOST_TENSORS

_IN_JSON = sorted(set(ELEMENT_SIZES) - {"FP16", "BF16"})


def text(*inputs: object, **members: object) -> bytes:
    return json.dumps({"inputs": [*inputs], **members}).encode()


def tensor(data: object = (1, 2), **members: object) -> dict[str, object]:
    return {"name": "x", "shape": [2], "datatype": "FP32", "data": data, **members}


def binary(size: object, **members: object) -> dict[str, object]:
    described = {"name": "x", "shape": [2], "datatype": "FP32", **members}
    return {**described, "parameters": {"binary_data_size": size}}


def refusal(body: bytes, behind: int = 0) -> str:
    with pytest.raises(CallerError) as refused:
        check_request(body, behind)
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert len(sentence) < 700
    return sentence


def nested(leaves: list[object], shape: list[int]) -> object:
    if len(shape) < 2:
        return leaves
    step = len(leaves) // shape[0] if shape[0] else 0
    return [nested(leaves[n * step : (n + 1) * step], shape[1:]) for n in range(shape[0])]


@st.composite
def good_inputs(draw: st.DrawFn) -> dict[str, object]:
    """An input whose data have its shape, nested as the shape is or flat."""
    datatype = draw(st.sampled_from(_IN_JSON))
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    leaf: st.SearchStrategy[object] = {
        "BYTES": st.text(),
        "BOOL": st.booleans(),
        "FP32": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    }.get(datatype, st.integers(0, 99))
    leaves = draw(st.lists(leaf, min_size=prod(shape), max_size=prod(shape)))
    data = nested(leaves, shape) if draw(st.booleans()) else leaves
    return {"name": draw(st.text()), "shape": shape, "datatype": datatype, "data": data}


@given(
    st.lists(good_inputs(), max_size=4, unique_by=lambda each: each["name"]),
    st.lists(st.text(), max_size=3, unique=True),
    st.dictionaries(
        st.text().filter(lambda name: not name.startswith("shared_memory_")),
        st.text()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.booleans(),
    ),
    st.booleans(),
    st.sampled_from([None, 2, "\t"]),
)
def test_what_fits_passes(
    inputs: list[dict[str, object]],
    outputs: list[str],
    parameters: dict[str, object],
    ascii_only: bool,
    indent: int | str | None,
) -> None:
    """However JSON is written: data flat or nested, names of any letters, own parameters."""
    known = {"sequence_id", "sequence_start", "sequence_end", "priority", "timeout"}
    known |= {"binary_data_output"}
    request = {
        "id": "7:1",
        "inputs": inputs,
        "outputs": [{"name": name} for name in outputs],
        "parameters": {k: v for k, v in parameters.items() if k not in known},
    }
    body = json.dumps(request, ensure_ascii=ascii_only, indent=indent)
    checked = check_request(body.encode(errors="replace"))
    assert not checked.strings
    doubles = any(each["datatype"] == "FP64" for each in inputs)
    assert bool(checked.written or checked.with_doubles) == doubles
    if checked.with_doubles:
        assert [given.datatype for given in checked.with_doubles] == [
            each["datatype"] for each in inputs
        ]


@given(good_inputs(), st.integers(0, 3), st.integers(-3, 2**70))
def test_another_shape_is_refused(each: dict[str, Any], place: int, size: int) -> None:
    """Whatever size another one takes the place of, the product counts, and none wraps around."""
    shape = [*each["shape"]]
    if place >= len(shape):
        shape.append(size)
    else:
        shape[place] = size
    body = text({**each, "shape": shape})
    believed = prod(size or 1 for size in shape)  # of an empty tensor, by whoever reads it
    if 0 <= size < 2**31 > believed and prod(shape) == prod(each["shape"]):
        check_request(body)
    else:
        refusal(body)


@pytest.mark.parametrize("datatype", ["FP32", "INT64", "BOOL"])
@pytest.mark.parametrize(
    ("shape", "data"),
    [
        ([2], "[[], [1, 2, 3]]"),
        ([2], "[[1, 2], [3]]"),
        ([1], "[[]]"),
        ([1, 1], "[[]]"),
        ([1], "[[[[]]]]"),
        ([1], "[[1, 2, 3]]"),
    ],
)
def test_elements_count_and_not_lists(datatype: str, shape: list[int], data: str) -> None:
    """As many outermost elements as the shape has are not as many numbers."""
    body = f'{{"inputs":[{{"name":"A","shape":{shape},"datatype":"{datatype}","data":{data}}}]}}'
    refusal(body.encode())


def test_nested_data_are_taken() -> None:
    """Lists in lists with as many numbers as the shape has, also where one list is one number."""
    for shape, data in (([2, 1], "[[1], [2]]"), ([1], "[[1]]"), ([2, 2], "[[1, 2], [3, 4]]")):
        body = f'{{"inputs":[{{"name":"A","shape":{shape},"datatype":"FP32","data":{data}}}]}}'
        assert check_request(body.encode()) == CheckedRequest()


_NAMES = (
    "inputs",
    "outputs",
    "parameters",
    "name",
    "shape",
    "datatype",
    "data",
    "binary_data_size",
    "binary_data",
    "id",
)


def passes(body: bytes) -> list[bool]:
    """Whether it does, by each check; anything but CallerError is raised."""
    passed = []
    for check in (check_request, check_object):
        try:
            check(body)
        except CallerError:
            passed.append(False)
        else:
            passed.append(True)
    return passed


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(_NAMES), inner),
        max_leaves=30,
    )
)
def test_any_json_passes_or_is_refused(value: object) -> None:
    """No list is a request, and of what is an object each check says yes or no."""
    passed = passes(json.dumps(value).encode(errors="replace"))
    assert isinstance(value, dict) or passed == [False, False]


@given(st.binary(max_size=200))
def test_any_bytes_pass_or_are_refused(body: bytes) -> None:
    """What passes is JSON."""
    if any(passes(body)):
        json.loads(body)


@pytest.mark.parametrize("datatype", ["FP32", "BYTES", "BOOL", "INT64", "UINT8"])
@pytest.mark.parametrize(
    "shape",
    [
        [2**62],
        [2**31],
        [2**40],
        [2**61],
        [2**63 - 1],
        [2**63 - 1, 4],
        [2**29],
        [2**32],
        [2**64],
        [10**30],
        [2**31 - 1, 2**31 - 1, 2**31 - 1],
        [65536] * 8,
        [0, 2**62],
        [2] * 33,
        [3],
        [1],
        [0],
        [],
        [-1],
        [-1, -2],
        [2.5],
        ["2"],
        [None],
        [[2]],
        "2",
        None,
        {},
        2,
    ],
)
def test_shapes_that_the_data_do_not_have(datatype: str, shape: object) -> None:
    """One sentence each, and no memory: tritonserver dies of most."""
    data = ["a", "b"] if datatype == "BYTES" else [1, 1]
    body = text(tensor(data, shape=shape, datatype=datatype))
    tracemalloc.start()
    try:
        sentence = refusal(body)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert "x" in sentence or "shape" in sentence


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 1_000_000,
        b"{" * 1_000_000,
        b'{"a":' * 1_000_000,
        b'{"inputs":' + b"[" * 60_000 + b"]" * 60_000 + b"}",
        text(tensor(0)).replace(b"0", b"[" * 60_000 + b"1" + b"]" * 60_000),
        text(tensor(0)).replace(b"0", b"[" * 60_000),
        text(tensor(), parameters={"a": 0}).replace(b"0", b"[" * 60_000 + b"]" * 60_000),
        text(tensor(parameters={"a": 0})).replace(b"0", b'{"a":' * 60_000 + b"1" + b"}" * 60_000),
        text(tensor(), more=0).replace(b"0", b"[" * 60_000 + b"]" * 60_000),
    ],
)
def test_nesting(body: bytes) -> None:
    """It is a 400 wherever it stands, also where no rule looks."""
    refusal(body)
    with pytest.raises(BadRequest):
        check_object(body)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "no JSON"),
        (b"null", "found no JSON object (it is null)"),
        (b"3", "found no JSON object (it is a number)"),
        (b"[1, 2]", "found no JSON object (it is a list)"),
        (b'"{}"', "was it written as JSON twice?"),
        (b"1,2,3", "found no JSON object (text/csv is not read)"),
        (b"\xef\xbb\xbf1.5,2\n3,4\n", "text/csv is not read"),
        (b'user_id,city\r\n7,"Bonn"\r\n', "text/csv is not read"),
        (b"-1;2\n", "found no JSON object (it is a number)"),
        (b"inputs=%7B%7D&x=1", "forms are not read"),
        (b"--b\r\nContent-Disposition: form-data\r\n", "multipart/form-data is not read"),
        (b"<?xml version='1.0'?><a/>", "XML and HTML are not read"),
        (b"\x93NUMPY\x01\x00", "binary tensors are"),
        (b"PAR1\x15", "Parquet and Arrow are not read"),
        (gzip.compress(b"{}", mtime=0), "send the header Content-Encoding: gzip"),
        (zlib.compress(b"{}"), "send the header Content-Encoding: deflate"),
        (pickle.dumps({}), "pickles are not read"),
        ("{}".encode("utf-16"), "UTF-8 is"),
        ("{}".encode("utf-16-le"), "UTF-8 is"),
        (text().decode().encode("utf-32-be"), "no JSON"),
        (b"\xef\xbb\xbf" * 2 + b"{}", "a byte order mark at byte 0"),
        (b"{\xef\xbb\xbf" + text()[1:], "a byte order mark at byte 1"),
        (text() + b"\n" + text(), "found more than one JSON object, expected one request"),
        (b"{}", "`inputs`: found nothing"),
        (b'{"inputs":[],}', "no JSON"),
        (b'{"inputs":[]}\x01\x02', "found more behind its JSON"),
        (b'{"inputs":[]}\x01\x02', ";json-header-size=13"),
        (b'{"inputs":[]}\n\x00\x00\x00', ";json-header-size=<bytes of JSON>"),
        (b'{"inputs":[,]}', "(byte 11): '{\"inputs\":[ >>> ,]}')"),
        (b'{"inputs":[nan]}', "no JSON"),
        (text(tensor(0)).replace(b"0}", b"[None, 1]}"), "no JSON (None at byte"),
        (text(tensor(0)).replace(b"0}", b"[1, True]}"), "no JSON (True at byte"),
        (text(tensor(0)).replace(b"0}", b"[1,nan]}"), "no JSON (nan at byte"),
        (text(tensor(0)).replace(b"0}", b"[1, undefined]}"), "no JSON (undefined at byte"),
        (text(tensor(0)).replace(b"0}", b"[1, -inf]}"), "no JSON (inf at byte"),
        (b"{'inputs':[]}", "no JSON (' at byte 1), expected null, true, false, NaN, Infinity and"),
        (text(tensor(0)).replace(b"0}", b"[1, nothing]}"), "no JSON (invalid character"),
        (text(parameters=5), "`parameters`: found int"),
        (text(parameters=None), "`parameters`: found null"),
        (text(outputs={}), "`outputs`: found object"),
        (text(id=7), "`id`: found int"),
        (text({}), "`inputs[0].name`: found nothing"),
        (text(3), "`inputs[0]`: found int"),
        (text(tensor(name=3)), "`inputs[0].name`: found int"),
        (text(tensor(datatype=None)), "`inputs[0].datatype`: found null"),
        (text(tensor(datatype="FP31")), "'FP31'"),
        (text(tensor(datatype="float32")), "did you mean FP32?"),
        (text(tensor(datatype="TYPE_STRING")), "did you mean BYTES?"),
        (text(tensor(datatype="fp64")), "did you mean FP64?"),
        (text(tensor(datatype="FP16")), "FP16 in JSON"),
        (text(tensor(datatype="BF16", name="out of memory")), "BF16 in JSON"),
        (text(tensor(parameters=[])), "`inputs[0].parameters`: found array"),
        (text(tensor(["a", 5], datatype="BYTES")), "found 5 at data[1], expected strings"),
        (text(tensor([5, 6], datatype="BYTES")), "found 5 at data[0], expected strings"),
        (text(tensor(["a", None], datatype="BYTES")), "'x': found null at data[1], expected str"),
        (text(tensor([["a"], [None]], datatype="BYTES")), "found null at data[1][0]"),
        (text(tensor(["a" * 9000, None], datatype="BYTES")), "found null at data[1]"),
        (text(tensor(["a" * 90_000, None], datatype="BYTES")), "found 1 values, expected 2"),
        (text(tensor(None)), "the field `data`: found null, expected a list of 2 values"),
        (text(tensor("ab", datatype="BYTES")), "the field `data`: found no list"),
        (text(tensor("1,2")), "the field `data`: found no list, expected a list of 2 values"),
        (text(tensor(7, shape=[1])), "the field `data`: found no list, expected a list of 1"),
        (text({"name": "x", "shape": [2], "datatype": "FP32"}), "`data`: found nothing"),
        (text(tensor([1, 2, 3])), "3 values, expected 2, which its shape [2]"),
        (text(tensor([])), "0 values, expected 2"),
        (text(tensor([], shape=[1])), "0 values, expected 1"),
        (text(tensor([[], []], shape=[1])), "0 values, expected 1"),
        (text(tensor([[], [], [1]])), "1 values, expected 2"),
        (text(tensor([1], shape=[0])), "1 values, expected 0"),
        (text(tensor([5, 6], shape=[0], datatype="BYTES")), "found 5 at data[0]"),
        (text(tensor(5, shape=[2, 0], datatype="BYTES")), "found no list, expected a list of 0"),
        (text(tensor(), tensor()), "'x' twice"),
        (text(outputs=[{"name": "y"}, {"name": "y"}]), "'y' twice"),
        (text(*[tensor(name=str(n)) for n in range(MOST_TENSORS + 1)]), "4096"),
        (text(outputs=[{"name": str(n)} for n in range(MOST_TENSORS + 1)]), "4096"),
        (text(binary(8)), "0 bytes behind the JSON, expected 8"),
        (text(binary("8")), "`binary_data_size`: found '8'"),
        (text(binary(-1)), "`binary_data_size`: found -1"),
        (text(binary(True)), "`binary_data_size`: found true"),
        (text(binary(2**64)), "`binary_data_size`"),
        (text(binary(7)), "7 bytes, expected 8, which FP32 of its shape [2]"),
        (text(binary(7, datatype="BYTES")), "7 bytes, expected at least 8"),
        (text(binary(7, datatype="NONE")), "'NONE'"),
        (text({**binary(8), "data": [1, 2]}), "`data` and `binary_data_size`, expected one"),
        (text(tensor(parameters={"shared_memory_region": "r"})), "shared memory"),
        (text(tensor(parameters={"shared_memory_offset": 1})), "shared memory"),
        (text(tensor(parameters={"shared_memory_byte_size": 1})), "shared memory"),
        (text(outputs=[{"name": "y", "parameters": {"shared_memory_region": "r"}}]), "shared"),
        (text(parameters={"shared_memory_region": "r"}), "shared memory"),
        (text(outputs=[{"name": "y", "parameters": {"classification": 1}}]), "sort them"),
        (text(outputs=[{"name": "y", "parameters": {"classification": -1}}]), "sort them"),
        (text(outputs=[{"name": "y", "parameters": {"binary_data": 1}}]), "true or false"),
        (text(outputs=[{"name": "y", "parameters": 5}]), "`outputs[0].parameters`: found int"),
        (text(outputs=[{}]), "`outputs[0].name`: found nothing"),
        (text(parameters={"sequence_id": "x" * 300}), "at most 128 bytes"),
        (text(parameters={"sequence_id": -1}), "'sequence_id': found -1"),
        (text(parameters={"sequence_id": 2**64}), "'sequence_id'"),
        (text(parameters={"sequence_start": 1}), "'sequence_start': found 1"),
        (text(parameters={"priority": 1.5}), "'priority': found 1.5"),
        (text(parameters={"timeout": "1"}), "'timeout': found '1'"),
        (text(parameters={"binary_data_output": "no"}), "true or false"),
        (text(parameters={"own": [1]}), "`parameters[...]`: found array"),
        (text(parameters={"own": {}}), "`parameters[...]`: found object"),
        (text(parameters={str(n): n for n in range(101)}), "length <= 100"),
        (text(tensor(parameters={str(n): n for n in range(101)})), "length <= 100"),
        (text(outputs=[{"name": "y", "parameters": {"a": []}}]), "found array"),
        (text(parameters={"own": None}), "'own': found null"),
    ],
)
def test_the_sentence(body: bytes, says: str) -> None:
    """What was found, what was expected; the field named."""
    assert says in refusal(body)


def test_values_are_for_their_caller() -> None:
    """The log has the place of a wrong value, and not the value."""
    with pytest.raises(CallerError) as refused:
        check_request(text(tensor(["a", 4711], datatype="BYTES")))
    assert "found 4711 at data[1]" in str(refused.value)
    assert "found another value at data[1]" in refused.value.logged


@pytest.mark.parametrize(
    "body",
    [
        b'{"inputs":[{"name":"x","shape":[2147483647],"shape":[2],"datatype":"FP32",'
        b'"data":[1,1]}]}',
        b'{"inputs":[{"name":"x","sh\\u0061pe":[2147483647],"shape":[2],"datatype":"FP32",'
        b'"data":[1,1]}]}',
        b'{"inputs":[{"name":"x","shape":[2],"datatype":"BYTES","datatype":"FP32","data":[1,1]}]}',
        b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1],"data":[1,1]}]}',
        b'{"inputs":[{"name":"x","shape":[2],"shape":[1],"datatype":"FP32","data":[1,1]}]}',
        b'{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","data":[1,1],"data":[1]}]}',
        b'{"inputs":[],"inputs":[]}',
        b'{"inputs":[],"parameters":{"a":1},"parameters":{}}',
        b'{"inputs":[],"outputs":[{"name":"a","name":"b"}]}',
        b'{"inputs":[],"parameters":{"sequence_start":7,"sequence_start":true}}',
    ],
)
def test_two_members_of_one_name(body: bytes) -> None:
    """tritonserver takes the first, this reader the last, so neither may be there."""
    assert "twice" in refusal(body)
    long = body.replace(b'{"inputs"', b'{"id":"%s","inputs"' % (b"-" * 5000), 1)
    assert "twice" in refusal(long)


def test_a_hundred_thousand_members() -> None:
    """The second of a name is found in one pass, wherever it stands."""
    members = ",".join(f'"{n}":0' for n in range(90_000)) + ',"89999":0'
    names = [{"name": str(n), "shape": [1], "datatype": "FP32", "data": [1]} for n in range(4000)]
    started = time.process_time()
    assert "twice" in refusal(b'{"inputs":[],"x":{%s}}' % members.encode())
    assert "twice" in refusal(text(*names, names[-1]))
    with pytest.raises(BadRequest, match="twice"):
        check_object(b"{%s}" % members.encode())
    assert time.process_time() - started < 2  # 0.1 s on an idle machine


def test_json_that_is_longer_than_may_be_read() -> None:
    """It is refused before it is looked at: reading it would hold everybody up."""
    body = text(tensor()) + b" " * (16 << 20)
    found = f"found {len(body)} bytes of JSON that is not turned into binary tensors "
    instead = "expected at most 16777216 bytes: send binary tensors, or fewer rows"
    with pytest.raises(BodyTooLarge) as refused:
        check_request(body)
    for part in (found, "a NaN, a null or mixed values", "Accept-Encoding", instead):
        assert part in str(refused.value)
    with pytest.raises(BodyTooLarge, match=r"bytes of JSON, expected at most 16777216 bytes$"):
        check_object(body)  # generate knows no binary tensors


@pytest.mark.parametrize("padding", [0, 5000])
def test_strings_that_look_like_json(padding: int) -> None:
    """Quotes, colons, brackets, commas and backslashes in strings are text."""
    strings = ['a:"b"', "[1,2]", "{}", "\\", '\\"', ",,,", "é: ü", "\u0000", "-" * padding]
    each = tensor(strings, shape=[9], datatype="BYTES")
    for ascii_only in (True, False):
        check_request(json.dumps({"inputs": [each]}, ensure_ascii=ascii_only).encode())
    refusal(text({**each, "shape": [8]}))


def test_lists_that_hold_nothing() -> None:
    """They stand for no value, wherever they are; tritonserver takes them so."""
    for data in ([[], 1, [[]], 2], [[[1, 2]], []], [[], [1, [2, []]]]):
        check_request(text(tensor(data)))
        check_request(text(tensor(data)) + b" " * 5000)


def test_numbers_that_json_does_not_have() -> None:
    """Python writes NaN where a float is missing; tritonserver reads it, and infinities."""
    inf = float("inf")
    for data in ([float("nan"), 1.0], [inf, -inf], [[float("nan")], [inf]]):
        for padding in (b"", b" " * 5000):
            check_request(text(tensor(data)) + padding)
            refusal(text(tensor(data, shape=[3])) + padding)
    check_request(text(tensor()).replace(b"[1, 2]", b"[Inf, -Inf]"))
    check_request(text(tensor(["NaN", "Inf:"], datatype="BYTES", name="NaN")))


def test_a_byte_order_mark() -> None:
    """It is passed over, as tritonserver does."""
    check_request(b"\xef\xbb\xbf" + text(tensor()))
    check_request(b"\xef\xbb\xbf" + text(tensor(["a:"], shape=[1], datatype="BYTES")))
    refusal(b"\xef\xbb\xbf" + text(tensor(shape=[3])))


def test_bytes_that_are_no_text() -> None:
    """BYTES may hold any bytes, in short and in long requests, as tritonserver takes them."""
    for padding in (b"", b" " * 5000):
        body = text(tensor(["?", "?"], datatype="BYTES")).replace(b"?", b"\xff\xfe") + padding
        check_request(body)


def test_members_that_nobody_knows() -> None:
    """They are tritonserver's to ignore."""
    check_request(text({**tensor(), "note": {"a": [1, {"b": 2}]}}, model_name="m", more=[{}]))


@pytest.mark.parametrize("count", [0, 1, 3, 2500])
def test_strings_in_binary(count: int) -> None:
    """Their lengths lead from one to the next, and the last to the end."""
    strings = [b"s" * (n % 7) for n in range(count)]
    data = b"".join(struct.pack("<I", len(each)) + each for each in strings)
    body = text(binary(len(data), shape=[count], datatype="BYTES"), binary(8, name="y"))
    ((start, end, elements),) = check_request(body, len(data) + 8).strings
    assert (start, end, elements) == (0, len(data), count)
    list(check_strings(data, start, end, elements))
    wrong = [(data, count + 1), (data + b"\0", count), (b"\xff" * 4 + data, count + 1)]
    wrong += [(data, count - 1), (data[:-1], count)] if count else []
    for broken, elements in wrong:
        with pytest.raises(BadRequest, match="lengths"):
            list(check_strings(broken, 0, len(broken), elements))


def test_binary_tensors_that_fit() -> None:
    """Some in JSON beside them, an empty one, halves and strings."""
    body = text(
        binary(8),
        tensor(name="y"),
        binary(0, name="z", shape=[0, 3]),
        binary(4, name="h", datatype="FP16"),
        binary(2, name="e", shape=[2], datatype="BOOL"),
    )
    assert check_request(body, 14) == CheckedRequest()
    refusal(body, 13)
    refusal(body, 15)


def test_a_long_request_costs_no_memory() -> None:
    """Its data are skipped over, not built: five million bytes take less than twice as many."""
    numbers = b",".join([b"1.25"] * 1_000_000)
    body = text(tensor(0, shape=[1_000_000])).replace(b"0}", b"[" + numbers + b"]}", 1)
    tracemalloc.start()
    try:
        check_request(body)
        assert tracemalloc.get_traced_memory()[1] < 2 * len(body)
    finally:
        tracemalloc.stop()
    refusal(body.replace(b"1000000", b"1000001"))


@pytest.mark.parametrize("body", [b"{}", b'{"text_input":"x","parameters":{"a":[1,{"b":null}]}}'])
def test_objects(body: bytes) -> None:
    """generate takes whatever members its model has."""
    check_object(body)


@pytest.mark.parametrize("body", [b"[]", b"3", b"", b'{"a":1,"a":2}', b"{" * 10])
def test_what_is_no_object(body: bytes) -> None:
    """Refused in one sentence."""
    with pytest.raises(BadRequest, match="the body"):
        check_object(body)
