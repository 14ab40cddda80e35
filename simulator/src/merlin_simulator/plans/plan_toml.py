"""PLAN.toml into settings. What is wrong raises UnusableFile with its line and column."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NoReturn

from merlin_simulator.measuring.quantities import read_room
from merlin_simulator.planning.demand import Figures
from merlin_simulator.plans.files import (
    LEAST,
    MOST_BYTES,
    MOST_CORES,
    MOST_INSTANCES,
    MOST_MODELS,
    MOST_PLAN_BYTES,
    MOST_RPS,
    MOST_SECONDS,
    Impossible,
    UnusableFile,
    read_text,
    shown,
)
from merlin_simulator.plans.instance_types import InstanceType, find_instance_type, read_prices
from merlin_simulator.plans.report import make_figures, read_report
from merlin_simulator.plans.settings import (
    HOUR_S,
    Autoscaling,
    Burst,
    Container,
    Demand,
    Goals,
    Kind,
    PlanSettings,
    Wave,
)
from merlin_simulator.rules import CacheSetting

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Line and column from 1 on; which table of that name, from 0 on.
Place = tuple[int, int]
_Which = tuple[str, int]
#: No archive and no instance is smaller; a number below it is one of MB.
_LEAST_BYTES = 10_000

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\-]+)\s*\]\]?")
#: A key a.a.a… takes its length squared of memory; a list of numbers may have as many dots.
_MOST_DOTS = 500
_NUMBER = re.compile(r"(?<![\w.\"'])-?[0-9]+\.[0-9eE+-]+(?=\s*(?:,|\]|$))")
_RANGE = re.compile(r"([0-9]{1,9})-([0-9]{1,9})")
_KEY = re.compile(r"(\s*)([A-Za-z0-9_\-]+)\s*=")


class Table:
    """A table of the file. Each value is asked for by its key; finish() refuses those that nobody
    asked for. What is wrong raises UnusableFile with its place.
    """

    def __init__(
        self,
        path: Path,
        name: str,
        values: Mapping[str, Any],
        places: Mapping[str, Place],
        place: Place | None,
    ) -> None:
        self._path, self._name, self._values = path, name, values
        self._places, self._place, self._asked = places, place, set[str]()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def refuse(self, key: str | None, subject: str) -> NoReturn:
        """Raise UnusableFile at the key's place, or the table's."""
        place = self._places.get(key, self._place) if key else self._place
        line, column = place or (None, None)
        table = f"[{self._name}]: " if self._name else ""
        name = f"{self._name}.{key}: ".lstrip(".") if key else table
        raise UnusableFile(self._path, name + subject, line, column)

    def number(
        self, key: str, default: float | None, *, least: float = 0.0, most: float = MOST_SECONDS
    ) -> float:
        """Between these, which are meant, too."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"found {shown(value)}, expected a number")
        if not least <= value <= most:
            expected = f"a number from {least:g} to {most:g}"
            self.refuse(key, f"found {shown(value)}, expected {expected}")
        return float(value)

    def more_than_nothing(
        self, key: str, default: float | None, *, most: float = MOST_SECONDS
    ) -> float:
        """A number above 0."""
        value = self.number(key, default, most=most)
        if value < LEAST:
            self.refuse(key, f"found {value:g}, expected more than 0, {LEAST:g} or above")
        return value

    def whole(self, key: str, default: int | None, *, most: int, least: int = 0) -> int:
        """A whole number between these, which are meant, too."""
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            expected = f"a whole number from {least} to {most}"
            self.refuse(key, f"found {shown(value)}, expected {expected}")
        return value

    def text(self, key: str, default: str | None) -> str:
        """Not empty."""
        value = self._get(key, default)
        if not isinstance(value, str) or not value:
            self.refuse(key, f"found {shown(value)}, expected a text")
        return value

    def file(self, key: str) -> Path:
        """Beside the file that names it."""
        return self._path.parent / self.text(key, None)

    def size(self, key: str, default: int | None) -> int:
        """Bytes, of a text as 4GB or of a number; a small one lacks its unit."""
        value = self._get(key, default)
        if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _LEAST_BYTES:
            self.refuse(key, f'found {value} bytes, expected a size such as "{value}MB"')
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_BYTES:
            return value
        try:
            room = read_room(value)
        except (ValueError, TypeError, AttributeError):
            room = MOST_BYTES + 1
        if room > MOST_BYTES:
            self.refuse(key, f"found {shown(value)}, expected a size such as 4GB or 512MB")
        return room

    def numbers(self, key: str, *, most: int | None = None) -> tuple[float, ...]:
        """One number or a list of them, each from 0 on and finite."""
        value = self._get(key, None)
        found = value if isinstance(value, list) else [value]
        if not found or (most is not None and len(found) > most):
            few = "one or more" if most is None else f"1 to {most}"
            self.refuse(key, f"found {len(found)} numbers, expected {few}")
        for one in found:
            if (
                isinstance(one, bool)
                or not isinstance(one, int | float)
                or not 0 <= one <= MOST_SECONDS
            ):
                expected = f"numbers from 0 to {MOST_SECONDS:g}"
                self.refuse(key, f"found {shown(one)}, expected {expected}")
        return tuple(float(one) for one in found)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        value = self._get(key, None)
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self.refuse(key, f"found {shown(value)}, expected a list of texts")
        return tuple(value)

    def wholes(self, key: str, *, most: int) -> tuple[int, ...]:
        """A list of whole numbers from 1 on, or a text as "1-4"."""
        value = self._get(key, None)
        if isinstance(value, str) and (match := _RANGE.fullmatch(value)):
            first, last = int(match[1]), int(match[2])
            numbers = list(range(first, last + 1)) if last <= most else []
        else:
            numbers = value if isinstance(value, list) else []
        if not numbers or any(type(one) is not int or not 1 <= one <= most for one in numbers):
            expected = f'numbers from 1 to {most}, as [1, 2] or "1-4"'
            self.refuse(key, f"found {shown(value)}, expected {expected}")
        return tuple(numbers)

    def finish(self) -> None:
        """Refuse what nobody has asked for."""
        for key in self._values:
            if key not in self._asked:
                hint = _hint(key, self._asked)
                self.refuse(key, f"found a key that is not known here; {hint}")

    def _get(self, key: str, default: Any) -> Any:
        self._asked.add(key)
        value = self._values.get(key, default)
        if value is None:
            self.refuse(None, f"found no {key}, expected one")
        return value


