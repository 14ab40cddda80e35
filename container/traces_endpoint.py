"""Whether traces are wanted, and where they go: OpenTelemetry's own variables say it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

_BASE, _TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def find_traces_endpoint(environment: Mapping[str, str]) -> str | None:
    """The URL that spans are sent to, over OTLP/HTTP; None where tracing is off.

    The variable for traces is the whole URL, the one for all signals the front of it.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if environment.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return None
    if whole := environment.get(_TRACES, "").strip():
        return whole
    base = environment.get(_BASE, "").strip()
    return f"{base.rstrip('/')}/v1/traces" if base else None


def hide_secrets(endpoint: str) -> str:
    """The same for a log: without what may be secret, a name and password, and a query."""
    try:
        parts = urlsplit(endpoint)
    except ValueError:
        return "what is no URL"
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def wants_grpc(environment: Mapping[str, str]) -> bool:
    """Whether they ask for the protocol that is not spoken here."""
    protocols = (environment.get(name, "").strip().lower() for name in _PROTOCOLS)
    return next(filter(None, protocols), "") == "grpc"
