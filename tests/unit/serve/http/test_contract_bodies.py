"""The bodies of the contract as callers send and read them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.errors import BadRequest
from serve.http.contract_bodies import (
    MAX_PAGE,
    list_body,
    parse_load_request,
    parse_page,
    write_error_body,
)
from serve.models.registry import Model

GOOD = {"model_name": "m", "url": "/opt/ml/models/x/model"}


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(GOOD).encode(),
        json.dumps({**GOOD, "new_field": {"a": [1]}, "model_type": None}).encode(),
        b' \n{"model_name":"m","url":"x","url":"/opt/ml/models/x/model"}\n ',
        b'{"model_name":"m","url":"/opt/ml/models/x/model","n":NaN}',
    ],
    ids=["plain", "unknown fields", "a key twice", "NaN in an unknown field"],
)
def test_load_requests(body: bytes) -> None:
    """Both fields are read; what the contract does not have yet is let through."""
    parsed = parse_load_request(body)
    assert {"model_name": parsed.model_name, "url": parsed.url} == GOOD


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "the body: found no JSON"),
        (b"{", "the body: found no JSON"),
        (b"\xff\xfe", "the body: found no JSON"),
        (b'{"model_name": "\xff"}', "the body: found no JSON"),
        (b"[" * 100_000, "the body: found no JSON"),
        (b"[]", "the body: found JSON that is no object"),
        (b"null", "the body: found JSON that is no object"),
        (b'"x"', "the body: found JSON that is no object"),
        (b"{}", "the field `model_name`: found nothing"),
        (b'{"model_name":"m"}', "the field `url`: found nothing"),
        (b'{"model_name":1,"url":"/x"}', "the field `model_name`: found int, expected a string"),
        (b'{"model_name":"m","url":null}', "the field `url`: found NoneType"),
        (b'{"model_name":["m"],"url":"/x"}', "the field `model_name`: found list"),
        (b'{"model_name":NaN,"url":"/x"}', "the field `model_name`: found float"),
        (b'{"model_name":"m","url":{"a":"' + b"x" * 10_000_000 + b'"}}', "found dict"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_load_requests_that_are_none(body: bytes, what: str) -> None:
    """Each complaint names the field and what was found in it, on a short line."""
    with pytest.raises(BadRequest) as refused:
        parse_load_request(body)
    assert what in str(refused.value)
    assert len(str(refused.value)) < 200


@given(st.binary(max_size=100))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    """There is no third outcome."""
    said = ""
    try:
        parse_load_request(body)
    except BadRequest as error:
        said = str(error)
    assert "\n" not in said


@given(name=st.text("abcXYZ019_.-", min_size=1, max_size=255))
def test_tokens_carry_any_name(name: str) -> None:
    """A page's token leads to what comes after its last model, and needs no escaping in a URL."""
    token = json.loads(list_body([Model("a", "/a"), Model(name, "/b")], more=True))["nextPageToken"]
    assert token.replace("-", "").replace("_", "").isalnum()
    assert parse_page({"next_page_token": token}) == (name, None)


@pytest.mark.parametrize("token", ["é", "a", "!!!!", "gA", "a=b", "-_-_-", "a b", "\0", "A" * 9999])
def test_tokens_that_are_none(token: str) -> None:
    """Refused or read, and never another error; what is refused is quoted shortly."""
    said = "next_page_token"
    try:
        parse_page({"next_page_token": token})
    except BadRequest as error:
        said = str(error)
    assert "next_page_token" in said
    assert len(said) < 250


@pytest.mark.parametrize("token", ["é", "a", "!!!!", "gA"])
def test_tokens_that_cannot_be_read(token: str) -> None:
    """No base64, or not of UTF-8."""
    with pytest.raises(BadRequest, match="next_page_token"):
        parse_page({"next_page_token": token})


@given(st.text(max_size=20))
def test_any_token_is_read_or_refused(token: str) -> None:
    """There is no third outcome."""
    try:
        parse_page({"next_page_token": token})
    except BadRequest:
        return


@pytest.mark.parametrize(
    ("limit", "read"),
    [(None, None), ("", None), ("1", 1), ("007", 7), ("999999999", MAX_PAGE)],
)
def test_limits(limit: str | None, read: int | None) -> None:
    """No limit means all; a large one is cut."""
    query = {} if limit is None else {"limit": limit}
    assert parse_page(query) == ("", read)


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5", "1 ", "٣", "²", "9" * 10, "9" * 5000])
def test_limits_that_are_none(limit: str) -> None:
    """Refused with what was found."""
    with pytest.raises(BadRequest, match=r"limit.*a whole number above 0"):
        parse_page({"limit": limit})


def test_a_list_without_more_has_no_token() -> None:
    """Nor has one that is empty."""
    assert json.loads(list_body([], more=True)) == {"models": []}
    assert json.loads(list_body([Model("m", "/u")], more=False)) == {
        "models": [{"modelName": "m", "modelUrl": "/u"}]
    }


def test_errors_are_json_whatever_they_say() -> None:
    """Quotes, breaks and half characters included."""
    for message in ('"', "a\nb", "\ud800", "é"):
        assert json.loads(write_error_body(message)) == {"error": message}
