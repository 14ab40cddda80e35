"""In which form each workflow of the tutorials is served: docs/workflows.md."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from ensemble_tools.explain.archive_picture import make_picture
from ensemble_tools.explain.picture import Workflow
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.opened_archive import read_archive

_EXPORTS = Path(__file__).parents[1] / "golden/tutorials"


def tutorials() -> str:
    """A row for each workflow: the notebook, its form, and why NVTabular runs it, or some of it."""
    head = ["| tutorial | its workflow | what NVTabular runs, and why |", "|---|---|---|"]
    notebooks = sorted(_EXPORTS.glob("notebooks/*.py"))
    rows = dict.fromkeys(row for notebook in notebooks for row in _rows(notebook))
    return "\n".join([*head, *rows])


def _rows(notebook: Path) -> Iterator[str]:
    told = ast.get_docstring(ast.parse(notebook.read_text())) or ""
    # Not of this tree.
    told = told.replace(", examples/", ", ")
    paragraph = " ".join(told.partition("\n\n")[0].split()).removesuffix(".")
    for workflow in _workflows(_EXPORTS / notebook.stem / "repository"):
        reasons = [workflow.not_compiled] if workflow.not_compiled else workflow.kept
        yield f"| {paragraph} | {workflow.mark} | {'; '.join(_join_alike(reasons))} |"


def _join_alike(reasons: Iterable[str]) -> Iterator[str]:
    """Operators that NVTabular runs for the same reason, which stands behind the last colon."""
    alike: dict[str, list[str]] = {}
    for reason in reasons:
        operator, _, why = reason.rpartition(": ")
        alike.setdefault(why, []).append(operator)
    for why, operators in alike.items():
        yield f"{', '.join(dict.fromkeys(operators))}: {why}" if operators != [""] else why


def _workflows(repository: Path) -> list[Workflow]:
    archive = read_archive(repository, "model", workflows=Compile.AUTO)
    triton = make_picture(archive, "model").triton
    return [node.workflow for node in (triton.nodes if triton else ()) if node.workflow]
