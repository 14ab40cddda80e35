"""Reads PLAN.toml: all mistakes in it are reported together, each with its line and column."""

from __future__ import annotations

import difflib
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from merlin_simulator.measuring.values import (
    UNKNOWN_KEY,
    Keys,
    Table,
    find_mistakes,
    shown,
    validate,
)
from merlin_simulator.plan_command.files import (
    MOST_PLAN_BYTES,
    Impossible,
    PlanError,
    UnusableFile,
    read_text,
)
from merlin_simulator.plan_command.instance_types import (
    InstanceType,
    find_instance_type,
    read_prices,
)
from merlin_simulator.plan_command.replay_report import make_figures, read_report
from merlin_simulator.plan_command.settings import (
    ArchiveKind,
    ArchiveTable,
    AutoscalingTable,
    BurstTable,
    ContainerTable,
    DemandTable,
    Goals,
    InstancesTable,
    PlanSettings,
    RulesTable,
    TopLevelKeys,
)
from merlin_simulator.simulation.scenario import ArchiveFigures

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Line and column from 1 on.
Position = tuple[int, int]
T = TypeVar("T", bound=Table)

#: The class of each table.
_TABLES: Mapping[str, type[Table]] = {
    "demand": DemandTable,
    "archives": ArchiveTable,
    "container": ContainerTable,
    "instances": InstancesTable,
    "instance_types": InstanceType,
    "autoscaling": AutoscalingTable,
    "rules": RulesTable,
    "goals": Goals,
}
_CLASSES = {**_TABLES, "demand.bursts": BurstTable}
_TOP = [field.name for field in fields(TopLevelKeys)]
#: Sources of figures that a plan took once, and what says as much now.
_FORMER_SOURCES = ("verify", "metrics")
_NOT_ANY_MORE = (
    "found a source that plans take no more, expected report, the report.json of a replay, or "
    "memory, load_s and service_s by hand"
)
#: What figures by hand need.
_NEEDED = {"memory": "one", "load_s": "one", "service_s": "the seconds of a warm request"}
#: Mistakes that are told.
_MOST_TOLD = 20

_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z0-9_.\-]+)\s*\]\]?")
_KEY = re.compile(r"(\s*)([A-Za-z0-9_.\-]+)\s*=")
_BARE_KEY = re.compile(r"[A-Za-z0-9_\-]{1,60}")
#: A key a.a.a… takes its length squared of memory; a list of numbers may have as many dots.
_MOST_DOTS = 500
_NUMBER = re.compile(r"(?<![\w.\"'])-?[0-9]+\.[0-9eE+-]+(?=\s*(?:,|\]|$))")


class WrongPlan(UnusableFile):
    """Mistakes in a PLAN.toml, each in a line."""

    def __init__(self, mistakes: Sequence[UnusableFile]) -> None:
        lines = [str(mistake) for mistake in mistakes[:_MOST_TOLD]]
        if more := len(mistakes) - len(lines):
            lines.append(f"and {more} more")
        PlanError.__init__(self, "\n".join(lines))


def read_settings(path: Path) -> PlanSettings:
    """Of a PLAN.toml, and of the files that it names. Raises WrongPlan, UnusableFile."""
    file = PlanFile(path)
    top, demand = file.read_top(), file.read_table("demand", DemandTable) or DemandTable()
    archives = file.read_tables("archives", ArchiveTable)
    own_types = file.read_tables("instance_types", InstanceType)
    instances = file.read_table("instances", InstancesTable)
    autoscaling = (
        file.read_table("autoscaling", AutoscalingTable) if "autoscaling" in file else None
    )
    container = file.read_table("container", ContainerTable) or ContainerTable()
    rules = file.read_table("rules", RulesTable) or RulesTable()
    goals = file.read_table("goals", Goals) or Goals()
    file.check_demand(demand)
    file.check_archives()
    if instances is not None:
        file.check_counts()
    instances = instances or InstancesTable()
    types = file.find_types(instances, own_types)
    file.finish()
    kinds, base_memory = file.make_kinds(archives)
    file.finish()
    if not file.has("container", "base_memory"):
        container = replace(container, base_memory=base_memory)
    return PlanSettings(
        demand,
        kinds,
        types,
        instances.counts,
        container,
        autoscaling,
        goals,
        rules.as_dict(),
        None if top.prices is None else read_prices(top.prices),
        top.seed,
    )


