"""Whether an archive could be served: by the rules of a load."""

from __future__ import annotations

from pathlib import Path

from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.opened_archive import read_archive, require_plan


def check_archive(path: Path, *, strict: bool) -> tuple[str, ...]:
    """The notes of the plan by which a directory would be served; raises its refusal.

    strict: Triton completes no config. SageMaker gives the model's name, so any
    will do here. Raises EnsembleToolsError, OSError.
    """
    archive = read_archive(path, "model", strict=strict, workflows=Compile.AUTO)
    plan = require_plan(archive)
    return (*plan.notes, *plan.doubts)
