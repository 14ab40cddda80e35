"""The template of a python model that calls others -> the text of its generated model.py."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pprint import pformat

_TEMPLATE = "named_calls_model.py"
_WIDTH = 90


def named_calls_source(delivered: str, names: Mapping[str, str]) -> str:
    """The file that stands in for the delivered one, which lies beside it under that name.

    names: the models that it may call, by their names in the archive -> their Triton names.
    """
    template = files(__package__).joinpath(_TEMPLATE).read_text(encoding="utf-8")
    listed = pformat(dict(names), width=_WIDTH, sort_dicts=False)
    return f"{template}\n_NAMES = {listed}\n_run_delivered({delivered!r}, _NAMES)\n"