class TomlFile:
    """The whole file. Raises UnusableFile for what is no TOML."""

    def __init__(self, path: Path) -> None:
        self._path = path
        text = read_text(path, "expected a PLAN.toml", MOST_PLAN_BYTES)
        for number, line in enumerate(text.splitlines(), 1):
            if _NUMBER.sub("", line).count(".") > _MOST_DOTS:
                subject = f"found more than {_MOST_DOTS} dots in a line, expected them in several"
                raise UnusableFile(path, subject, number)
        try:
            self._values = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            place = (int(where[1]), int(where[2])) if where else (None, None)
            message = str(error)[: where.start()] if where else str(error)
            raise UnusableFile(path, f"it is no TOML: {message}", *place) from error
        except RecursionError as error:
            subject = "found values inside of values, too deep to be read, expected two levels"
            raise UnusableFile(path, subject) from error
        except ValueError as error:  # int() of thousands of digits
            raise UnusableFile(path, "found a number of thousands of digits") from error
        self._headers, self._keys = _find_places(text)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def top(self) -> Table:
        """What stands above all tables."""
        return self._table("", 0, self._values)

    def table(self, name: str, *, without: str | None = None) -> Table:
        """[name]; an empty one where it is not there. without: a key whose tables are asked for
        by tables()."""
        value = self._values.get(name, {})
        if not isinstance(value, dict):
            Table(self._path, "", {}, self._keys.get(("", 0), {}), None).refuse(
                name, f"found {shown(value)}, expected a table [{name}]"
            )
        flat = {key: one for key, one in value.items() if key != without}
        return self._table(name, 0, flat)

    def tables(self, name: str) -> list[Table]:
        """[[name]], in order; name may be that of a table and one of its keys."""
        value: Any = self._values
        for part in name.split("."):
            value = value.get(part, {}) if isinstance(value, dict) else {}
        if not value:
            return []
        if not _is_tables(value):
            self.table(name.split(".")[0]).refuse(None, f"expected [[{name}]], a table of each")
        return [self._table(name, place, one) for place, one in enumerate(value)]

    def finish(self, known: tuple[str, ...]) -> None:
        """Refuse tables that are not known."""
        for name in self._values:
            if name not in known:
                places = {name: self._headers.get((name, 0), (1, 1))}
                places.update(self._keys.get(("", 0), {}))
                Table(self._path, "", {}, places, None).refuse(
                    name, f"found a table that is not known; {_hint(name, known)}"
                )

    def _table(self, name: str, place: int, values: Mapping[str, Any]) -> Table:
        keys = self._keys.get((name, place), {})
        return Table(self._path, name, values, keys, self._headers.get((name, place)))


def _hint(found: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(found, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _find_places(text: str) -> tuple[dict[_Which, Place], dict[_Which, dict[str, Place]]]:
    """Where each table begins, and each of its keys stands."""
    headers: dict[_Which, Place] = {}
    keys: dict[_Which, dict[str, Place]] = {("", 0): {}}
    now: _Which = ("", 0)
    counts: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            name = header[2]
            place = counts.get(name, -1) + 1 if header[1] == "[[" else 0
            counts[name] = place
            now = (name, place)
            headers[now] = (number, header.start(1) + 1)
            keys.setdefault(now, {})
        elif key := _KEY.match(line):
            keys[now].setdefault(key[2], (number, len(key[1]) + 1))
    return headers, keys


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
    results: dict[str, Any] = {}
    if "memory_threshold" in table:
        results["memory_threshold"] = table.more_than_nothing("memory_threshold", None, most=1.0)
    for key in ("cold_wait_s", "invoke_timeout_s", "load_timeout_s"):
        if key in table:
            results[key] = table.more_than_nothing(key, None)
    for key in ("busy_at", "loads_at_once", "evictions_per_call"):
        if key in table:
            results[key] = table.whole(key, None, least=1, most=_MOST_AT_ONCE)
    if "cache" in table:
        settings = [setting.value for setting in CacheSetting]
        word = table.text("cache", None)
        if word not in settings:
            table.refuse("cache", f"found {shown(word)}, expected {' or '.join(settings)}")
        results["cache"] = CacheSetting(word)
    table.finish()
    return results
