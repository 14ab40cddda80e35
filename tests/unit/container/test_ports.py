"""Which ports tritonserver gets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from container.errors import PortsExhausted
from container.ports import Ports, choose_ports, is_bindable
from container.settings.reading import read_settings

METRICS = {"SAGEMAKER_TRITON_ALLOW_METRICS": "true"}


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that someone listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def ports_for(**environment: str) -> Ports:
    return choose_ports(read_settings(environment))


def test_free_ports_are_different_and_outside_the_ephemeral_range() -> None:
    """An outgoing connection cannot take one while tritonserver restarts."""
    ports = ports_for(**METRICS, SAGEMAKER_TRITON_METRICS_PORT="18002")
    assert ports.metrics == 18002
    assert len({ports.http, ports.grpc, 8080, 18002}) == 4
    assert all(10_000 <= port < 32_768 for port in (ports.http, ports.grpc))


def test_no_metrics_port_without_metrics() -> None:
    """A port that nobody asked for is not opened."""
    assert ports_for(SERVE_METRICS="off").metrics is None


def test_the_page_does_without_tritons_numbers_where_no_port_is_left() -> None:
    """A range that was wide enough before metrics were on by default still is."""
    low = next(p for p in range(21_000, 31_000) if all(is_bindable(p + n) for n in range(10)))
    narrow = {"SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{low + 1}"}
    assert ports_for(**narrow).metrics is None
    with pytest.raises(PortsExhausted):
        ports_for(**METRICS, **narrow)
    assert ports_for(SAGEMAKER_SAFE_PORT_RANGE=f"{low}-{low + 9}").metrics is not None


def test_the_safe_range_holds_every_port() -> None:
    """Metrics and gRPC leave their usual ports when a range is set."""
    found = ports_for(**METRICS, SAGEMAKER_SAFE_PORT_RANGE="21000-21999")
    assert all(21000 <= port <= 21999 for port in (found.http, found.grpc, found.metrics or 0))


def test_ports_in_use_and_the_main_port_are_passed_over(taken: int) -> None:
    """Only bindable ports of the range are given out."""
    assert not is_bindable(taken)
    low, high = taken - 1, taken + 40
    found = ports_for(SAGEMAKER_SAFE_PORT_RANGE=f"{low}-{high}", SAGEMAKER_BIND_TO_PORT=str(low))
    assert {found.http, found.grpc}.isdisjoint({low, taken})


def test_too_small_a_range_is_a_clear_error(taken: int) -> None:
    """The message says how many ports are needed and how many there were."""
    with pytest.raises(PortsExhausted, match="needs 3 ports of its own") as caught:
        ports_for(**METRICS, SAGEMAKER_SAFE_PORT_RANGE=f"{taken}-{taken}")
    assert (caught.value.needed, caught.value.found) == (3, 0)


def test_a_fixed_port_counts_as_taken() -> None:
    """The ports that are found never are the ones that were asked for."""
    fixed = {"SAGEMAKER_TRITON_ALLOW_GRPC": "true", "SAGEMAKER_TRITON_GRPC_PORT": "21000"}
    found = ports_for(**fixed, SAGEMAKER_SAFE_PORT_RANGE="21000-21999")
    assert found.grpc == 21000
    assert found.http != 21000
