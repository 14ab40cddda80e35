"""Where tritonserver listens."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import grpc
import pytest

from container.addresses import Addresses, choose_addresses, is_bindable
from container.errors import PortsExhausted, SocketPathLong, WorkDirUnfit
from container.settings.reading import read_settings

METRICS = {"SAGEMAKER_TRITON_ALLOW_METRICS": "true"}
GRPC = {"SAGEMAKER_TRITON_ALLOW_GRPC": "true"}
FOLDER = Path("/w")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that someone listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def addresses_for(**environment: str) -> Addresses:
    return choose_addresses(read_settings(environment), FOLDER)


SOCKETS = Addresses(FOLDER / "http", FOLDER / "grpc", FOLDER / "metrics")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, SOCKETS),
        ({"SERVE_METRICS": "off"}, replace(SOCKETS, metrics=None)),
        ({"SAGEMAKER_SAFE_PORT_RANGE": "21000-21001"}, SOCKETS),
        (METRICS, replace(SOCKETS, metrics=8002)),
        ({**METRICS, "SERVE_METRICS": "off"}, replace(SOCKETS, metrics=8002)),
        (GRPC, replace(SOCKETS, grpc=8001)),
        ({**GRPC, "SAGEMAKER_TRITON_GRPC_PORT": "9001"}, replace(SOCKETS, grpc=9001)),
        ({"SAGEMAKER_TRITON_GRPC_PORT": "9001"}, SOCKETS),
        (
            {
                "SERVE_METRICS": "off",
                "SAGEMAKER_TRITON_PUBLISH_METRICS_TO_CLOUDWATCH": "true",
                "SAGEMAKER_TRITON_LOG_GROUP": "g",
                "SAGEMAKER_TRITON_METRIC_NAMESPACE": "n",
            },
            SOCKETS,
        ),
    ],
)
def test_a_port_is_there_where_it_is_asked_for(
    environment: dict[str, str], expected: Addresses
) -> None:
    """And nowhere else."""
    assert addresses_for(**environment) == expected


def test_the_safe_range_holds_the_ports() -> None:
    """Metrics and gRPC leave their usual ports when a range is set."""
    found = addresses_for(**METRICS, **GRPC, SAGEMAKER_SAFE_PORT_RANGE="21000-21999")
    ports = {found.grpc, found.metrics}
    assert len(ports) == 2
    assert all(isinstance(it, int) and 21000 <= it <= 21999 for it in ports)


def test_ports_in_use_and_the_main_port_are_passed_over(taken: int) -> None:
    """Only bindable ports of the range are given out, and none that was asked for by its number."""
    assert not is_bindable(taken)
    low, high = taken - 1, taken + 40
    fixed = {**METRICS, "SAGEMAKER_TRITON_METRICS_PORT": str(taken + 1)}
    safe = {"SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{high}", "SAGEMAKER_BIND_TO_PORT": str(low)}
    found = addresses_for(**GRPC, **fixed, **safe)
    assert found.metrics == taken + 1
    assert found.grpc not in (low, taken, taken + 1)


def test_too_small_a_range_is_a_clear_error(taken: int) -> None:
    """The message says how many ports are asked for and how many there were."""
    with pytest.raises(PortsExhausted, match="2 ports are asked for") as caught:
        addresses_for(**METRICS, **GRPC, SAGEMAKER_SAFE_PORT_RANGE=f"{taken}-{taken}")
    assert (caught.value.needed, caught.value.found) == (2, 0)


@pytest.mark.parametrize("name", ["a%20b", "a%b", "a:1", "a+b@c=d"])
def test_grpc_listens_in_the_folder_whatever_its_name(name: str, tmp_path: Path) -> None:
    """gRPC reads the address that tritonserver is given, and its client's, as a URI."""
    folder = tmp_path / name
    folder.mkdir()
    addresses = choose_addresses(read_settings({}), folder)
    options = dict(option.split("=", 1) for option in addresses.listening_options())
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_insecure_port(f"{options['--grpc-address']}:{options['--grpc-port']}")
    server.start()
    try:
        assert [it.is_socket() for it in folder.iterdir()] == [True]
        with grpc.insecure_channel(addresses.grpc_target) as channel:
            grpc.channel_ready_future(channel).result(timeout=60)
    finally:
        server.stop(None).wait()


@pytest.mark.parametrize(
    "unfit", [" ", ",", "'", "&", "$", "`", ";", "(", "*", "?", "#", "\\", "\n", "é", "\udce9"]
)
def test_a_path_with_which_no_model_would_load(unfit: str) -> None:
    """It is refused at the start, and not by each load, or by none that ever ends."""
    with pytest.raises(WorkDirUnfit, match="TMPDIR") as caught:
        choose_addresses(read_settings({}), Path(f"/tmp/a{unfit}b/serve-x"))
    assert caught.value.found == unfit


@pytest.mark.parametrize("too_many", [0, 1, 30])
def test_a_path_is_too_long_for_a_socket(too_many: int, tmp_path: Path) -> None:
    """It is held against the kernel itself: one byte less can be bound."""
    room = 107 - len("/metrics") - len(os.fsencode(tmp_path)) - 1
    folder = tmp_path / ("x" * (room + too_many))
    folder.mkdir()
    settings = read_settings({})
    with socket.socket(socket.AF_UNIX) as probe:
        if too_many:
            with pytest.raises(OSError, match="too long"):
                probe.bind(str(folder / "metrics"))
            with pytest.raises(SocketPathLong, match=f"{too_many} bytes longer .*TMPDIR"):
                choose_addresses(settings, folder)
        else:
            probe.bind(str(choose_addresses(settings, folder).metrics))
