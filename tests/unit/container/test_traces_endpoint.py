"""Whether traces are on, by OpenTelemetry's own variables; off, nothing of the SDK is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from container.traces_endpoint import find_traces_endpoint, hide_secrets

BASE, TRACES = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({}, None),
        ({BASE: " "}, None),
        ({BASE: "http://c:4318"}, "http://c:4318/v1/traces"),
        ({BASE: "http://c:4318/otlp/"}, "http://c:4318/otlp/v1/traces"),
        ({TRACES: "http://t/all"}, "http://t/all"),
        ({TRACES: "http://t/all", BASE: "http://c"}, "http://t/all"),
        ({BASE: "http://c", "OTEL_SDK_DISABLED": "TRUE"}, None),
        ({BASE: "http://c", "OTEL_TRACES_EXPORTER": "none"}, None),
        ({BASE: "http://c", "OTEL_TRACES_EXPORTER": "otlp"}, "http://c/v1/traces"),
    ],
)
def test_the_endpoint(environment: dict[str, str], endpoint: str | None) -> None:
    assert find_traces_endpoint(environment) == endpoint


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://c:4318/v1/traces", "http://c:4318/v1/traces"),
        ("https://me:secret@c:4318/v1/traces?key=secret#secret", "https://c:4318/v1/traces"),
        ("http://[secret", "what is no URL"),
    ],
)
def test_what_the_log_says_of_it_holds_no_secret(endpoint: str, words: str) -> None:
    assert hide_secrets(endpoint) == words


@pytest.mark.slow
def test_off_nothing_of_the_sdk_is_imported() -> None:
    """FastAPI imports OpenTelemetry's bare interface itself, whatever is set."""
    program = (
        "import sys, container.assembly\n"
        "print([name for name in sys.modules if name.startswith("
        "('opentelemetry.sdk', 'opentelemetry.exporter', 'serve.telemetry.otel'))])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
