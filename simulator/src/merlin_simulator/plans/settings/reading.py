"""PLAN.toml into settings. What is wrong raises UnusableFile with its line and column."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from merlin_simulator.planning.archives import Figures
from merlin_simulator.plans.bounds import MOST_CORES, MOST_INSTANCES, MOST_MODELS, MOST_RPS
from merlin_simulator.plans.calibration.from_report import make_figures
from merlin_simulator.plans.errors import Impossible, shown
from merlin_simulator.plans.instance_types.prices import read_prices
from merlin_simulator.plans.instance_types.table import InstanceType, find_instance_type
from merlin_simulator.plans.reports import read_report
from merlin_simulator.plans.settings.settings import (
    Autoscaling,
    Container,
    Demand,
    Goals,
    Kind,
    PlanSettings,
)
from merlin_simulator.plans.settings.toml_file import Table, TomlFile
from merlin_simulator.plans.waves import HOUR_S, Burst, Wave
from merlin_simulator.rules import CacheSetting

#: Eleven years.
_MOST_HOURS = 100_000.0
_MOST_FACTOR = 1_000.0
#: Sources of figures that a plan took once, and what says as much now.
_FORMER_SOURCES = ("verify", "metrics")
#: Requests of one model, loads of one instance.
_MOST_AT_ONCE = 10_000
#: An instance type's; SageMaker's have 20 or so.
_MOST_NAME = 63
_TABLES = (
    "demand",
    "archives",
    "container",
    "instances",
    "instance_types",
    "autoscaling",
    "rules",
    "goals",
    "seed",
    "prices",
)


def read_settings(path: Path) -> PlanSettings:
    """Of a PLAN.toml."""
    file = TomlFile(path)
    file.finish(_TABLES)
    kinds, base = _read_archives(file)
    types = _read_types(file)
    return PlanSettings(
        _read_demand(file),
        kinds,
        types,
        _read_counts(file),
        _read_container(file, base),
        _read_autoscaling(file),
        _read_goals(file),
        _read_rules(file),
        _read_top(file, "prices", lambda table: read_prices(table.file("prices"))),
        file.top().whole("seed", 1, most=10**18),
    )


def _read_top(file: TomlFile, key: str, read: Callable[[Table], Any]) -> Any:
    return read(file.top()) if key in file else None


def _read_demand(file: TomlFile) -> Demand:
    table = file.table("demand", without="bursts")
    default = Demand()
    hours = table.more_than_nothing("hours", default.hours, most=_MOST_HOURS)
    demand = Demand(
        table.whole("models", default.models, least=1, most=MOST_MODELS),
        table.number("zipf", default.zipf, most=_MOST_FACTOR),
        table.more_than_nothing("rps", default.rps, most=MOST_RPS),
        hours,
        Wave(
            _factors(table, "hours_of_day", 24),
            _factors(table, "days_of_week", 7),
            [_read_burst(burst, hours) for burst in file.tables("demand.bursts")],
        ),
        table.number("new_models_a_day", 0.0),
        table.file("trace") if "trace" in table else None,
        table.file("cloudwatch") if "cloudwatch" in table else None,
    )
    if demand.trace and demand.cloudwatch:
        table.refuse("cloudwatch", "found beside trace, expected one of the two")
    table.finish()
    return demand


def _factors(table: Table, key: str, most: int) -> Sequence[float]:
    if key not in table:
        return (1.0,)
    found = table.numbers(key, most=most)
    if not any(found):
        table.refuse(key, "found only zeros, expected a rate above 0 at some time")
    if len(found) != most:
        table.refuse(key, f"found {len(found)} numbers, expected {most}")
    return found


def _read_burst(table: Table, hours: float) -> Burst:
    burst = Burst(
        table.number("at_hour", None) * HOUR_S,
        table.more_than_nothing("minutes", None) * 60.0,
        table.number("factor", None, most=_MOST_FACTOR),
    )
    if burst.at_s >= hours * HOUR_S:
        table.refuse("at_hour", f"found a burst after the end, which is at {hours:g} hours")
    table.finish()
    return burst


def _read_archives(file: TomlFile) -> tuple[list[Kind], int]:
    """And the memory that a container uses beside its models, where a report tells it."""
    tables = file.tables("archives")
    if not tables:
        file.top().refuse(None, "found no [[archives]], expected one or more")
    kinds: list[Kind] = []
    base = 0
    for number, table in enumerate(tables):
        match = table.text("match", None) if "match" in table else None
        figures, used, source = _read_figures(table, f"kind-{number}")
        base = max(base, used)
        changes = _read_changes(table)
        changed = [_change(table, one, changes) for one in figures]
        table.finish()
        if changes and source:
            source += f"; {', '.join(changes)} by hand"
        kinds += [Kind(one, match, source or Kind.source) for one in changed]
    return kinds, base


def _read_figures(table: Table, name: str) -> tuple[list[Figures], int, str]:
    """And what the container uses, and where all of it is from; empty: from the table itself."""
    for former in _FORMER_SOURCES:
        if former in table:
            table.refuse(
                former,
                "found a source that plans take no more, expected report, the report.json of a "
                "replay, or memory, load_s and service_s by hand",
            )
    if "report" in table:
        report = read_report(table.file("report"))
        return make_figures(report), report.base_memory, report.source
    nothing = (0.0,)
    memory, loads = table.size("memory", None), table.numbers("load_s")
    return [Figures(name, memory, 0, nothing, loads, nothing, nothing)], 0, ""


def _read_changes(table: Table) -> dict[str, Any]:
    """The table's own keys, which go above what a source says."""
    changes: dict[str, Any] = {}
    for key in ("memory", "disk", "gpu_memory"):
        if key in table:
            changes[key] = table.size(key, None)
    for key, name in (
        ("download_s", "downloads"),
        ("load_s", "loads"),
        ("unload_s", "unloads"),
        ("service_s", "services"),
        ("first_answer_s", "firsts"),
    ):
        if key in table:
            changes[name] = tuple(sorted(table.numbers(key)))
    if "load_cores" in table:
        changes["load_cores"] = table.more_than_nothing("load_cores", None, most=MOST_CORES)
    if "concurrency" in table:
        changes["concurrency"] = table.whole("concurrency", None, least=1, most=_MOST_AT_ONCE)
    return changes


