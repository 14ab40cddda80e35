"""Which models a warm interpreter's children may run.

Those whose file is Merlin's workflow step, as merlin-systems 23.08 exports it, or a step of ours
that runs Merlin's operators, or needs a library that takes long to import: no code of the archive's
but what its pickles hold, as ever. What may use a GPU of the machine is not forked.
"""

from __future__ import annotations

from dataclasses import replace

from ensemble_tools.archive.source_model import SourceModel
from ensemble_tools.serving.gpu_use import GRAPH_LINK
from ensemble_tools.serving.serving_plan import PublishedModel


def find_warm_model_file(model: PublishedModel, source: SourceModel | None) -> PublishedModel:
    """The model, with the path of its model.py if such a child may run it.

    source: what the archive has of it.
    """
    return replace(model, warm=_find_model_file(model, source))


def _find_model_file(model: PublishedModel, source: SourceModel | None) -> str:
    if model.may_use_gpu:
        return ""
    if model.generated and (model.interpreter or GRAPH_LINK in dict(model.links)):
        return next((name for name, _ in model.files), "")
    if source is None or source.workflow is None or len(source.versions) != 1:
        return ""
    model_file = f"{source.served_version}/{source.python_file}"
    if model.compiled is None:
        return model_file if source.workflow.merlins_step else ""
    return model_file if model.compiled.program.kept else ""
