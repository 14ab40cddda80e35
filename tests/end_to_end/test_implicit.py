"""PredictImplicit in the container: models that implicit trained and Merlin exported."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.container import ROOT, running

PYTHON = ROOT / ".venv-merlin/bin/python"


@pytest.mark.thorough
def test_both_models_in_each_form(tmp_path: Path) -> None:
    """The ids and scores that Merlin's operator recommends, by the step and by the executor."""
    program = ROOT / "tests/support/implicit_export.py"
    subprocess.run([PYTHON, program, tmp_path / "made"], check=True, capture_output=True)
    answers = json.loads((tmp_path / "made/answers.json").read_text())
    assert {*answers} == {"als", "bpr"}
    for form in ("auto", "executor"):
        settings = {
            "SERVE_MODEL_ROOT": str(tmp_path),
            "SERVE_BACKEND_PYTHON": str(PYTHON),
            "SERVE_REWRITE": form,
        }
        with running(tmp_path / form, **settings) as container:
            for kind, asked in answers.items():
                loaded = container.load(kind, tmp_path / "made" / kind / "export")
                assert loaded.status_code == 200, loaded.text
                for users, expected in asked:
                    tensor = {"name": "user_id", "datatype": "INT64", "shape": [len(users), 1]}
                    answer = container.invoke(kind, {"inputs": [{**tensor, "data": users}]})
                    assert answer.status_code == 200, answer.text
                    outputs = {it["name"]: it for it in answer.json()["outputs"]}
                    assert outputs["ids"]["data"] == expected["ids"]
                    assert outputs["scores"]["data"] == pytest.approx(expected["scores"], rel=1e-6)
                    shapes = [outputs[name]["shape"] for name in ("ids", "scores")]
                    assert shapes == [[len(users), 5], [len(users), 5]]
                unknown = {**tensor, "shape": [1, 1], "data": [[40]]}
                refused = container.invoke(kind, {"inputs": [unknown]})
                assert refused.status_code == 400
