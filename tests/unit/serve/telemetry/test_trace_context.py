"""A caller's trace out of the headers that there are, and nothing out of garbage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.telemetry.trace_context import (
    TraceContext,
    read_context,
    remove_context,
    write_traceparent,
)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
CONTEXT = TraceContext(int(TRACE, 16), int(SPAN, 16), 1)
ATTRIBUTES = "x-amzn-sagemaker-custom-attributes"


def read(**headers: str) -> TraceContext | None:
    """What is read of these headers, underscores for dashes."""
    return read_context(
        [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    )


@pytest.mark.parametrize(
    "parent",
    [PARENT, f" {PARENT} ", PARENT.replace("00-", "01-", 1), f"cc{PARENT[2:]}-what-comes-later"],
)
def test_a_traceparent(parent: str) -> None:
    assert read(traceparent=parent) == CONTEXT
    assert read(host="x", traceparent=PARENT[:-1] + "0") == TraceContext(*_ids(), 0)


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "garbage",
        PARENT.upper(),
        PARENT + "-more",
        "ff" + PARENT[2:],
        PARENT.replace(TRACE, "0" * 32),
        PARENT.replace(SPAN, "0" * 16),
        PARENT[:-1],
        "00-" + "é" * 32,
    ],
)
def test_garbage_is_none(parent: str) -> None:
    assert read(traceparent=parent) is None
    assert read_context([(ATTRIBUTES.encode(), b"traceparent=" + parent.encode())]) is None


def test_two_traceparents_are_none() -> None:
    assert read_context([(b"traceparent", PARENT.encode())] * 2) is None


def test_a_state() -> None:
    context = read(traceparent=PARENT, tracestate="a=1,b=2")
    assert context == TraceContext(*_ids(), 1, "a=1,b=2")
    several = [(b"traceparent", PARENT.encode()), (b"tracestate", b"a=1"), (b"tracestate", b"b=2")]
    assert read_context(several) == context
    assert read(traceparent=PARENT, tracestate="a=" + "1" * 600) == CONTEXT


@pytest.mark.parametrize(
    "attributes",
    [
        f"traceparent={PARENT}",
        f"tenant=7,traceparent={PARENT}",
        f"tenant=7; Traceparent = {PARENT} ;more",
        f"words without a sign,traceparent={PARENT},a=b",
    ],
)
def test_among_sagemakers_attributes(attributes: str) -> None:
    assert read_context([(ATTRIBUTES.encode(), attributes.encode())]) == CONTEXT


@pytest.mark.parametrize(
    "attributes",
    [
        f"my-traceparent={PARENT}",
        f"traceparent={PARENT}x",
        PARENT,
        f"traceparent={PARENT}," + "x" * 1024,
    ],
)
def test_not_among_them(attributes: str) -> None:
    assert read_context([(ATTRIBUTES.encode(), attributes.encode())]) is None


def test_a_header_of_its_own_goes_before_attributes() -> None:
    other = PARENT.replace(TRACE, "a" * 32)
    attributes = (ATTRIBUTES.encode(), b"traceparent=" + other.encode())
    assert read_context([attributes, (b"traceparent", PARENT.encode())]) == CONTEXT
    found = read_context([attributes, (b"traceparent", b"garbage")])
    assert found is not None
    assert found.trace_id == int("a" * 32, 16)


def test_what_goes_on() -> None:
    headers = [(b"a", b"1"), (b"traceparent", b"x"), (b"tracestate", b"y"), (b"b", b"2")]
    assert remove_context(headers) == [(b"a", b"1"), (b"b", b"2")]
    assert write_traceparent(*_ids(), 1) == PARENT.encode()


@given(st.binary(max_size=1100), st.binary(max_size=600), st.binary(max_size=1100))
def test_nothing_raises(parent: bytes, state: bytes, attributes: bytes) -> None:
    headers = [
        (b"traceparent", parent),
        (b"tracestate", state),
        (ATTRIBUTES.encode(), b"traceparent=" + attributes),
    ]
    read_context(headers)
    read_context([(b"traceparent", PARENT.encode()), *headers[1:]])


def _ids() -> tuple[int, int]:
    return CONTEXT.trace_id, CONTEXT.span_id
