"""What many tenants notice of one that floods, with a limit (SERVE_RATE_LIMIT) and without one."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from bench import payloads, wrk
from bench.measure import Line, ratio_at_most
from bench.payloads import Payload
from bench.rows.row import Row, Run
from bench.servers import SageMakerServer

_TENANTS, _TIMES = 20, 50
#: Requests a second of a tenant as it usually is, and the limit, which leaves it twice that.
_USUAL, _LIMIT = 20, 40
#: On which the flood is sent: where answers are slow, no more than these wait.
_CONNECTIONS = 64
_LATEST_S = 60.0
_GOAL = ratio_at_most(1.5)
#: CPU time of a request of the slow model, in seconds.
_SLOW_S = 0.01
_FLOODING = "tenant-flooding"


@dataclass(frozen=True)
class _Side:
    """A server with its tenants: what the others send, and the flood.

    flood_rates: requests of the flood that were answered or refused in a second, of each round.
    """

    others: wrk.Target
    flood: wrk.Target
    flood_rates: list[float] = field(default_factory=list)

    def measure_p99(self, seconds: float) -> float:
        """Of the others, while nobody floods."""
        return wrk.run(self.others, seconds, _TENANTS - 1).p99

    def measure_flooded_p99(self, seconds: float) -> float:
        """Of the others, beside the flood."""
        with wrk.send_beside(self.flood, _LATEST_S, _CONNECTIONS, may_be_refused=True) as floods:
            p99 = self.measure_p99(seconds)
        self.flood_rates.append(floods[0].per_second)
        return p99


def _measure(kind: str, payload: Payload, request_s: float, run: Run) -> Iterator[Line]:
    archives = run.contenders.archives
    flooding = archives.write_identity(f"{_FLOODING}-{kind.replace(' ', '-')}", request_s=request_s)
    others = [archives.write_identity(f"tenant-{number:02}") for number in range(_TENANTS - 1)]
    limit = {"SERVE_RATE_LIMIT": str(_LIMIT)}
    run.progress(f"loading {_TENANTS} models in each server")
    run.contenders.keep_loaded(flooding, *others)
    with run.contenders.start_ours("limited", limit) as limited:
        for name in (flooding, *others):
            limited.load(name)
        servers = (limited, run.contenders.ours, run.contenders.rival)
        sides = {it.name: _prepare(run, it, flooding, others, payload) for it in servers}
        measures: dict[str, Callable[[], float]] = {}
        for name, side in sides.items():
            measures[f"{name} alone"] = partial(side.measure_p99, run.seconds)
            measures[name] = partial(side.measure_flooded_p99, run.seconds)
        values = run.take_turns(f"a flood of {kind}", measures)
    title = f"small JSON beside a flood of {kind}, p99"
    for name, side in sides.items():
        alone = f"{name} alone"
        shown = {it: values[it] for it in (name, alone)}
        note = f"a flood of {statistics.median(side.flood_rates):.0f}/s"
        if name == "limited":
            yield Line(title, "s", shown, _GOAL, name, alone, note)
        else:
            yield Line(f"the same of {name}: {title}", "s", shown, None, name, alone, note)


def _prepare(
    run: Run, server: SageMakerServer, flooding: str, others: list[str], payload: Payload
) -> _Side:
    """Each model has answered once or more, and its answer was compared."""
    small = payloads.make_small()
    for name in others:
        server.check(name, small, "the others")
    flood = run.prepare_target(server, flooding, payload, "the flood")
    usual = run.prepare_target(server, others[0], small, "the others")
    scripts = f"{server.name}-{server.port}"
    rate, other_rate = _USUAL * _TIMES, _USUAL * len(others)
    return _Side(
        wrk.write_mix(
            usual,
            f"others-{scripts}",
            [f"/models/{name}/invoke" for name in others],
            len(others) / other_rate,
        ),
        wrk.write_mix(
            flood, f"flood-{scripts}", [f"/models/{flooding}/invoke"], _CONNECTIONS / rate
        ),
    )


_HOW = (
    f"{_TENANTS} Python models in Triton's frontend, in the container, and in one with "
    f"SERVE_RATE_LIMIT={_LIMIT}. {_TENANTS - 1} are each sent small JSON, {_USUAL} times a second "
    f"at random; the last is sent {{}}, {_TIMES} times as often, on {_CONNECTIONS} connections, so "
    "less often where answers do not come. The p99 is that of the others; alone is without the "
    "flood. The goal compares the limited container with itself."
)

ROWS = tuple(
    Row(
        f"flood_{name}",
        f"Tenants beside a flood of {kind}",
        _HOW.format(sent),
        partial(_measure, kind, payload, request_s),
    )
    for name, kind, sent, payload, request_s in (
        ("small", "small JSON", "the same", payloads.make_small(), 0.0),
        ("large", "large JSON", "190 KB of JSON", payloads.make_json("FP32", 10_000), 0.0),
        (
            "slow",
            "requests of a slow model",
            f"the same, and uses {_SLOW_S * 1000:g} ms of CPU for each",
            payloads.make_small(),
            _SLOW_S,
        ),
    )
)
