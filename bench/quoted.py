"""What README.md and docs/ quote of bench/results.json: tables and sentences, by name. Pure.

A page has each between two marks, and `make listings` writes it there anew:

    <!-- figures: how-fast -->
    <!-- end of the figures -->
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain

from bench.measure import Line
from bench.quantities import format_gibibytes, format_quantity, format_ratio
from bench.report import FRONTEND, list_cells, list_columns, write_markdown_table
from bench.results import Measured, Results

_WIDTH = 100
#: Up to its own end: where that is missing, nothing is replaced up to the next one's.
MARKS = re.compile(
    r"(<!-- figures: ([\w-]+) -->\n)((?:(?!<!-- figures: ).)*?)(<!-- end of the figures -->)",
    re.DOTALL,
)
_EXPORTS = ("dense", "ragged", "session", "two_workflows", "wide")

#: README's table of speed: a caption, and each (row, line) whose values stand side by side.
_HOW_FAST = (
    ("cold load of a small Python model", ("cold_load_python", "cold load, trivial Python model")),
    (
        "cold load of a Merlin export ¹",
        ("cold_load_merlin", "cold load, Merlin workflow in NVTabular + PyTorch"),
    ),
    (
        "… with its workflow compiled ahead of time ¹",
        ("cold_load_merlin", "cold load, Merlin workflow + PyTorch"),
    ),
    ("unload of a Python model ²", ("unload", "unload, until everything is free")),
    (
        "unload of a compiled export ²",
        ("unload", "unload of a compiled export, until everything is free"),
    ),
    (
        "… until its processes and their memory are gone",
        ("unload", "unload of a compiled export, until its processes are gone"),
    ),
    (
        "JSON in and out, 190 KB · 1.9 MB · 5.5 MB",
        ("json_190kb", "JSON FP32 190 KB, p50"),
        ("json_1_9mb", "JSON FP32 1.9 MB, p50"),
        ("json_5_5mb", "JSON FP32 5.5 MB, p50"),
    ),
    (
        "small requests beside 5 MB JSON on 1 · on 4 connections, p99",
        ("small_beside_large", "small JSON beside 5 MB JSON, p99"),
        ("small_beside_large", "small JSON beside 5 MB JSON on 4 connections, p99"),
    ),
    (
        "binary tensors, 1 MB · 5 MB",
        ("binary_1mb", "binary 1 MB, p50"),
        ("binary_5mb", "binary 5 MB, p50"),
    ),
    ("small request (70 bytes)", ("small_json_p50", "small JSON, 1 connection, p50")),
    (
        "small requests on 16 connections",
        ("small_json_throughput_16", "small JSON, 16 connections, throughput"),
    ),
)
#: README's first table, likewise.
_SAVES = (
    ("the whole export: answer, p50", ("workflow_dense", "dense, 5 rows, p50")),
    ("… load", ("workflow_dense", "dense, load")),
    ("… memory of its processes", ("workflow_dense", "dense, memory of its processes")),
    (
        "… memory of each of twenty copies, shared parts included",
        ("copies_dense", "dense, memory of each of 20"),
    ),
    (
        "its NVTabular workflow alone: answer, p50",
        ("workflow_dense", "dense, transform of 5 rows, p50"),
    ),
    ("… load", ("workflow_dense", "dense, transform, load")),
    ("… memory", ("workflow_dense", "dense, transform, memory")),
)
_WHOLE = {
    "load": "load",
    "1 row": "1 rows, p50",
    "5": "5 rows, p50",
    "64": "64 rows, p50",
    "1,024 rows": "1024 rows, p50",
    "5 rows on 16 connections": "5 rows on 16 connections",
    "memory": "memory of its processes",
}
_TRANSFORM = {
    "load": "transform, load",
    "1 row": "transform of 1 rows, p50",
    "5": "transform of 5 rows, p50",
    "64": "transform of 64 rows, p50",
    "1,024 rows": "transform of 1024 rows, p50",
    "5 rows on 16 connections": "transform of 5 rows on 16 connections",
    "memory": "transform, memory",
    "of it not shared": "transform, memory that is not shared",
}
_FITTED = {"fit_dense": "dense", "fit_dense_alone": "dense, workflow alone", "fit_wide": "wide"}
_FITTING = {
    "room for, by the memory of one": "room for, by the memory of one",
    "loaded at once, at most": "loaded at once in 8GB",
    "models that answered, in all": "answered from, in all",
    "requests answered rightly": "requests answered rightly",
    "requests that found their model loaded": "requests that found their model",
    "p50 of a cold request": "p50 of a cold one",
    "p50 of a warm request": "p50 of a warm one",
    "proportional memory of all": "proportional memory of all",
}
_BESIDE_EXECUTOR = {
    "load": "load",
    "p50": "p50",
    "memory": "memory of the first",
    "memory of one more": "memory of one more",
}
_COPIED = {"dense": 20, "tensorflow_ragged": 5, "forest_xgboost": 5, "forest_lightgbm": 5}


def quote(page: str, results: Results) -> str:
    """The page with the figures of these results. Raises KeyError for a name that is none."""
    return MARKS.sub(lambda marks: f"{marks[1]}{QUOTES[marks[2]](results)}\n{marks[4]}", page)


def _write_how_fast(results: Results) -> str:
    rows = []
    for caption, *places in _HOW_FAST:
        lines = [results.line("frontend", *place) for place in places]
        rows.append((caption, *(_show_all(lines, name) for name in FRONTEND.contenders)))
    table = _write_table(("", "Triton's frontend", "tritonserver alone", "this container"), rows)
    return "\n\n".join(
        (table, _tell_when(results, "frontend", chain(*(row[1:] for row in _HOW_FAST))))
    )


def _write_saves(results: Results) -> str:
    rows = []
    for caption, place in _SAVES:
        line = results.line("workflows", *place)
        rows.append((caption, _show(line, "executor"), _show(line, "compiled")))
    head = ("`examples/merlin/dense`", "Merlin", "this container")
    return "\n\n".join(
        (_write_table(head, rows), _tell_when(results, "workflows", (place for _, place in _SAVES)))
    )


def _write_in_short(results: Results) -> str:
    small = results.line("frontend", "small_json_p50", "small JSON, 1 connection, p50")
    large = results.line("frontend", "json_1_9mb", "JSON FP32 1.9 MB, p50")
    load = results.line(
        "frontend", "cold_load_merlin", "cold load, Merlin workflow in NVTabular + PyTorch"
    )
    beyond = results.line("frontend", "start_to_ping", "start to /ping, beyond tritonserver's own")
    started = results.line("frontend", "server_memory", "memory after start")
    with_models = results.line("frontend", "server_memory", "memory with 10 models")
    five = results.line("workflows", "workflow_dense", "dense, 5 rows, p50")
    return _fill(
        f"In short: a small request takes {_show(small, 'ours')}, at Triton's own frontend "
        f"{_show(small, 'rival')}. JSON of 1.9 MB takes {format_ratio(large.ratio)} of the "
        f"frontend's time, and a cold load of a Merlin export {format_ratio(load.ratio)}. Five "
        f"rows for the export `dense` take {_show(five, 'compiled')}, with NVTabular in the "
        f"ensemble {_show(five, 'ensemble')}, and in Merlin's executor "
        f"{_show(five, 'executor')}. The container is ready {_show(beyond, 'ours')} after "
        f"tritonserver is. Its server's process holds {_show(started, 'ours')}, and "
        f"{_show(with_models, 'ours')} with ten models."
    )


def _write_frontend(results: Results) -> str:
    lines = [line for row in results.suites["frontend"].values() for line in row.lines]
    table = _write_table(
        list_columns(FRONTEND.contenders),
        [list_cells(line, FRONTEND.contenders) for line in lines],
    )
    return "\n\n".join((_tell_where(results, "frontend"), _count_goals(lines), table))


def _write_interpreters(results: Results) -> str:
    rows = []
    for export, count in _COPIED.items():
        row = results.suites["workflows"][f"copies_{export}"]
        for line in row.lines:
            what = line.what.removeprefix(f"{export}, ").replace(f" of {count}", f" of {count:,}")
            rows.append((f"`{export}`: {what}", _show(line, "apart"), _show(line, "compiled")))
    table = _write_table(("", "`SERVE_WARM=off`", "default"), rows)
    return "\n\n".join((_tell_where(results, "workflows", "copies_"), table))


def _write_workflows(results: Results) -> str:
    forms = {"executor": "executor", "ensemble": "ensemble", "compiled": "compiled"}
    table = _write_exports(results, "served as", forms, _WHOLE)
    return "\n\n".join((_tell_where(results, "workflows", "workflow_"), table))


def _write_transforms(results: Results) -> str:
    forms = {"executor": "NVTabular", "compiled": "compiled"}
    lines = [
        line
        for export in _EXPORTS
        for line in results.suites["workflows"][f"workflow_{export}"].lines
    ]
    table = _write_exports(results, "transform", forms, _TRANSFORM)
    return "\n\n".join((table, _count_goals(lines)))


def _write_exports(
    results: Results, head: str, forms: Mapping[str, str], columns: Mapping[str, str]
) -> str:
    rows = []
    for export in _EXPORTS:
        lines = [
            results.line("workflows", f"workflow_{export}", f"{export}, {what}")
            for what in columns.values()
        ]
        rows += [
            (export, shown, *(_show(line, form) for line in lines)) for form, shown in forms.items()
        ]
    return _write_table(("export", head, *columns), rows)


def _write_functions(results: Results) -> str:
    return _write_beside_executor(results, "functions", _BESIDE_EXECUTOR)


def _write_tutorials(results: Results) -> str:
    captions = ("load", "p50")
    return _write_beside_executor(
        results, "tutorials", {caption: _BESIDE_EXECUTOR[caption] for caption in captions}
    )


def _write_beside_executor(results: Results, row: str, columns: Mapping[str, str]) -> str:
    """Each export of the row: the executor's value, ours, and their ratio."""
    found = results.suites["workflows"].get(row)
    if found is None:
        return f"Not measured yet: `python -m bench workflows --rows {row} --record`."
    exports = dict.fromkeys(line.what.partition(", ")[0] for line in found.lines)
    table = _write_table(
        ("export", *columns),
        [
            (
                export,
                *(_show_change(results, row, f"{export}, {what}") for what in columns.values()),
            )
            for export in exports
        ],
    )
    parts = [_tell_where(results, "workflows", row), table, _count_goals(found.lines)]
    return "\n\n".join(parts if any(line.goal for line in found.lines) else parts[:2])


