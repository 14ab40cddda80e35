"""The dashboard's panels, as their file has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).with_name("dashboard.json")
#: What the dashboard's variables stand for here: everything.
VARIABLES = {"$instance": ".*", "$target_model": ".*", "$__rate_interval": "20s"}


def read_panels(dashboard: Path = DASHBOARD) -> list[dict[str, Any]]:
    """The panels that have expressions, in the dashboard's order."""
    panels = json.loads(dashboard.read_text())["panels"]
    return [panel for panel in panels if panel["type"] != "row"]


def fill_in(expression: str) -> str:
    """The expression with every variable filled in."""
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    return expression
