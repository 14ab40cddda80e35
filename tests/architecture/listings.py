"""What is made in the pages: listings of the tree, and the figures of bench/results.json.

    .venv/bin/python -m tests.architecture.listings

Each stands between two marks of its page, and is written there anew. A module's words are the
first paragraph of its docstring, a room's those of its `__init__.py`.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from prometheus_client import CollectorRegistry

from bench.quoted import quote
from bench.results import read_results
from container.settings import settings_table
from container.telemetry.cloudwatch import make_counters
from container.telemetry.machine_gauges import MachineGauges
from container.telemetry.outside import OutsideCounts
from serve.telemetry.exposition import FAMILIES
from serve.telemetry.metrics import Metrics
from tests.architecture.aws_calls import aws_calls
from tests.architecture.tutorials import tutorials

ROOT = Path(__file__).parents[2]
#: The packages that are read first, in this order; the others follow.
FIRST = ("container", "serve", "ensemble_tools")
BEGIN, END = "<!-- made by make listings -->", "<!-- end of the listing -->"
WIDTH = 100


def modules() -> str:
    """Every package with its rooms, and every module of a room."""
    return "\n\n".join(_room(room) for package in _packages() for room in _rooms(ROOT / package))


def decisions() -> str:
    """Every decision: its number, which leads to its page, and its title."""
    titles = {page.name: page.read_text().splitlines()[0] for page in _decision_pages()}
    split = {name: title.removeprefix("# ").split(". ", 1) for name, title in titles.items()}
    rows = [f"| [{number}]({name}) | {title} |" for name, (number, title) in split.items()]
    return "\n".join(["| | decision |", "|---|---|", *rows])


def metrics() -> str:
    """Every metric of ours: its name, kind and labels, and what it says, with its unit."""
    cells = [
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels)} | {meaning} |"
        for name, kind, labels, meaning in metric_rows()
    ]
    return "\n".join(["| metric | kind | labels | what it says |", "|---|---|---|---|", *cells])


def metric_rows() -> list[tuple[str, str, tuple[str, ...], str]]:
    """Every metric of ours: name, kind, labels and meaning, by name."""
    ours = [(it.name, it.kind, it.labels, it.meaning) for it in FAMILIES]
    machine = MachineGauges(lambda: 0, dict, OutsideCounts(interpreter_starts=lambda: {"torch": 0}))
    machine.refresh()
    events = Metrics().events
    make_counters(events)
    return sorted((*ours, *_collected(events), *_collected(machine.registry)))


def _collected(registry: CollectorRegistry) -> Iterator[tuple[str, str, tuple[str, ...], str]]:
    """The same of what prometheus_client counts."""
    ends = {"counter": "_total", "info": "_info"}
    for metric in registry.collect():
        labels = metric.samples[0].labels if metric.type != "info" else {}
        names = tuple(label for label in labels if label != "le")
        name = metric.name + ends.get(metric.type, "")
        yield name, metric.type, names, metric.documentation


LISTINGS = {
    ROOT / "docs/how-it-works.md": modules,
    ROOT / "docs/settings.md": lambda: settings_table().strip(),
    ROOT / "docs/metrics.md": metrics,
    ROOT / "docs/decisions/README.md": decisions,
    ROOT / "docs/aws-calls.md": aws_calls,
    ROOT / "docs/workflows.md": tutorials,
}


def with_listing(page: str, listing: str) -> str:
    """The page with this listing between its marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{listing}\n\n{END}{after}"


@cache
def summary(module: Path) -> str:
    """The first paragraph of its docstring, less a last sentence that leads to a list."""
    words = ast.get_docstring(ast.parse(module.read_text())) or ""
    paragraph = " ".join(words.partition("\n\n")[0].split())
    return re.sub(r"(?<=\.) [^.]*:$", "", paragraph)


def _decision_pages() -> list[Path]:
    return sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))


def _packages() -> list[str]:
    known = {init.parent.name for init in ROOT.glob("*/__init__.py")}
    return [*FIRST, *sorted(known - set(FIRST))]


def _rooms(package: Path) -> Iterator[Path]:
    """The package and the folders in it that are packages, from the outside in."""
    return (init.parent for init in sorted(package.rglob("__init__.py"), key=lambda one: one.parts))


def _room(room: Path) -> str:
    name = room.relative_to(ROOT)
    heading = f"{'###' if len(name.parts) == 1 else '####'} `{name}/`"
    words = textwrap.fill(_escaped(summary(room / "__init__.py")), WIDTH, break_on_hyphens=False)
    rows = [f"| `{path.relative_to(room)}` | {_escaped(summary(path))} |" for path in _files(room)]
    table = ["| module | what it is |", "|---|---|", *rows] if rows else []
    return "\n".join([heading, "", words, *([""] if table else []), *table])


def _files(room: Path) -> list[Path]:
    """The modules whose innermost room it is: files that are loaded by path have no other."""
    return [
        path
        for path in sorted(room.rglob("*.py"))
        if path.name != "__init__.py" and innermost_room(path) == room
    ]


def innermost_room(path: Path) -> Path:
    """The innermost folder around a module that is a package."""
    return next(folder for folder in path.parents if (folder / "__init__.py").exists())


def _escaped(words: str) -> str:
    """As a cell of a table shows it."""
    return words.replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    """Write each listing into its page, and the figures into every page that quotes them."""
    for page, listing in LISTINGS.items():
        page.write_text(with_listing(page.read_text(), listing()))
    results = read_results()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        page.write_text(quote(page.read_text(), results))


if __name__ == "__main__":
    main()
