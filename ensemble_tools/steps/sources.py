"""Templates -> the text of a generated model.py.

A template is a whole python model in a file of this directory. What differs from model to model
stands at its end, as literals that a person can read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pprint import pformat

_FILLED_IN = "# --- what this model does\n"
_CONVERSIONS = "# --- conversions\n"
_LIBRARY = 'LIBRARY = "nvtabular"\n'
_WIDTH = 100
#: Operators that need a library; the others need numpy alone, and are in one template.
_OWN_TEMPLATES = {"search", "recommend", "lookup"}
#: What render_warm's file calls the model's own.
SERVED = "served_model.py"

#: A conversion as the templates read it: kind, columns, reads, writes, dtype, shape, why.
ConversionRow = Mapping[str, object]
#: A step as joined_model.py reads it: name, model_file, folder, version, config,
#: functions, reads, writes.
StepRow = Mapping[str, object]


def convert_source(conversions: list[ConversionRow]) -> str:
    """The step that carries out conversions."""
    return _fill_in(_read_template("convert"), {"CONVERSIONS": conversions})


def render_front(
    model: str,
    sent: list[str],
    fetched: list[str],
    before: list[ConversionRow],
    after: list[ConversionRow],
    answer: list[tuple[str, str]],
) -> str:
    """The model in front of an ensemble: model is its Triton name, empty for none.

    sent, fetched: the ensemble's inputs and outputs. answer: output names and the tensors behind.
    """
    top, _, end = _read_template("front").partition(_CONVERSIONS)
    carried_out = _read_template("convert").partition(_CONVERSIONS)[2].partition(_FILLED_IN)[0]
    rest = end.lstrip("\n")
    return _fill_in(
        f"{top}{_CONVERSIONS}{carried_out}{rest}",
        {
            "MODEL": model,
            "SENT": sent,
            "FETCHED": fetched,
            "BEFORE": before,
            "AFTER": after,
            "ANSWER": answer,
        },
    )


def render_forest(model: str, columns: list[str], outputs: list[str]) -> str:
    """The step that calls a forest: model is its Triton name; no columns: the matrix comes made."""
    return _fill_in(
        _read_template("forest"), {"MODEL": model, "COLUMNS": columns, "OUTPUTS": outputs}
    )


def render_delivered(layout: str, model: str, archive: str, names: Mapping[str, str]) -> str:
    """The file that runs the delivered one of its own name.

    layout: a link to the copy of the archive's layout, seen from this file. model: the model's
    directory in it. archive: the directory as it was delivered. names: the models that it may call,
    by their names in the archive -> their Triton names.
    """
    filled = _fill_in(_read_template("delivered"), {"_NAMES": dict(names)})
    constants = f"_LAYOUT = {layout!a}\n_MODEL = {model!a}\n_ARCHIVE = {archive!a}\n"
    return f"{filled}{constants}_Delivered(_LAYOUT, _MODEL, _ARCHIVE, _NAMES).run()\n"


def render_merlin(
    calls: Mapping[str, Mapping[str, str]],
    readers: Mapping[str, tuple[tuple[int, ...], Mapping[str, str]]],
) -> str:
    """The step that runs inline operators.

    calls: model -> its output tensors and the inputs of this step that hold them. readers: what is
    fed -> its path in the graph, and its tensors and the outputs of this step that hold them.
    """
    return _fill_in(
        _read_template("merlin"),
        {
            "CALLS": {name: dict(outputs) for name, outputs in calls.items()},
            "READERS": {name: (path, dict(outputs)) for name, (path, outputs) in readers.items()},
        },
    )


def render_operator(
    operator: str,
    kind: str,
    reads: Mapping[str, Sequence[str]],
    writes: Mapping[str, str],
    settings: Mapping[str, object],
) -> str:
    """The step in the place of an operator without a model. operator: its name, for messages.

    kind: what it does. reads: column -> its tensors. writes: column that is put out -> the one that
    it is made of.
    """
    constants = {
        "OPERATOR": operator,
        "READS": dict(reads),
        "WRITES": dict(writes),
        "SETTINGS": dict(settings),
    }
    template = kind if kind in _OWN_TEMPLATES else "operator"
    return _fill_in(_read_template(template), {"KIND": kind, **constants})


def render_warm(library: str = "nvtabular") -> str:
    """The file in front of one that is then called SERVED; library: what that one needs."""
    return _read_template("warm").replace(_LIBRARY, f"LIBRARY = {library!r}\n")


def render_joined(steps: Sequence[StepRow], answer: Sequence[str]) -> str:
    """The model that runs others as its steps. answer: the tensors of the ensemble to answer."""
    return _fill_in(_read_template("joined"), {"STEPS": [*steps], "ANSWER": [*answer]})


def _read_template(name: str) -> str:
    return files(__package__).joinpath(f"{name}_model.py").read_text(encoding="utf-8")


def _fill_in(template: str, constants: Mapping[str, object]) -> str:
    head = template.partition(_FILLED_IN)[0]
    lines = [
        f"{name} = {pformat(value, width=_WIDTH, sort_dicts=False)}"
        for name, value in constants.items()
    ]
    return f"{head}{_FILLED_IN}\n" + "\n".join(lines) + "\n"
