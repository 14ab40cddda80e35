"""Which models of its archive a python model calls by name. No I/O.

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

from ensemble_tools.archive.model_config import EXECUTOR_PLATFORM, ModelConfig
from ensemble_tools.archive.python_files import PythonFiles
from ensemble_tools.archive.source_model import SourceModel

#: What stands between the names of a list: written with commas or blanks, or as JSON.
_BETWEEN_NAMES = re.compile(r"[\s,;\[\]{}()\"':]+")
#: A longer value of `parameters` is data; a list of all models of a large archive is shorter.
MAX_PARAMETER = 64 * 1024


def find_calls(
    models: Mapping[str, SourceModel],
    python: Mapping[str, PythonFiles],
    *,
    has_callers_beside: bool,
    is_entry_named: bool,
) -> dict[str, tuple[str, ...]]:
    """Model -> the models that it calls, in alphabetical order, for models that call or may call.

    python: what the python models' own files say. has_callers_beside: whether modules that lie
    beside the models make requests, for any of them. is_entry_named: rule 4 is for an archive that
    does not say what is meant. A model that makes requests and has nothing to call is listed with
    no names: its requests must not reach another archive's models. A model's own name does not
    count.
    """
    steps = {name for model in models.values() for name in model.step_names}
    calls: dict[str, tuple[str, ...]] = {}
    for name, files in python.items():
        others = models.keys() - {name}
        strings = files.strings if files.makes_requests or has_callers_beside else ()
        called = others & {*strings, *_read_parameters(models[name].config)}  # 1, 2
        if not called and files.makes_requests:  # 3
            called = others - steps
        if called or files.makes_requests:
            calls[name] = tuple(sorted(called))
    if is_entry_named:
        return calls
    unneeded = models.keys() - steps.union(*calls.values())  # 4
    callers = [name for name in unneeded if calls.get(name)]
    rest = unneeded.difference(callers)
    # Beside an ensemble or an executor that nobody needs, the caller may be a part of another one.
    if len(callers) == 1 and all(_is_plain(models[name].config) for name in rest):
        (caller,) = callers
        if python[caller].makes_requests or has_callers_beside:
            calls[caller] = tuple(sorted({*calls[caller], *rest}))
    return calls


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
