"""A request as tritonserver gets it: its headers, its body, and what comes back of it in JSON."""

from __future__ import annotations

from dataclasses import dataclass

from serve.invoke.headers import ACCEPT_ENCODING, write_headers
from serve.triton.connection import Headers


@dataclass(slots=True)  # not frozen: that costs a microsecond at each invocation
class TritonRequest:
    """A request as tritonserver gets it.

    forwarded: the caller's headers that go on. json_size: how many bytes of JSON begin the body,
    with binary tensors behind them; None where all of it is JSON.
    translated: its outputs come back as binary tensors; those in in_json (None for every one) are
    to be written as JSON. wanted: names of outputs in their order, None for those that come.
    """

    forwarded: Headers
    body: list[bytes]
    json_size: int | None = None
    translated: bool = False
    in_json: frozenset[str] | None = None
    wanted: tuple[str, ...] | None = None

    @property
    def headers(self) -> Headers:
        """Those that it is sent with."""
        return write_headers(self.forwarded, self.json_size)

    @property
    def takes_compressed(self) -> bool:
        """Whether tritonserver may deflate the answer."""
        return any(name == ACCEPT_ENCODING for name, _ in self.forwarded)
