"""Figures of an archive as `python -m ensemble_tools verify --format json` has measured them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulator.planning.archives import Figures
from simulator.plans.errors import UnusableFile

_EXPECTED = "expected what `python -m ensemble_tools verify --format json` prints"


def make_figures_of_verify(path: Path) -> Figures:
    """Of the form that is served. Raises UnusableFile.

    Memory: what its processes have of their own (PSS). verify measures neither archive nor unload:
    both take nothing.
    """
    whole = read_json(path, _EXPECTED)
    if not isinstance(whole, dict) or "costs" not in whole or "served_as" not in whole:
        raise UnusableFile(path, f"found another JSON, {_EXPECTED}")
    costs: list[dict[str, Any]] = whole["costs"]
    served = [cost for cost in costs if cost.get("form") == whole["served_as"]] or costs[:1]
    if not served or served[0].get("p50_s") is None:
        raise UnusableFile(path, f"found no timed requests of the served form, {_EXPECTED}")
    cost = served[0]
    p50, p95 = float(cost["p50_s"]), float(cost["p95_s"])
    return Figures(
        str(whole.get("archive", path.name)),
        int(cost.get("proportional_bytes") or cost.get("resident_bytes") or 0),
        0,
        (0.0,),
        (float(cost["load_s"]),),
        (0.0,),
        spread(p50, p95),
    )


def spread(p50: float, p95: float) -> tuple[float, ...]:
    """Quantiles at 0, 5, … 100 %, of which two are known: half as much below, beyond as to p95."""
    above = [p50 + (p95 - p50) * step / 9 for step in range(11)]
    below = [p50 * (0.5 + 0.05 * step) for step in range(10)]
    return (*below, *above)


def read_json(path: Path, expected: str) -> Any:
    """Raises UnusableFile."""
    try:
        return json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UnusableFile(
            path, f"found no readable file ({error.strerror}), {expected}"
        ) from error
    except json.JSONDecodeError as error:
        what = f"found no JSON ({error.msg}), {expected}"
        raise UnusableFile(path, what, error.lineno, error.colno) from error
    except UnicodeDecodeError as error:
        raise UnusableFile(path, f"found no text in UTF-8, {expected}") from error
