"""ServingPlan -> ServingPlan whose workflows NVTabular 23.08 can read, to compare others with it.

It knows no graph.json. What is served is never so: there NVTabular itself must read its workflow.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import PurePosixPath

from ensemble_tools.serving.serving_plan import PublishedModel, ServingPlan

#: What the reader is called beside a model's model.py.
_READER = "reader_of_graph_json"
_FRONT = f"import {_READER}\n\n{_READER}.set_reader()\n\n"


def add_json_readers(plan: ServingPlan) -> ServingPlan:
    """The plan, with a reader for each workflow that was saved as graph.json. Blocking."""
    return replace(plan, models=tuple(map(_add_reader, plan.models)))


def _add_reader(model: PublishedModel) -> PublishedModel:
    """Merlin's own model.py, behind two lines of ours."""
    if not model.json_workflow_path or model.compiled is not None or model.own_code is None:
        return model
    (file,) = model.own_code.files
    version, name = file.split("/")
    model_file = (dict(model.links)[version] / name).read_text(encoding="utf-8")
    reader = files("ensemble_tools.workflows").joinpath("graph_json_model.py").read_text("utf-8")
    beside = str(PurePosixPath(version) / f"{_READER}.py")
    generated = ((file, f"{_FRONT}{model_file}"), (beside, reader))
    return replace(model, files=generated, own_code=None, json_workflow_path="")
