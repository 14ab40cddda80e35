"""The one table of docs/reliability.md, made of what the programs wrote.

    .venv/bin/python -m tests.reliability.table DIR [--into docs/reliability.md]

DIR: where beside, chaos, soak and fuzz-http wrote their JSON (--out); what is not there is left
out. Without --into it is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.reliability.beside import Outcome
from tests.reliability.corpus.hostile_archives import HOSTILE_ARCHIVES
from tests.reliability.faults import faults
from tests.reliability.reports import Table

HEAD = (
    "what befalls it",
    "what the container promises",
    "measured",
    "Triton's own frontend",
    "held by",
)
BEGIN, END = "<!-- table: python -m tests.reliability.table -->", "<!-- end of table -->"
_QUICK = "test_chaos.py"
_ARCHIVE = "archive"
_LONG = "`make chaos`"


def rows(directory: Path) -> Iterator[tuple[str, ...]]:
    """All that was measured, in the order of the programs."""
    yield from _chaos(_read(directory / "chaos.json"))
    yield from _beside(_read(directory / "beside.json"))
    yield from _soak(_read(directory / "soak.json"))
    yield from _fuzz(_read(directory / "fuzz-http.json"))


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def _chaos(found: Any) -> Iterator[tuple[str, ...]]:
    """In the order of faults.py, not in that of the draw; all times of a fault in one row.

    All hostile archives are one row: each has a row of its own beside Triton's frontend.
    """
    happened = found["faults"] if found else []
    archives = [one for one in happened if one["fault"].startswith(f"{_ARCHIVE}: ")]
    for fault in faults():
        times = [one for one in happened if one["fault"] == fault.name and one not in archives]
        if times:
            test = f"{_QUICK}, {_LONG}" if fault.is_quick else _LONG
            often = f", {len(times)} times" if len(times) > 1 else ""
            what = f"**{fault.name}**, 20 tenants beside it{often}"
            yield (what, fault.promise, _happened(_together(times)), "", test)
    if archives:
        kinds = {one["fault"] for one in archives}
        promise = next(fault.promise for fault in faults() if fault.name in kinds)
        what = f"**{len(kinds)} hostile archives**, 20 tenants beside each, {len(archives)} times"
        yield (what, promise, _happened(_together(archives)), "", f"{_QUICK}, {_LONG}")


def _together(times: list[dict[str, Any]]) -> dict[str, Any]:
    """Requests added up; of times and of ends the worst."""
    summed = {key: sum(one[key] for one in times) for key in ("asked", "wrong", "lost", "excused")}
    back = [one["back_s"] for one in times]
    return {
        **summed,
        "back_s": None if None in back else max(back),
        "ping_s": max(one["ping_s"] for one in times),
        "ended": next((one["ended"] for one in times if one["ended"] is not None), None),
        "deaths": max(one["deaths"] for one in times),
        "hurts": [hurt for one in times for hurt in one["hurts"]],
    }


def _happened(one: dict[str, Any]) -> str:
    back = (
        "never all right again" if one["back_s"] is None else f"right after {one['back_s']:.1f} s"
    )
    parts = [f"{one['asked']} asked, {one['wrong']} wrong, {one['lost']} lost", back]
    if one["excused"]:
        parts.append(f"{one['excused']} in flight in what was killed")
    parts.append(f"/ping at most {one['ping_s'] * 1000:.0f} ms")
    if one["ended"] is not None:
        parts.append("**the container ended**")
    elif one["deaths"]:
        parts.append("**tritonserver died**")
    parts += [f"**{hurt[:160]}**" for hurt in one["hurts"][:3]]
    return "; ".join(parts)


def _beside(found: Any) -> Iterator[tuple[str, ...]]:
    """A row for each family of requests, and one for archives that Triton's frontend ends alike."""
    hanging = {archive.name for archive in HOSTILE_ARCHIVES if archive.hangs}
    groups: dict[tuple[object, ...], list[Any]] = {}
    for row in found or ():
        family, hangs = row["family"], row["name"] in hanging
        outcome = _frontend_outcome(row) if family == _ARCHIVE else ()
        groups.setdefault((family, hangs, *outcome), []).append(row)
    for members in groups.values():
        family = members[0]["family"]
        kinds = f", {len(members)} kinds" if len(members) > 1 else ""
        if family == _ARCHIVE:
            kinds = f": {'; '.join(row['name'] for row in members)}"
        test = "`make beside`" if members[0]["name"] in hanging else "test_hostile.py"
        yield (f"{family}{kinds}", *_outcomes(members), test)


def _frontend_outcome(row: dict[str, Any]) -> tuple[object, ...]:
    """Whether it died, what it answered, and whether others noticed; empty where it was not asked.

    How long it took and how much memory are left out.
    """
    outcomes = [Outcome(**one) for one in row["outcomes"] if one["server"] == "frontend"]
    return tuple((one.death, one.status, not one.witness) for one in outcomes)


def _outcomes(members: list[Any]) -> tuple[str, str, str]:
    """What is promised, what the container did, and what Triton's own frontend did."""
    allowed, own, other = [], [], []
    for row in members:
        outcomes = {one["server"]: Outcome(**one) for one in row["outcomes"]}
        allowed += [str(status) if status else "closed" for status in row["allowed"]]
        if "container" in outcomes:
            held = outcomes["container"].holds(tuple(row["allowed"]))
            words = outcomes["container"].in_words
            own.append(words if held else f"**{words}**")
        if "frontend" in outcomes:
            other.append(outcomes["frontend"].in_words)
    return " or ".join(sorted(set(allowed))), _count(own), _count(other)


def _count(words: list[str]) -> str:
    """Each kind of outcome with how often it was, the most frequent first, in its fullest words."""
    kinds: dict[str, list[str]] = {}
    for one in words:
        kinds.setdefault(one.partition(",")[0], []).append(one)
    ordered = sorted(kinds.values(), key=len, reverse=True)
    if len(words) == 1:
        return words[0]
    return "; ".join(f"{len(them)} × {max(them, key=len)}" for them in ordered)


def _soak(found: Any) -> Iterator[tuple[str, ...]]:
    if found:
        said = "; ".join([found["summary"], *found["failures"]])
        yield ("load, invoke, unload", "nothing is left", said, "", "test_soak.py, `make soak`")


def _fuzz(found: Any) -> Iterator[tuple[str, ...]]:
    if found:
        said = "; ".join([found["summary"], *found["failures"]])
        yield (
            "random requests",
            "no death, no 5xx, the values that were sent",
            said,
            "",
            "test_fuzz_http.py, `make fuzz-http`",
        )


def put_into(path: Path, table: str) -> None:
    """Between the two marks of the document, in the place of the table that is there."""
    text = path.read_text()
    before, rest = text.split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--into", type=Path, help="the document that holds the table")
    arguments = parser.parse_args(argv)
    table = Table("", HEAD, tuple(rows(arguments.directory))).markdown()
    if arguments.into:
        put_into(arguments.into, table)
    else:
        print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
