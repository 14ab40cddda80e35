"""PURE: what the program that compares a compiled workflow with NVTabular reads, and its verdict.

`workflows/check_model.py` is that program; who has a process for it joins the two.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from google.protobuf import json_format

from ensemble_tools.archive.model_config import parse_leniently
from ensemble_tools.serving.serving_plan import PublishedModel
from ensemble_tools.steps.sources import SERVED

#: Of a difference, what a log shows, in characters: it names what others chose.
_LONGEST_DIFFERENCE = 300


@dataclass(frozen=True)
class Verdict:
    """What a check found. reason: why the workflow is not served compiled, empty for equal.

    asked: how many requests both were asked; answered: how many of them NVTabular answered.
    """

    reason: str
    asked: int = 0
    answered: int = 0


def find_check_program() -> Path:
    """The program, which the models' Python runs by its path."""
    return _program("check_model.py")


def _program(name: str) -> Path:
    return Path(str(files("ensemble_tools.workflows").joinpath(name)))


def describe_check(model: PublishedModel, directory: Path) -> str:
    """What the program reads: the compiled model in its directory, and the delivered one."""
    assert model.compiled is not None
    assert model.config_text is not None
    compiled = directory.absolute() / model.compiled.place
    if model.warm and model.compiled.program.kept:  # a child of a warm interpreter runs it
        compiled = compiled.with_name(SERVED)
    version, file = Path(model.compiled.place).parts[0], Path(*Path(model.compiled.place).parts[1:])
    message = parse_leniently(model.config_text)
    config = json_format.MessageToDict(message, preserving_proto_field_name=True)
    config.setdefault("parameters", {})  # Triton's JSON has all fields
    return json.dumps(
        {
            "directory": str(directory.absolute() / version),
            "compiled": str(compiled),
            "original": str(dict(model.links)[version].absolute() / file),
            "reader": str(_program("graph_json_model.py")) if model.no_pickle else "",
            "config": config,
        }
    )


def read_verdict(text: str) -> Verdict:
    """What the program wrote. What is not certain is a reason, too."""
    try:
        found = json.loads(text)
        asked, answered, difference = found["asked"], found["answered"], found["difference"]
        if not (isinstance(asked, int) and isinstance(answered, int)):
            raise TypeError
    except (ValueError, KeyError, TypeError):
        return Verdict("the comparison with NVTabular ended without a result")
    if difference:
        shown = " ".join(str(difference).split())[:_LONGEST_DIFFERENCE]
        return Verdict(f"compiled, it differs from NVTabular ({shown})", asked, answered)
    if not answered:
        reason = f"NVTabular answered none of {asked} generated requests, so it was not compared"
        return Verdict(reason, asked, answered)
    return Verdict("", asked, answered)
