"""PURE. Which models of its archive a python model calls by name.

Triton's python backend lets a model call others (business logic scripting, BLS). Nothing declares
such calls, and they are made at run time by names that only the archive knows. They are found by
the traces that names leave:

1. a string in the model's files that is exactly the name of another model of the archive, where
   these files make requests, or modules beside the models do, or
2. a value of `parameters` in its config that is one, or that lists some;
3. when the files make requests and neither of these finds a name, it may call any model of the
   archive: all count that are no ensemble's steps;
4. some of its names may be put together at run time: what nobody else needs counts as called by the
   only model that calls others and is called by nobody.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ensemble_tools.archive.model_config import EXECUTOR_PLATFORM, ModelConfig
from ensemble_tools.archive.python_files import PythonFiles

#: What stands between the names of a list: written with commas or blanks, or as JSON.
_BETWEEN_NAMES = re.compile(r"[\s,;\[\]{}()\"':]+")
#: A longer value of `parameters` is data; a list of all models of a large archive is shorter.
MAX_PARAMETER = 64 * 1024


@dataclass(frozen=True)
class Traces:
    """Where a model could leave traces of names; python is None when it is no python model."""

    config: ModelConfig | None
    python: PythonFiles | None


def find_calls(
    models: Mapping[str, Traces], *, has_callers_beside: bool = False
) -> dict[str, tuple[str, ...]]:
    """Model -> the models that it calls, in alphabetical order, for models that call or may call.

    has_callers_beside: whether modules that lie beside the models make requests, for any of them.
    A model that makes requests and has nothing to call is listed with no names: its requests must
    not reach another archive's models. A model's own name does not count.
    """
    steps = _list_steps(models)
    calls_by_caller: dict[str, tuple[str, ...]] = {}
    for name, model in models.items():
        if model.python is None:
            continue
        others = models.keys() - {name}
        makes_requests = model.python.makes_requests or has_callers_beside
        strings = model.python.strings if makes_requests else ()
        calls = others & {*strings, *_read_parameters(model.config)}  # 1, 2
        if not calls and model.python.makes_requests:  # 3
            calls = others - steps
        if calls or model.python.makes_requests:
            calls_by_caller[name] = tuple(sorted(calls))
    return calls_by_caller


def call_the_rest(
    models: Mapping[str, Traces],
    calls: Mapping[str, tuple[str, ...]],
    *,
    has_callers_beside: bool = False,
) -> dict[str, tuple[str, ...]]:
    """The calls, with rule 4, which is for an archive that does not say what is meant.

    Beside an ensemble or an executor that nobody needs, the caller may be a part of another one.
    """
    needed = {name for names in calls.values() for name in names} | _list_steps(models)
    unneeded = models.keys() - needed
    callers = [name for name in unneeded if calls.get(name)]
    rest = unneeded.difference(callers)
    if len(callers) != 1 or not all(_is_plain(models[name].config) for name in rest):
        return {**calls}
    (caller,) = callers
    python = models[caller].python
    if python is None or not (python.makes_requests or has_callers_beside):
        return {**calls}
    return {**calls, caller: tuple(sorted({*calls[caller], *rest}))}


def _list_steps(models: Mapping[str, Traces]) -> set[str]:
    return {
        step.model_name for model in models.values() if model.config for step in model.config.steps
    }


def _is_plain(config: ModelConfig | None) -> bool:
    return config is None or not (config.is_ensemble or config.platform == EXECUTOR_PLATFORM)


def _read_parameters(config: ModelConfig | None) -> Iterator[str]:
    if config is None:
        return
    for parameter in config.message.parameters.values():
        value = str(parameter.string_value)
        if len(value) <= MAX_PARAMETER:
            yield value.strip()
            yield from _BETWEEN_NAMES.split(value)
