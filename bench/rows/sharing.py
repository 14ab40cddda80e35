"""What copies of one export take, whose processes are forked with the libraries that they share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from bench import payloads
from bench.contenders import FORMS
from bench.measure import Line
from bench.models import FRAMEWORKS, find_export
from bench.rows.row import Row, Run
from bench.servers import Container, Side

#: Copies in a short run, which shows that the row works.
_FEW = 2


@dataclass(frozen=True)
class _Copies:
    """So many copies of an export, in these forms. python: the models', where it is another."""

    export: str
    count: int
    forms: tuple[str, ...]
    python: str | None = None


@dataclass(frozen=True)
class _Taken:
    """Seconds of the first load and of a further one, and MB of each copy."""

    first_s: float
    further_s: float
    each_mb: float


def _shared(copies: _Copies, run: Run, row: str) -> Iterator[Line]:
    count = _FEW if run.short else copies.count
    own = {"SERVE_BACKEND_PYTHON": copies.python} if copies.python else {}
    taken: dict[str, _Taken] = {}
    for form in copies.forms:
        run.progress(f"{row}: {count} copies, {form}")
        with run.contenders.fresh_ours(True, **FORMS[form], **own) as server:
            taken[form] = _load_copies(run, server, copies.export, count)
    line = partial(Line, row, subject="compiled", against="apart")
    first = {form: [it.first_s] for form, it in taken.items()}
    further = {form: [it.further_s] for form, it in taken.items()}
    each = {form: [it.each_mb] for form, it in taken.items()}
    yield line(f"{copies.export}, load of the first", "s", first)
    yield line(f"{copies.export}, load of each further one", "s", further)
    yield line(f"{copies.export}, memory of each of {count}", "MB", each)


def _load_copies(run: Run, server: Container, export: str, count: int) -> _Taken:
    """Each is invoked once, and its answer compared."""
    payload = payloads.read_example(find_export(export))
    side, took = Side("ours", server.port, True), []
    for number in range(count):
        model = run.contenders.archives.merlin(f"copy-{export}-{number}", export)
        started = time.perf_counter()
        server.load(model)
        took.append(time.perf_counter() - started)
        side.check(model, payload, "after a load")
    return _Taken(took[0], statistics.median(took[1:]), server.measure_models_mb() / count)


_HOW = (
    "{count} copies of examples/merlin/{export} under names of their own into a fresh container, "
    "one after another; each is asked once, and its answer compared with Merlin's own. The first "
    "load waits for the import of its libraries; of the further ones the median. Memory: the "
    "proportional set sizes of everything below the container but its server and tritonserver, so "
    "of all models and of the interpreters that they were forked from, divided by {count}. Apart: "
    "SERVE_WARM=off. One round, since nothing is compared by a few hundredths."
)

_COPIES = (
    _Copies("dense", 20, ("executor", "ensemble", "compiled", "apart")),
    *(
        _Copies(export, 5, ("compiled", "apart"), str(FRAMEWORKS))
        for export in ("tensorflow_ragged", "forest_xgboost", "forest_lightgbm")
    ),
)

ROWS = tuple(
    Row(
        f"copies_{copies.export}",
        f"{copies.count} copies of {copies.export}",
        _HOW.format(count=copies.count, export=copies.export),
        partial(_shared, copies),
    )
    for copies in _COPIES
)
