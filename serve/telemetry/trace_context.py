"""The trace that an invocation belongs to: read out of its headers, written into ours. No I/O.

W3C Trace Context, level 1 and what later versions keep of it. SageMaker passes one header on that
callers may write: X-Amzn-SageMaker-Custom-Attributes. There the context stands as
`traceparent=00-<trace id>-<span id>-<flags>`, alone or among pairs parted by commas or semicolons.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

TRACEPARENT, TRACESTATE = b"traceparent", b"tracestate"
CUSTOM_ATTRIBUTES = b"x-amzn-sagemaker-custom-attributes"
#: SageMaker takes no more bytes of attributes, and nobody reads more of them here.
_MOST_ATTRIBUTES = 1024
#: What W3C asks of everybody to pass on, in bytes; a longer state is dropped.
_MOST_STATE = 512
_CONTEXT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]{0,200})?")
_ATTRIBUTE = re.compile(
    rb"(?:^|[,;])[ \t]*(?i:traceparent)[ \t]*=[ \t]*([0-9a-f-]{55})[ \t]*(?=$|[,;])"
)

_Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True)
class TraceContext:
    """A caller's span."""

    trace_id: int
    span_id: int
    flags: int  # W3C's, 1 for sampled
    state: str = ""  # the tracestate as it came


def read_context(headers: _Headers) -> TraceContext | None:
    """The caller's span; None where there is none, or what stands there is none.

    headers: names in lower case. A traceparent of its own goes before one among the attributes.
    Raises nothing: a trace is never a reason to refuse a request.
    """
    parents: list[bytes] = []
    states: list[bytes] = []
    attributes = b""
    for name, value in headers:
        if name == TRACEPARENT:
            parents.append(value)
        elif name == TRACESTATE:
            states.append(value)
        elif name == CUSTOM_ATTRIBUTES:
            attributes = attributes or value
    if len(parents) == 1 and (context := _parse(parents[0].strip(), b",".join(states))):
        return context
    if not attributes or len(attributes) > _MOST_ATTRIBUTES:
        return None
    match = _ATTRIBUTE.search(attributes)
    return _parse(match[1], b"") if match else None


def remove_context(headers: _Headers) -> list[tuple[bytes, bytes]]:
    """The headers without the caller's context, which is not that of what is sent on."""
    return [header for header in headers if header[0] not in (TRACEPARENT, TRACESTATE)]


def write_traceparent(trace_id: int, span_id: int, flags: int) -> bytes:
    """The header's value for that span."""
    return b"00-%032x-%016x-%02x" % (trace_id, span_id, flags)


def _parse(parent: bytes, state: bytes) -> TraceContext | None:
    match = _CONTEXT.fullmatch(parent)
    if match is None or match[1] == b"ff" or (match[1] == b"00" and match[5]):
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    if not trace_id or not span_id:
        return None
    state_text = state.decode("ascii", "ignore") if len(state) <= _MOST_STATE else ""
    return TraceContext(trace_id, span_id, int(match[4], 16), state_text)
