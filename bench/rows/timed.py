"""What several rows time alike: a load, and wrk's p50 and rate."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench import wrk
from bench.payloads import Payload
from bench.proc import is_alive
from bench.servers import BareTriton, Container, SageMakerServer, Side, wait_until


def time_load(
    side: Side,
    server: SageMakerServer | BareTriton,
    model: str,
    payload: Payload,
    look: Callable[[], object] = lambda: None,
) -> float:
    """A load that is timed, then checked by an invocation, looked at, and undone."""
    stubs = {stub.pid for stub in server.stubs()}
    started = time.perf_counter()
    server.load(model)
    took = time.perf_counter() - started
    side.check(model, payload, "after a load")
    look()
    own = {stub.pid for stub in server.stubs()} - stubs
    server.unload(model)
    wait_until(lambda: not any(map(is_alive, own)), f"{side.name}: {model}'s processes are gone")
    if isinstance(server, Container):  # the next load of that name would wait for it
        wait_until(lambda: model not in server.published, f"{side.name}: {model} is gone")
    return took


def measure_p50(target: wrk.Target, seconds: float) -> float:
    """On one connection."""
    return wrk.run(target, seconds).p50


def measure_rate(target: wrk.Target, seconds: float) -> float:
    """Requests a second on sixteen connections."""
    return wrk.run(target, seconds, connections=16).per_second
