"""Which ports tritonserver gets; all of them listen on loopback."""

from __future__ import annotations

import contextlib
import itertools
import logging
import random
import socket
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from container.errors import PortsExhausted
from container.settings.reading import Settings
from container.settings.values import PortRange

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
LOWEST_FREE_PORT = 10_000  # below lie the well-known ones, ours and Triton's defaults
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
USUAL_EPHEMERAL_LOW = 32_768  # Linux' default, where /proc does not say


@dataclass(frozen=True)
class Ports:
    """tritonserver's ports on loopback; no metrics port where metrics are off."""

    http: int
    grpc: int
    metrics: int | None


def choose_ports(settings: Settings) -> Ports:
    """Keeps the fixed ports and finds bindable ones for the rest.

    The ports are chosen once for the life of the container, so that a restarted tritonserver is
    found where it was. Raises PortsExhausted when the safe range is too small.
    """
    fixed = {"http": None, "grpc": settings.grpc_port}
    if settings.allow_metrics:
        fixed["metrics"] = settings.metrics_port
    if settings.metrics and not settings.allow_metrics:
        with contextlib.suppress(PortsExhausted):
            return _choose(settings, {**fixed, "metrics": None})
        log.warning(
            "SAGEMAKER_SAFE_PORT_RANGE has no port left for tritonserver's own metrics, which are "
            "not on the metrics page then; widen it by one"
        )
    return _choose(settings, fixed)


def _choose(settings: Settings, fixed: Mapping[str, int | None]) -> Ports:
    taken = {settings.bind_port, *filter(None, fixed.values())}
    missing = [kind for kind, port in fixed.items() if port is None]
    free = dict(zip(missing, _find(settings.safe_port_range, taken, len(missing)), strict=True))
    chosen = {kind: port or free[kind] for kind, port in fixed.items()}
    return Ports(chosen["http"], chosen["grpc"], chosen.get("metrics"))


def is_bindable(port: int) -> bool:
    """Whether a server could listen on loopback there now (TIME_WAIT does not count)."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def _find(safe: PortRange | None, taken: set[int], count: int) -> list[int]:
    searched = safe or _free_range()
    candidates: Iterable[int] = searched if safe else _start_anywhere(searched)
    bindable = (p for p in candidates if p not in taken and is_bindable(p))
    ports = list(itertools.islice(bindable, count))
    if len(ports) < count:
        raise PortsExhausted(searched.low, searched.high, count, len(ports))
    return ports


def _free_range() -> PortRange:
    """Ports below the ephemeral ones.

    An ephemeral port could be taken by any outgoing connection while tritonserver restarts, even
    by our own attempt to reach it (TCP self-connect on loopback).
    """
    try:
        low = int(EPHEMERAL_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        low = USUAL_EPHEMERAL_LOW
    return PortRange(LOWEST_FREE_PORT, max(low - 1, LOWEST_FREE_PORT + 1000))


def _start_anywhere(ports: PortRange) -> Iterator[int]:
    """All, from a random one on, so that containers that start together on one machine do not meet.

    To shuffle them would take a hundred times as long as to find three.
    """
    first = random.randint(ports.low, ports.high)
    return itertools.chain(range(first, ports.high + 1), range(ports.low, first))
