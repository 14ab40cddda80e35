"""What opens tritonserver's APIs to this container alone: two secrets, new at each start.

tritonserver shuts the APIs that it is told to shut to requests without a header of a certain name
and value. The models run beside it and can reach its sockets. The secret of model control goes over
gRPC alone, so that no request with a caller's bytes ever carries it; the one of inference goes
with each request over HTTP.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

#: The header of an inference over HTTP.
HTTP_HEADER = "x-serve-access"
#: What tritonserver calls the header of model control over gRPC, and in full.
GRPC_KEY = "access"
GRPC_HEADER = f"triton-grpc-protocol-{GRPC_KEY}"

_SECRET_BYTES = 18  # 24 characters of base64, with no character that tritonserver's flags split at


@dataclass(frozen=True)
class TritonAccess:
    """The values of both headers. Never to be logged, nor to be put into an environment."""

    control: str = field(repr=False)
    inference: str = field(repr=False)

    @classmethod
    def make_secret(cls) -> TritonAccess:
        """Values that nobody can guess."""
        return cls(secrets.token_urlsafe(_SECRET_BYTES), secrets.token_urlsafe(_SECRET_BYTES))

    @property
    def grpc_headers(self) -> dict[str, str]:
        """The headers of a call of model control."""
        return {GRPC_HEADER: self.control}

    @property
    def http_line(self) -> bytes:
        """The header of a request over HTTP, as a line of its head."""
        return f"{HTTP_HEADER}: {self.inference}\r\n".encode()
