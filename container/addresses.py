"""tritonserver's addresses: Unix sockets, but for the ports that the environment asks for.

A socket lies in the container's own directory, which nobody else may enter. No other process takes
it, and no model asks it by accident, as it may a port of loopback.
"""

from __future__ import annotations

import itertools
import os
import re
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from container.errors import PortsExhausted, SocketPathLong, WorkDirUnfit
from container.settings.reading import Settings
from container.settings.values import PortRange

LOOPBACK = "127.0.0.1"
#: Bytes of a Unix socket's path (unix(7): 108 with the NUL at its end).
LONGEST_PATH = 107
#: tritonserver appends the gRPC port to the path, and wants one.
_GRPC_NUMBER = 1
#: The shell by which the Python backend starts its stubs reads the path unquoted, gRPC takes a
#: comma for the end of an address, and the stub takes no path that is not ASCII.
_UNFIT = re.compile(r"[^A-Za-z0-9@%+=:./_-]")


@dataclass(frozen=True)
class Addresses:
    """A path is a Unix socket's, a number a port of loopback; no metrics where they are off."""

    http: Path
    grpc: Path | int
    metrics: Path | int | None

    @property
    def grpc_target(self) -> str:
        """The address as gRPC's clients take it."""
        if isinstance(self.grpc, int):
            return f"{LOOPBACK}:{self.grpc}"
        return f"{_write_grpc_path(self.grpc)}:{_GRPC_NUMBER}"

    @property
    def socket_files(self) -> tuple[Path, ...]:
        """What a killed tritonserver leaves, and the next one cannot listen on."""
        return tuple(it for it in (self.http, self.metrics) if isinstance(it, Path))

    def listening_options(self) -> Sequence[str]:
        """tritonserver's options. It is to be one that knows --metrics-address, if there are any.

        Without an address of their own, metrics would be told at HTTP's.
        """
        options = [f"--http-address=unix:{self.http}"]
        if isinstance(self.grpc, int):
            options += [f"--grpc-address={LOOPBACK}", f"--grpc-port={self.grpc}"]
        else:
            options += [
                f"--grpc-address={_write_grpc_path(self.grpc)}",
                f"--grpc-port={_GRPC_NUMBER}",
            ]
        options.append("--allow-grpc=true")  # over HTTP a load blocks a thread of the invocations
        options.append(f"--allow-metrics={str(self.metrics is not None).lower()}")
        if isinstance(self.metrics, int):
            options += [f"--metrics-address={LOOPBACK}", f"--metrics-port={self.metrics}"]
        elif self.metrics is not None:
            options.append(f"--metrics-address=unix:{self.metrics}")
        return options


def choose_addresses(settings: Settings, folder: Path) -> Addresses:
    """The sockets lie in `folder`, which is there, and is to be the container's alone.

    Chosen once for the life of the container, so that a restarted tritonserver is found where it
    was. Raises SocketPathLong, WorkDirUnfit, and PortsExhausted when the safe range is too small
    for the ports that were asked for.
    """
    folder = folder.absolute()
    _check_length(folder)
    if unfit := _UNFIT.search(str(folder)):
        raise WorkDirUnfit(folder, unfit[0])
    fixed_ports = {"grpc": settings.grpc_port} if settings.allow_grpc else {}
    if settings.allow_metrics:
        fixed_ports["metrics"] = settings.metrics_port
    taken = {settings.bind_port, *filter(None, fixed_ports.values())}
    missing = [kind for kind, port in fixed_ports.items() if port is None]
    free = dict(zip(missing, _find(settings.safe_port_range, taken, len(missing)), strict=True))
    ports = {kind: port or free[kind] for kind, port in fixed_ports.items()}
    shown = settings.metrics or settings.publish_metrics
    return Addresses(
        folder / "http",
        ports.get("grpc") or folder / "grpc",
        ports.get("metrics") or (folder / "metrics" if shown else None),
    )


def _write_grpc_path(path: Path) -> str:
    """As gRPC reads an address, on either side: as a URI, where `%` means something."""
    return f"unix:{quote(os.fsencode(path))}"


def _check_length(folder: Path) -> None:
    longest = max(len(f"/grpc:{_GRPC_NUMBER}"), len("/metrics"))
    size = len(os.fsencode(folder)) + longest
    if size > LONGEST_PATH:
        raise SocketPathLong(folder, size - LONGEST_PATH)


def is_bindable(port: int) -> bool:
    """Whether a server could listen on loopback there now (TIME_WAIT does not count)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _find(safe: PortRange | None, taken: Collection[int], count: int) -> list[int]:
    if not count:
        return []
    assert safe is not None, "without a range, the ports that are asked for have numbers"
    bindable = (port for port in safe if port not in taken and is_bindable(port))
    ports = list(itertools.islice(bindable, count))
    if len(ports) < count:
        raise PortsExhausted(safe.low, safe.high, count, len(ports))
    return ports