def _show_change(results: Results, row: str, what: str) -> str:
    line = results.line("workflows", row, what)
    return f"{_show(line, 'executor')} → {_show(line, 'compiled')} ({format_ratio(line.ratio)})"


def _write_fitting(results: Results) -> str:
    rows = []
    for caption, what in _FITTING.items():
        lines = [results.line("workflows", row, f"{of}: {what}") for row, of in _FITTED.items()]
        rows.append(
            (caption, *(f"{_show(it, 'ensemble')} → {_show(it, 'compiled')}" for it in lines))
        )
    table = _write_table(("", *_FITTED.values()), rows)
    return "\n\n".join((_tell_where(results, "workflows", "fit_"), table))


def _write_observing(results: Results) -> str:
    rows = [
        (line.what, *(_show(line, name) for name in ("nothing", "ours", "every line")))
        for row in results.suites["observing"].values()
        for line in row.lines
    ]
    head = ("", "nothing is told", "default settings", "a line for each invocation")
    return "\n\n".join((_tell_where(results, "observing"), _write_table(head, rows)))


#: By the name that a page has between its marks.
QUOTES: Mapping[str, Callable[[Results], str]] = {
    "how-fast": _write_how_fast,
    "what-it-saves": _write_saves,
    "in-short": _write_in_short,
    "frontend": _write_frontend,
    "interpreters": _write_interpreters,
    "workflows": _write_workflows,
    "transforms": _write_transforms,
    "functions": _write_functions,
    "tutorials": _write_tutorials,
    "fitting": _write_fitting,
    "observing": _write_observing,
}