def _change(table: Table, figures: Figures, changes: Mapping[str, Any]) -> Figures:
    changed = replace(figures, **changes)
    if not any(changed.services):
        table.refuse(None, "found no service_s, expected the seconds of a warm request")
    return changed


def _read_container(file: TomlFile, base: int) -> Container:
    table, default = file.table("container"), Container()
    container = Container(
        table.size("base_memory", base),
        table.size("base_gpu_memory", 0),
        table.size("disk", None) if "disk" in table else None,
        table.number("ready_s", default.ready_s),
        table.more_than_nothing("speed", default.speed, most=_MOST_FACTOR),
    )
    table.finish()
    return container


def _read_types(file: TomlFile) -> list[InstanceType]:
    own = {}
    for table in file.tables("instance_types"):
        one = InstanceType(
            _read_name(table),
            table.whole("cores", None, least=1, most=MOST_CORES),
            table.size("memory", None),
            table.size("gpu_memory", None) if "gpu_memory" in table else None,
        )
        table.finish()
        own[one.name] = one
    table = file.table("instances")
    if "types" not in table:
        return list(own.values())
    found = []
    for name in table.texts("types"):
        try:
            found.append(own.get(name) or find_instance_type(name))
        except Impossible as error:
            table.refuse("types", str(error))
    return found


def _read_name(table: Table) -> str:
    name = table.text("name", None)
    if not name.isprintable() or len(name) > _MOST_NAME:
        expected = f"one line of at most {_MOST_NAME} characters"
        table.refuse("name", f"found {shown(name)}, expected {expected}")
    return name


def _read_counts(file: TomlFile) -> tuple[int, ...]:
    table = file.table("instances")
    counts = table.wholes("counts", most=MOST_INSTANCES) if "counts" in table else (1,)
    if "counts" in table and "autoscaling" in file:
        table.refuse("counts", "found beside [autoscaling], whose bounds say how many; leave one")
    if "types" in table:
        table.texts("types")
    table.finish()
    return counts


def _read_autoscaling(file: TomlFile) -> Autoscaling | None:
    if "autoscaling" not in file:
        return None
    table = file.table("autoscaling")
    found = []
    for text in table.texts("bounds"):
        ends = re.fullmatch(r"([0-9]{1,9})-([0-9]{1,9})", text)
        if ends is None or not 1 <= int(ends[1]) <= int(ends[2]) <= MOST_INSTANCES:
            expected = f'the least and the most as "1-4", up to {MOST_INSTANCES}'
            table.refuse("bounds", f"found {shown(text)}, expected {expected}")
        found.append((int(ends[1]), int(ends[2])))
    scaling = Autoscaling(
        table.more_than_nothing("target", None),
        found,
        table.number("out_cooldown_s", 300.0),
        table.number("in_cooldown_s", 300.0),
    )
    table.finish()
    return scaling


def _read_goals(file: TomlFile) -> Goals:
    table = file.table("goals")
    goals = Goals(
        *(
            table.number(field.name, None) if field.name in table else None
            for field in fields(Goals)
        )
    )
    for name in ("cold_share", "failures"):
        value = getattr(goals, name)
        if value is not None and value > 1:
            table.refuse(name, f"found {value:g}, expected a share from 0 to 1")
    table.finish()
    return goals


def _read_rules(file: TomlFile) -> dict[str, Any]:
    table = file.table("rules")
    found: dict[str, Any] = {}
    if "memory_threshold" in table:
        found["memory_threshold"] = table.more_than_nothing("memory_threshold", None, most=1.0)
    for key in ("cold_wait_s", "invoke_timeout_s", "load_timeout_s"):
        if key in table:
            found[key] = table.more_than_nothing(key, None)
    for key in ("busy_at", "loads_at_once", "evictions_per_call"):
        if key in table:
            found[key] = table.whole(key, None, least=1, most=_MOST_AT_ONCE)
    if "cache" in table:
        settings = [setting.value for setting in CacheSetting]
        word = table.text("cache", None)
        if word not in settings:
            table.refuse("cache", f"found {shown(word)}, expected {' or '.join(settings)}")
        found["cache"] = CacheSetting(word)
    table.finish()
    return found
