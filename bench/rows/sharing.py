"""What copies of one export take, whose processes are forked with the libraries that they share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from functools import partial

from bench import payloads
from bench.contenders import FORMS
from bench.measure import Line
from bench.models import FRAMEWORKS, find_export
from bench.rows.row import Row, Run
from bench.servers import Container

#: Copies in a short run, which shows that the row works.
_FEW = 2


def _measure(
    export: str, count: int, forms: tuple[str, ...], settings: Mapping[str, str], run: Run
) -> Iterator[Line]:
    copies = _FEW if run.short else count
    first, further, memory = {}, {}, {}
    for form in forms:
        run.progress(f"{copies} copies, {form}")
        with run.contenders.start_ours(form, {**FORMS[form], **settings}) as server:
            seconds = _load_copies(run, server, export, copies)
            first[form], further[form] = seconds[:1], [statistics.median(seconds[1:])]
            memory[form] = [server.measure_models_mb() / copies]
    yield Line(f"{export}, load of the first", "s", first, None, "compiled", "apart")
    yield Line(f"{export}, load of each further one", "s", further, None, "compiled", "apart")
    yield Line(f"{export}, memory of each of {copies}", "MB", memory, None, "compiled", "apart")


def _load_copies(run: Run, server: Container, export: str, copies: int) -> list[float]:
    """The seconds of each; each is invoked once, and its answer compared."""
    example = payloads.read_example(find_export(export))
    seconds = []
    for number in range(copies):
        model = run.contenders.archives.copy_export(f"copy-{export}-{number}", export)
        started = time.perf_counter()
        server.load(model)
        seconds.append(time.perf_counter() - started)
        server.check(model, example, "after a load")
    return seconds


_HOW = (
    "{count} copies of examples/merlin/{export} under names of their own into a fresh container, "
    "one after another; each is asked once, and its answer compared with Merlin's own. The first "
    "load waits for the import of its libraries; of the further ones the median. Memory: the "
    "proportional set sizes of everything below the container but its server and tritonserver, so "
    "of all models and of the interpreters that they were forked from, divided by {count}. Apart: "
    "SERVE_WARM=off. One round, since nothing is compared by a few hundredths."
)

_DENSE_FORMS, _FORMS = ("executor", "ensemble", "compiled", "apart"), ("compiled", "apart")
_FRAMEWORKS = {"SERVE_BACKEND_PYTHON": str(FRAMEWORKS)}
_TABLE: tuple[tuple[str, int, tuple[str, ...], Mapping[str, str]], ...] = (
    ("dense", 20, _DENSE_FORMS, {}),
    ("tensorflow_ragged", 5, _FORMS, _FRAMEWORKS),
    ("forest_xgboost", 5, _FORMS, _FRAMEWORKS),
    ("forest_lightgbm", 5, _FORMS, _FRAMEWORKS),
)

ROWS = tuple(
    Row(
        f"copies_{export}",
        f"{count} copies of {export}",
        _HOW.format(count=count, export=export),
        partial(_measure, export, count, forms, settings),
    )
    for export, count, forms, settings in _TABLE
)
