"""Columns that are not to be written: their values are in no form of a request or an answer."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.telemetry.capture.hiding import ColumnHider, NotUnderstood

SECRET = 7_700_000_077
MAIL = "somebody@example.org"
HIDDEN = ("user_id", "email", "price", "flag", "items")


def tensor(name: str, datatype: str, data: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "shape": [len(data)], "datatype": datatype, "data": data, **more}


def hide(*tensors: dict[str, Any], kind: str = "inputs", **more: Any) -> dict[str, Any]:
    """What becomes of a request, by the name of each tensor."""
    text, behind = ColumnHider(HIDDEN).hide(json.dumps({kind: tensors, **more}).encode())
    assert behind == b""
    for secret in (str(SECRET), MAIL, "3.25"):
        assert secret not in text.decode()
    return {it["name"]: it for it in json.loads(text)[kind]}


@pytest.mark.parametrize("kind", ["inputs", "outputs"])
def test_json(kind: str) -> None:
    """Requests and answers alike: hashes that are equal where the values are, and 0."""
    found = hide(
        tensor("user_id", "INT64", [SECRET, 1, SECRET]),
        tensor("email", "BYTES", [[MAIL], ["x"], [MAIL]]),
        tensor("price", "FP32", [3.25]),
        tensor("flag", "BOOL", [True]),
        tensor("items__values", "INT32", [1, 2]),
        tensor("items__offsets", "INT32", [0, 2]),
        tensor("kept", "FP64", [0.1, 1e300]),
        kind=kind,
    )
    first, second, third = found["user_id"]["data"]
    assert first == third != second
    assert min(first, second) >= 0
    mails = found["email"]["data"]
    assert mails[0] == mails[2] != mails[1]
    assert [len(mail) for (mail,) in mails] == [16, 16, 16]
    assert (found["price"]["data"], found["flag"]["data"]) == ([0], [False])
    assert found["items__values"]["data"] != [1, 2]
    assert found["items__offsets"]["data"] == [0, 2]
    assert found["kept"]["data"] == [0.1, 1e300]
    assert found["user_id"]["shape"] == [3]


def test_columns_that_nothing_has() -> None:
    """Each is told once, with the name of a column that is written and is like it."""
    hider = ColumnHider(["emial", "User_ID", "price", "score", "itmes", "items", "absent"])
    request = [tensor("email", "BYTES", [MAIL]), tensor("user_id", "INT64", [1])]
    request += [tensor("price", "FP32", [1.0]), tensor("items__values", "INT64", [1])]
    request += [tensor("items__offsets", "INT64", [0, 1])]
    hider.hide(json.dumps({"inputs": request}).encode())
    hider.hide(json.dumps({"outputs": [tensor("score", "FP32", [0.5])]}).encode())
    assert hider.take_unmet() == {
        "User_ID": "user_id",
        "absent": "",
        "emial": "email",
        "itmes": "",
    }
    assert hider.take_unmet() == {}


@pytest.mark.parametrize("name", [b"user\\u005fid", b"user_id\\u0000", b"user_id\\u0000x"])
def test_a_name_may_be_written_in_any_way(name: bytes) -> None:
    """As JSON's escapes, and with more behind a NUL, where names end for tritonserver."""
    column = b'{"name":"%b","datatype":"INT64","shape":[1],"data":[7700000077]}'
    hidden, _ = ColumnHider(HIDDEN).hide(b'{"inputs":[%b]}' % (column % name))
    assert str(SECRET).encode() not in hidden


def test_what_tritonserver_does_not_read_is_not_kept() -> None:
    """Members of a request beside its own, and of a tensor, whether it is hidden or not."""
    found = hide(
        tensor("user_id", "INT64", [1], contents=[SECRET]),
        tensor("kept", "INT64", [1], user_id=SECRET),
        users=[SECRET],
    )
    for column in ("user_id", "kept"):
        assert set(found[column]) == {"name", "shape", "datatype", "data"}


def test_parameters_of_columns_names() -> None:
    """They are left out, of requests and of tensors; others stay, and count as no column."""
    hider = ColumnHider(HIDDEN)
    tensors = [tensor("kept", "INT64", [1], parameters={"email\0x": MAIL, "b": 2})]
    request = {"inputs": tensors, "parameters": {"a": 1, "user_id": SECRET}}
    text, _ = hider.hide(json.dumps(request).encode())
    written = json.loads(text)
    assert written["parameters"] == {"a": 1}
    assert written["inputs"][0]["parameters"] == {"b": 2}
    assert not {"user_id", "email"} & {*hider.take_unmet()}


def binary(*columns: tuple[str, str, bytes]) -> tuple[bytes, bytes]:
    """A request in the binary form: its JSON, and the tensors behind."""
    tensors = [
        {
            "name": name,
            "shape": [1],
            "datatype": kind,
            "parameters": {"binary_data_size": len(data)},
        }
        for name, kind, data in columns
    ]
    wish = {"name": "user_id", "parameters": {"binary_data": True}}
    head = {"inputs": [*tensors, tensor("email", "BYTES", [MAIL])], "outputs": [wish]}
    return json.dumps(head).encode(), b"".join(data for *_, data in columns)


