"""Checks a delivered NVTabular workflow: its files, and the NVTabular that is to run it. No I/O."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from ensemble_tools.archive.source_model import WORKFLOW, SourceModel
from ensemble_tools.archive.workflow_files import METADATA, WorkflowFiles
from ensemble_tools.errors import PayloadBroken, PayloadMissing, ReleaseUnfit, quoted, shown

#: Workflows from before it load in later releases and fail at each request (seen: 23.05 in 23.08).
_CHANGED = (23, 6)


def check_workflow(model: SourceModel, workflow: WorkflowFiles) -> None:
    """Raise PayloadMissing or PayloadBroken where a workflow could not answer."""
    if workflow.missing:
        raise PayloadMissing(
            workflow.missing[0],
            "there is no such file, and it is part of the workflow; export it again, or add it",
        )
    for operator, file in workflow.elsewhere:
        raise PayloadMissing(
            model.directory,
            f"{operator} of its workflow reads {shown(file)}, which is not in the archive: "
            f"NVTabular copies what lies under out_path alone; give {operator} "
            f"out_path={quoted(os.path.dirname(file))} (or vocabs as pandas Series), and export it "
            "again",
        )
    for path, problem in workflow.broken:
        raise PayloadBroken(path, problem, "export it again")


def check_nvtabulars(models: Iterable[SourceModel], nvtabular: str) -> None:
    """Raise ReleaseUnfit or PayloadBroken for a workflow that NVTabular is to run, and fails on.

    models: those that are not compiled. nvtabular: the version that there is, empty: not known.
    """
    for model in models:
        if model.workflow is not None:
            _check_release(model, model.workflow, nvtabular)
            _check_label(model, model.workflow)


def _check_release(model: SourceModel, workflow: WorkflowFiles, nvtabular: str) -> None:
    written, installed = _parse_release(workflow.nvtabular), _parse_release(nvtabular)
    is_labelled_old = bool(written) and written < _CHANGED
    if (is_labelled_old or workflow.content.is_old) and installed >= _CHANGED:
        writer = f"nvtabular {workflow.nvtabular}"
        if not is_labelled_old:
            writer = f"an nvtabular from before 23.06 ({workflow.content.unlike})"
        raise ReleaseUnfit(
            model.directory,
            f"its workflow was written by {writer}, and the models' Python "
            f"has {nvtabular}, which cannot run workflows from before 23.06",
            "export it again with Merlin 23.08, or use an image of its own release",
        )


def _check_label(model: SourceModel, workflow: WorkflowFiles) -> None:
    """Raise PayloadBroken for a workflow whose label NVTabular fails on."""
    if workflow.unlabelled:
        path = model.directory / str(model.served_version) / WORKFLOW / METADATA
        raise PayloadBroken(path, workflow.unlabelled, "export it again")


def _parse_release(version: str) -> tuple[int, ...]:
    """The numbers of a version's release, such as (23, 6); none when it is no such version."""
    match = re.match(r"([0-9]{1,6})(?:\.([0-9]{1,6})(?![0-9])|$)", version)
    return tuple(int(part) for part in match.groups() if part) if match else ()
