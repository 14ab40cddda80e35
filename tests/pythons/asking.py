"""One server's Python with one models' Python: exports without frameworks, against Merlin."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.support.container import ROOT, running
from tests.support.merlins_answers import check_numbers

WORKFLOWS = ROOT / "tests/golden/workflows"
#: Compiled workflows, and one of Merlin's operators as a generated step.
EXPORTS = (
    *(WORKFLOWS / name for name in ("dense", "ragged", "session")),
    ROOT / "tests/golden/merlin_releases/23.06_filter_executor",
)
COMPILED = 3


def ask(server: Path, models: Path) -> str:
    """What went wrong, in a line; empty where every number is Merlin's and nothing is left."""
    with tempfile.TemporaryDirectory(prefix="pythons-") as directory:
        settings = {
            "SERVE_MODEL_ROOT": str(ROOT / "tests/golden"),
            "SERVE_BACKEND_PYTHON": str(models),
        }
        try:
            with running(Path(directory), python=server, **settings) as container:
                for export in EXPORTS:
                    with container.loaded("model", export / "repository"):
                        request = (export / "request.json").read_bytes()
                        answer = container.invoke("model", request)
                        assert answer.status_code == 200, answer.text
                        check_numbers(export, json.loads(answer.content))
                compiled = container.log.count('compiled="1 of 1')
                assert compiled == COMPILED, f"{compiled} of {COMPILED} workflows are compiled"
        except AssertionError as error:
            return str(error)
    return ""