class PlanFile:
    """A PLAN.toml and the mistakes in it. Raises UnusableFile for what is no TOML."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mistakes: list[tuple[Position | None, str]] = []
        text = read_text(path, "expected a PLAN.toml", MOST_PLAN_BYTES)
        self._document, self._positions = _parse(path, text), _find_positions(text)
        known = [*_TABLES, *_TOP]
        for name in self._document:
            if name not in known:
                self._refuse((name,), f"found a table that is not known; {_hint(name, known)}")

    def __contains__(self, table: str) -> bool:
        return table in self._document

    def has(self, table: str, key: str) -> bool:
        """Whether a key is given."""
        value = self._document.get(table)
        return isinstance(value, dict) and key in value

    def read_top(self) -> TopLevelKeys:
        """Read the keys above all tables."""
        given = {key: self._document[key] for key in _TOP if key in self._document}
        return self._validate(TopLevelKeys, (), given) or TopLevelKeys()

    def read_table(self, name: str, kind: type[T]) -> T | None:
        """[name]; None where it is wrong."""
        return self._validate(kind, (name,), self._document.get(name, {}))

    def read_tables(self, name: str, kind: type[T]) -> dict[int, T]:
        """Those of [[name]] that are right, by their places."""
        tables = self._document.get(name, [])
        if not isinstance(tables, list):
            self._refuse((name,), f"found {shown(tables)}, expected [[{name}]], a table of each")
            return {}
        read = {n: self._validate(kind, (name, n), table) for n, table in enumerate(tables)}
        return {n: table for n, table in read.items() if table is not None}

    def check_demand(self, demand: DemandTable) -> None:
        """Note keys of [demand] that exclude each other."""
        if demand.trace and demand.cloudwatch:
            keys = ("demand", "cloudwatch")
            self._refuse(keys, "found beside trace, expected one of the two")
        for index, burst in enumerate(demand.bursts):
            if burst.at_hour >= demand.hours:
                self._refuse(
                    ("demand", "bursts", index, "at_hour"),
                    f"found a burst after the end, which is at {demand.hours:g} hours",
                )

    def check_counts(self) -> None:
        """Note counts beside [autoscaling]."""
        if self.has("instances", "counts") and "autoscaling" in self:
            subject = "found beside [autoscaling], whose bounds say how many; leave one"
            self._refuse(("instances", "counts"), subject)

    def check_archives(self) -> None:
        """There are some, and those by hand have what is needed."""
        tables = self._document.get("archives")
        if not tables:
            self._refuse((), "found no [[archives]], expected one or more")
        for index, table in enumerate(tables if isinstance(tables, list) else ()):
            for key, expected in _NEEDED.items():
                if isinstance(table, dict) and not {"report", *_FORMER_SOURCES, key} & table.keys():
                    self._refuse(("archives", index), f"found no {key}, expected {expected}")

    def find_types(
        self, instances: InstancesTable, own_types: Mapping[int, InstanceType]
    ) -> list[InstanceType]:
        """Those to choose from, of [[instance_types]] and of SageMaker."""
        own = {kind.name: kind for kind in own_types.values()}
        if instances.types is None:
            return list(own.values())
        types = []
        for name in instances.types:
            try:
                types.append(own.get(name) or find_instance_type(name))
            except Impossible as error:
                tables = self._document.get("instance_types", [])
                # One that is wrong, and told already, may have this very name.
                if isinstance(tables, list) and len(own_types) == len(tables):
                    self._refuse(("instances", "types"), str(error))
        return types

    def make_kinds(self, archives: Mapping[int, ArchiveTable]) -> tuple[list[ArchiveKind], int]:
        """And the memory that a container uses beside its models, where a report tells it."""
        kinds: list[ArchiveKind] = []
        base_memory = 0
        for index, archive in archives.items():
            by_hand, source = archive.by_hand, ArchiveKind.source
            figures = [ArchiveFigures(f"kind-{index}", **by_hand)] if archive.report is None else []
            if archive.report is not None:
                report = read_report(archive.report)
                figures = [replace(seen, **by_hand) for seen in make_figures(report)]
                base_memory = max(base_memory, report.base_memory)
                source = "; ".join([report.source, *_say_by_hand(by_hand)])
            if not all(any(kind.service_s) for kind in figures):
                subject = f"found no service_s, expected {_NEEDED['service_s']}"
                self._refuse(("archives", index), subject)
            kinds += [ArchiveKind(kind, archive.match, source) for kind in figures]
        return kinds, base_memory

    def finish(self) -> None:
        """Raise WrongPlan where there are mistakes."""
        ordered = sorted(self._mistakes, key=lambda mistake: mistake[0] or (0, 0))
        if ordered:
            raise WrongPlan(
                [UnusableFile(self._path, said, *(at or (None, None))) for at, said in ordered]
            )

    def _validate(self, kind: type[T], above: Keys, value: object) -> T | None:
        try:
            return validate(kind, value, self._path.parent)
        except ValidationError as error:
            for inner, subject in find_mistakes(error):
                keys = (*above, *inner)
                self._refuse(keys, _explain_key(keys) if subject == UNKNOWN_KEY else subject)
            return None

    def _refuse(self, keys: Keys, subject: str) -> None:
        """Note a mistake at the position of the innermost key that has one."""
        ends = range(len(keys), 0, -1)
        position = next(
            (self._positions[keys[:n]] for n in ends if keys[:n] in self._positions), None
        )
        name = _name(keys)
        name = f"[{name}]" if name in _CLASSES else name
        self._mistakes.append((position, f"{name}: {subject}" if name else subject))


def _name(keys: Keys) -> str:
    """In one short line, whatever a key holds."""
    names = [key for key in keys if isinstance(key, str)]
    return ".".join(name if _BARE_KEY.fullmatch(name) else shown(name) for name in names)


def _explain_key(keys: Keys) -> str:
    *tables, key = keys
    if key in _FORMER_SOURCES and tables[0] == "archives":
        return _NOT_ANY_MORE
    known = [field.name for field in fields(_CLASSES[_name(tuple(tables))])]
    return f"{UNKNOWN_KEY}; {_hint(str(key), known)}"


def _hint(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"


def _say_by_hand(keys: Collection[str]) -> list[str]:
    return [f"{', '.join(keys)} by hand"] if keys else []


def _parse(path: Path, text: str) -> dict[str, Any]:
    for number, line in enumerate(text.splitlines(), 1):
        if _NUMBER.sub("", line).count(".") > _MOST_DOTS:
            subject = f"found more than {_MOST_DOTS} dots in a line, expected them in several"
            raise UnusableFile(path, subject, number)
    try:
        document: dict[str, Any] = tomllib.loads(text)
        return document
    except tomllib.TOMLDecodeError as error:
        where = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
        position = (int(where[1]), int(where[2])) if where else (None, None)
        message = str(error)[: where.start()] if where else str(error)
        raise UnusableFile(path, f"it is no TOML: {message}", *position) from error
    except RecursionError as error:
        subject = "found values inside of values, too deep to be read, expected two levels"
        raise UnusableFile(path, subject) from error
    except ValueError as error:  # int() of thousands of digits
        raise UnusableFile(path, "found a number of thousands of digits") from error


def _find_positions(text: str) -> dict[Keys, Position]:
    """Where each table begins, and each of its keys stands."""
    positions: dict[Keys, Position] = {}
    table: Keys = ()
    counts = Counter[Keys]()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.match(line):
            table = tuple(header[2].split("."))
            positions.setdefault(table, (number, header.start(1) + 1))
            if header[1] == "[[":
                counts[table] += 1
                table = (*table, counts[table] - 1)
                positions[table] = (number, header.start(1) + 1)
        elif key := _KEY.match(line):
            positions.setdefault((*table, *key[2].split(".")), (number, len(key[1]) + 1))
    return positions
