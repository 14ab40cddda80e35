"""The libraries' names, which stand in several places."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from container.settings.reading import read_settings
from container.warm.libraries import LIBRARIES
from container.warm.predictors import find_predictors

BACKENDS = Path(__file__).parents[4] / "container/backends"
OURS = sorted(path.parent.name for path in BACKENDS.glob("*/model.py"))


def test_each_can_be_preloaded() -> None:
    """And no other: SERVE_PRELOAD names them itself, since settings know no other room."""
    every = ",".join(LIBRARIES)
    assert read_settings({"SERVE_PRELOAD": every}).preload == (*LIBRARIES,)
    with pytest.raises(Exception, match=", ".join(LIBRARIES).replace(" ", ".?")):
        read_settings({"SERVE_PRELOAD": "other"})


@pytest.mark.parametrize("name", OURS)
def test_a_predictor_is_what_its_backend_runs(name: str) -> None:
    """The backend's model.py, which runs in another Python, says the same."""
    (found,) = find_predictors([name]).values()
    assert found.model_file.is_file()
    text = (BACKENDS / name / "model.py").read_text()
    literals = {node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)}
    assert {found.library, found.model_file.stem} <= literals


def test_what_nvidia_plays_is_no_child_s() -> None:
    """Where the image has a backend of its own there is no stand-in."""
    assert find_predictors([]) == {}
    assert find_predictors(["onnxruntime"]) == {}
