"""A request as tritonserver gets it: its headers, its body, and what comes back of it in JSON."""

from __future__ import annotations

from dataclasses import dataclass

from serve.invoke.headers import ACCEPT_ENCODING, write_headers
from serve.triton.connection import Headers


@dataclass(slots=True)  # not frozen: that costs a microsecond at each invocation
class TritonRequest:
    """A request as tritonserver gets it."""

    forwarded: Headers  # the caller's that go on
    body: list[bytes]
    json_size: int | None = None  # bytes of JSON that begin the body; None where all of it is JSON
    translated: bool = False  # its outputs come back as binary tensors
    in_json: frozenset[str] | None = None  # those of them to be written as JSON; None for all
    wanted: tuple[str, ...] | None = None  # outputs in their order; None for those that come

    @property
    def headers(self) -> Headers:
        """Those that it is sent with."""
        return write_headers(self.forwarded, self.json_size)

    @property
    def takes_compressed(self) -> bool:
        """Whether tritonserver may deflate the answer."""
        return any(name == ACCEPT_ENCODING for name, _ in self.forwarded)
