"""examples/bert: the traced model, in the container, answers what torch computed at the export."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.container import ROOT, running

MODELS_PYTHON = ROOT / ".venv-merlin/bin/python"
#: Measured: 4 s for two exports on two cores that others use too.
EXPORT_S = 120
#: float32 sums in another order: of another thread count, of another batch.
RELATIVE, ABSOLUTE = 1e-4, 1e-5


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two exports with weights of their own."""
    folder = tmp_path_factory.mktemp("bert")
    script = ROOT / "examples/bert/export.py"
    command = [str(MODELS_PYTHON), str(script), str(folder), "--copies", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=EXPORT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(folder.iterdir())


def expected(copy: Path) -> list[float]:
    (logits,) = json.loads((copy / "expected.json").read_text("utf-8"))["outputs"]
    return [float(value) for value in logits["data"]]


def test_each_copy_answers_as_torch_did(copies: list[Path], tmp_path: Path) -> None:
    """Padding, length and batch are other than the trace's; no copy answers as another does."""
    with running(tmp_path, SERVE_MODEL_ROOT=str(copies[0].parent)) as container:
        for copy in copies:
            request = json.loads((copy / "request.json").read_text("utf-8"))
            with container.loaded(copy.name, copy / "repository"):
                answer = container.invoke(copy.name, request)
            assert answer.status_code == 200, answer.text
            (logits,) = answer.json()["outputs"]
            assert logits["shape"] == [2, 4]
            assert logits["data"] == pytest.approx(expected(copy), rel=RELATIVE, abs=ABSOLUTE)
    assert expected(copies[0]) != pytest.approx(expected(copies[1]), abs=0.1)
