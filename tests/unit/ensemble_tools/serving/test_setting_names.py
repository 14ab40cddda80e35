"""Messages call the settings what they are called where they are set."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import ConfigIncomplete, GraphNotExpressible
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, Rewrite, plan_archive
from tests.golden.archives import Graph
from tests.golden.cases import USER, Case, keeps_names, workflow


def write_model(root: Path, config: str | None) -> Path:
    (root / "m/1").mkdir(parents=True)
    (root / "m/1/model.py").touch()
    if config is not None:
        (root / "m/config.pbtxt").write_text(config)
    return root


def inline_alone() -> Case:
    """Nothing but an inline operator in front of a workflow, of a class that nobody knows."""
    graph, step = Graph(), workflow("0_w", (USER,))
    graph.call(step, graph.inline("shop.Novel", graph.select(USER)))
    return Case(graph.done(), (step,), (USER,))


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (None, "write a config.pbtxt, or set SERVE_AUTO_COMPLETE=true to let Triton make one"),
        (
            'backend: "python"',
            "add it, or set SERVE_AUTO_COMPLETE=true to let Triton ask the backend",
        ),
    ],
)
def test_completion(config: str | None, says: str, tmp_path: Path) -> None:
    """A config that lacks what Triton could complete says which setting lets it."""
    with pytest.raises(ConfigIncomplete, match=says):
        plan_archive(
            read_repository(write_model(tmp_path, config)),
            None,
            Namespace("m"),
        )


def test_completion_under_an_executor(tmp_path: Path) -> None:
    """For the executor's children the setting changes nothing, and the message says so."""
    case = keeps_names()
    (case.write(tmp_path) / "1_predict/config.pbtxt").unlink()
    with pytest.raises(ConfigIncomplete, match=r"whatever SERVE_AUTO_COMPLETE is$"):
        plan_archive(read_repository(tmp_path), case.graph, Namespace("m"))


def test_rewriting(tmp_path: Path) -> None:
    """What no ensemble can express, and the executor that was asked for, name the one setting."""
    case = inline_alone()
    repository = read_repository(case.write(tmp_path))
    with pytest.raises(
        GraphNotExpressible, match=r"; SERVE_REWRITE=auto serves the executor itself$"
    ):
        plan_archive(repository, case.graph, Namespace("m"), Choices(rewrite=Rewrite.ENSEMBLE))
    served = plan_archive(repository, case.graph, Namespace("m"), Choices(rewrite=Rewrite.EXECUTOR))
    assert served.reasons == ("SERVE_REWRITE=executor asks for it",)