def test_binary_tensors() -> None:
    """Other bytes stand in their places, and each size is that of what stands there now."""
    mails = b"".join(len(it).to_bytes(4, "little") + it for it in (MAIL.encode(), b"", b"x"))
    text, behind = ColumnHider(HIDDEN).hide(
        *binary(
            ("kept", "FP32", np.float32([1.5, 2.5]).tobytes()),
            ("user_id", "INT64", np.int64([SECRET, -SECRET, SECRET]).tobytes()),
            ("email", "BYTES", mails),
            ("price", "FP64", np.float64([3.25]).tobytes()),
            ("last", "UINT8", b"\1\2"),
        )
    )
    assert MAIL.encode() not in text + behind
    assert np.int64(SECRET).tobytes() not in behind
    head, start = json.loads(text), 0
    found: dict[str, bytes] = {}
    for it in head["inputs"]:
        size = it.get("parameters", {}).get("binary_data_size", 0)
        found.setdefault(it["name"], behind[start : start + size])
        start += size
    assert start == len(behind)
    assert np.frombuffer(found["kept"], "<f4").tolist() == [1.5, 2.5]
    first, second, third = np.frombuffer(found["user_id"], "<i8").tolist()
    assert first == third != second
    assert len(found["email"]) == 3 * (4 + 16)
    assert found["price"] == bytes(8)
    assert found["last"] == b"\1\2"
    assert head["outputs"][0]["parameters"] == {"binary_data": True}


def test_json_and_binary_have_the_same_hashes() -> None:
    """So a caller who changes the form stays the same user; another start has other hashes."""
    hider = ColumnHider(HIDDEN)
    in_json, _ = hider.hide(json.dumps({"inputs": [tensor("user_id", "INT64", [SECRET])]}).encode())
    text, tensors = binary(("user_id", "INT64", np.int64([SECRET]).tobytes()))
    _, behind = hider.hide(text, tensors)
    (number,) = json.loads(in_json)["inputs"][0]["data"]
    assert np.frombuffer(behind, "<i8").tolist() == [number]
    assert ColumnHider(HIDDEN).hide(text, tensors)[1] != behind


@pytest.mark.parametrize("kind", ["INT32", "UINT32", "INT64", "UINT64"])
@given(numbers=st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=20))
def test_a_hash_fits_its_type(kind: str, numbers: list[int]) -> None:
    """A request whose columns were hidden can be asked."""
    dtype = np.dtype(kind.lower())
    data = np.array(numbers, dtype).tobytes()
    _, behind = ColumnHider(HIDDEN).hide(*binary(("user_id", kind, data)))
    assert len(behind) == len(data)
    in_json = hide(tensor("user_id", kind, numbers))["user_id"]["data"]
    assert np.array(in_json, dtype).tolist() == in_json


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        (b"", b""),
        (b"user_id\n7700000077\n", b""),
        (b'{"text_input": "somebody"}', b""),
        (b'[{"inputs": []}]', b""),
        (b'{"inputs": {"user_id": [1]}}', b""),
        (b'{"inputs": [1]}', b""),
        (b'{"inputs": [{"datatype": "INT64", "data": [1]}]}', b""),
        (b'{"inputs": [{"name": "price", "datatype": "FP32", "shape": [99], "data": [1]}]}', b""),
        (b'{"inputs": [{"name": 1, "datatype": "INT64", "data": [1]}]}', b""),
        (b'{"inputs": [{"name": "user_id", "data": [1]}]}', b""),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [NaN]}]}', b""),
        (b"\xef\xbb\xbf" + b'{"inputs": []}', b""),
        (b'{"inputs": []}', b"12345678"),
        (b"{" * 100_000, b""),
        (b'{"inputs": [{"name": "user_id", "datatype": "INT64", "data": ' + b"[" * 9999, b""),
        (binary(("user_id", "INT64", bytes(8)))[0], bytes(7)),
        (*binary(("user_id", "INT64", bytes(7))),),
        (*binary(("user_id", "BYTES", b"\4\0\0\0abc")),),
        (*binary(("user_id", "IN64", bytes(8))),),
        (b'{"inputs":[{"name":"x","parameters":{"binary_data_size":-8}}]}', b"12345678"),
        (b'{"inputs":[{"name":"x","parameters":{"binary_data_size":"8"}}]}', b"1"),
        (b'{"inputs":[{"name":"x","parameters":[]}]}', b""),
    ],
)
def test_what_nobody_can_read_is_refused(text: bytes, behind: bytes) -> None:
    """Whatever is wrong with it: it is not known where the column's values lie."""
    with pytest.raises(NotUnderstood):
        ColumnHider(HIDDEN).hide(text, behind)
