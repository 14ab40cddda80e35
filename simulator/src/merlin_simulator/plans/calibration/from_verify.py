"""Figures of an archive as `python -m ensemble_tools verify --format json` has measured them."""

from __future__ import annotations

from pathlib import Path

from merlin_simulator.planning.archives import Figures
from merlin_simulator.plans.bounds import MOST_BYTES, MOST_SECONDS
from merlin_simulator.plans.errors import UnusableFile
from merlin_simulator.plans.json_files import Members, read_json

#: What verify calls the form whose workflows are compiled; a container serves it if there is one.
_COMPILED = ", compiled"
_EXPECTED = "expected what `python -m ensemble_tools verify --format json` prints"


def make_figures_of_verify(path: Path) -> Figures:
    """Of the form that is served: with its workflows compiled, where verify ran that, too.

    Raises UnusableFile.

    Memory: what its processes have of their own (PSS). verify measures neither archive nor unload:
    both take nothing.
    """
    found = read_json(path, _EXPECTED)
    if not isinstance(found, dict) or "costs" not in found or "served_as" not in found:
        raise UnusableFile(path, f"found another JSON, {_EXPECTED}")
    whole = Members(path, found)
    costs, form = whole.objects("costs"), whole.text("served_as", None) or ""
    forms = {cost.text("form", None): cost for cost in costs}
    cost = forms.get(form + _COMPILED) or forms.get(form)
    if cost is None or "p50_s" not in cost:
        raise UnusableFile(path, f"found no timed requests of the served form, {_EXPECTED}")
    p50 = cost.number("p50_s", None, most=MOST_SECONDS)
    p95 = cost.number("p95_s", None, most=MOST_SECONDS, least=p50)
    resident = cost.whole("resident_bytes", 0, most=MOST_BYTES)
    return Figures(
        whole.text("archive", None) or path.name,
        cost.whole("proportional_bytes", 0, most=MOST_BYTES) or resident,
        0,
        (0.0,),
        (cost.number("load_s", None, most=MOST_SECONDS),),
        (0.0,),
        spread(p50, p95),
    )


def spread(p50: float, p95: float) -> tuple[float, ...]:
    """Quantiles at 0, 5, … 100 %, of which two are known: half as much below, beyond as to p95."""
    above = [p50 + (p95 - p50) * step / 9 for step in range(11)]
    below = [p50 * (0.5 + 0.05 * step) for step in range(10)]
    return (*below, *above)