def _tell_where(results: Results, suite: str, prefix: str = "") -> str:
    """A sentence for each run, which names its rows where there are several runs."""
    runs: dict[str, list[str]] = {}
    for name, row in results.suites[suite].items():
        if name.startswith(prefix):
            runs.setdefault(_describe(row.measured), []).append(name)
    if len(runs) == 1:
        return _fill(f"Measured on {next(iter(runs))}.")
    return "\n".join(
        _fill(f"- {', '.join(f'`{name}`' for name in names)}: measured on {run}.", "  ")
        for run, names in runs.items()
    )


def _tell_when(results: Results, suite: str, places: Iterable[tuple[str, str]]) -> str:
    """In short: the days and the machines."""
    runs = [results.suites[suite][row].measured for row, _ in places]
    days = sorted({run.date for run in runs})
    machines = sorted({f"{run.facts['cores']} cores of an {run.facts['cpu']}" for run in runs})
    return _fill(f"Measured on {', '.join(days)}; {', '.join(machines)}, without a GPU.")


def _describe(measured: Measured) -> str:
    facts = measured.facts
    machine = [f"{facts['cores']} cores of an {facts['cpu']}"]
    if facts["memory_bytes"]:
        machine.append(format_gibibytes(facts["memory_bytes"]))
    return (
        f"{measured.date}, {', '.join(machine)}; tritonserver {facts['tritonserver']}, Python "
        f"{facts['python']}, wrk {facts['wrk']}; {measured.rounds} × "
        f"{measured.round_seconds:g} s, at commit {facts['commit']}"
    )


def _count_goals(lines: Iterable[Line]) -> str:
    judged = [line.reached for line in lines if line.reached is not None]
    return f"{sum(judged)} of {len(judged)} goals are reached."


def _show(line: Line, contender: str) -> str:
    return format_quantity(line.median(contender), line.unit)


def _show_all(lines: Iterable[Line], contender: str) -> str:
    """Side by side; once where none of them was measured."""
    shown = [_show(line, contender) for line in lines]
    return shown[0] if len(set(shown)) == 1 else " · ".join(shown)


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(write_markdown_table(head, rows))
