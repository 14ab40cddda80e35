"""What a replay's report.json says of its traffic, its machine and its archives.

Replays write it, plans read it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import PlainValidator as Reads

from merlin_simulator.measuring import values
from merlin_simulator.measuring.values import (
    LEAST,
    MOST_AT_ONCE,
    MOST_BYTES,
    MOST_SECONDS,
    Reader,
)
from merlin_simulator.rules import CacheSetting

FORMAT = 1

#: Quantiles of seconds, at equal steps from the least to the most; None: none were seen.
_Seconds = Annotated[tuple[float, ...] | None, Reads(values.quantiles)]
#: The end of the year 9999, in seconds since 1970: later dates have no name.
_LATEST_S = 253_402_300_799.0


def read_cache(value: Any) -> CacheSetting:
    """ModelCacheSetting. Raises ValueError."""
    if value not in [setting.value for setting in CacheSetting]:
        values.refuse(value, " or ".join(setting.value for setting in CacheSetting))
    return CacheSetting(value)


def _checked(read: Reader) -> Reader:
    """A text that stays as it is, after it was read."""

    def check(value: Any) -> str:
        read(values.text(value))
        return str(value)

    return check


@dataclass(frozen=True)
class RuleChanges:
    """Rules of an endpoint that differ from the platform's, or were seen; None: as there."""

    cache: Annotated[CacheSetting | None, Reads(read_cache)] = None
    memory_threshold: Annotated[float | None, Reads(values.positive(1.0))] = None
    cold_wait_s: Annotated[float | None, Reads(values.positive())] = None
    invoke_timeout_s: Annotated[float | None, Reads(values.positive())] = None
    load_timeout_s: Annotated[float | None, Reads(values.positive())] = None
    busy_at: Annotated[int | None, Reads(values.whole(1, MOST_AT_ONCE))] = None
    loads_at_once: Annotated[int | None, Reads(values.whole(1, MOST_AT_ONCE))] = None
    evictions_per_call: Annotated[int | None, Reads(values.whole(1, MOST_AT_ONCE))] = None

    def as_dict(self) -> dict[str, Any]:
        """Those that are given, for dataclasses.replace."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class ReportSettings:
    """The replay's settings."""

    models: Annotated[int, Reads(values.whole(1, values.MOST_MODELS))]
    zipf: Annotated[float, Reads(values.number(most=1000.0))]
    rps: Annotated[float, Reads(values.number(LEAST, values.MOST_RPS))]
    duration_s: Annotated[float, Reads(values.number(LEAST, MOST_SECONDS))]
    seed: Annotated[int, Reads(values.whole(0, values.MOST_SEED))]
    outstanding: Any = None
    #: None where the endpoint ran already, as far as limits are known.
    instances: Annotated[int | None, Reads(values.whole(1, values.MOST_INSTANCES))] = None
    memory: Annotated[str | None, Reads(_checked(values.size))] = None
    disk: Annotated[str | None, Reads(_checked(values.size))] = None
    cache: Annotated[str | None, Reads(_checked(read_cache))] = None
    model: Any = None
    endpoint: Any = None
    endpoint_name: Any = None
    #: Whose requests were sent, in the place of drawn ones.
    capture: Any = None
    speed: Any = None


@dataclass(frozen=True)
class SeenArchive:
    """Figures of one kind of archive."""

    memory_bytes: Annotated[int | None, Reads(values.whole(0, MOST_BYTES))] = None
    disk_bytes: Annotated[int | None, Reads(values.whole(0, MOST_BYTES))] = None
    fetch_s: _Seconds = None
    load_work_s: _Seconds = None
    #: As the loads began.
    load_work_in_order_s: Annotated[tuple[float, ...], Reads(values.numbers)] = ()
    unload_s: _Seconds = None
    first_answer_s: _Seconds = None
    warm_s: _Seconds = None


@dataclass(frozen=True)
class Calibration:
    """Measured figures for plans."""

    #: Of a container without a model.
    base_memory_bytes: Annotated[int | None, Reads(values.whole(0, MOST_BYTES))] = None
    #: How much of a model is there on average while it is loaded.
    loading_memory_share: Annotated[float | None, Reads(values.number(most=1.0))] = None
    kinds: list[SeenArchive] = field(default_factory=list)
    rules: RuleChanges | None = None


@dataclass(frozen=True)
class Machine:
    """Whose figures they are."""

    cpu: Annotated[str | None, Reads(values.text)] = None
    cores: Annotated[int, Reads(values.whole(1, values.MOST_CORES))] = 1
    memory_bytes: Any = None
    system: Any = None


@dataclass(frozen=True)
class Report:
    """A report, as far as plans read it."""

    settings: ReportSettings
    calibration: Calibration
    machine: Machine = field(default_factory=Machine)
    started: Annotated[float, Reads(values.number(most=_LATEST_S))] = 0.0  # seconds since 1970
