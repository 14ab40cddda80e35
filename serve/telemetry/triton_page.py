"""PURE. tritonserver's own metrics page, with its model names taken apart.

tritonserver knows a SageMaker model as several Triton models (docs/decisions/0004). Each sample's
label `model` becomes `target_model`, `model_name` and `step`, which is empty for the entry model.
The label `namespace`, a directory of the container's own, goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ensemble_tools import parse_published
from serve.telemetry.exposition import escape

#: Lines that are read before others get their turn: about half a millisecond.
_AT_ONCE = 400
#: Where its model lies: a directory of ours that changes with each start.
_NAMESPACE = re.compile(r'(?<=,)namespace="(?:[^"\\]|\\.)*",?')
_MODEL = re.compile(r'(?<=[{,])model="((?:[^"\\]|\\.)*)"')


def rename_models(page: str, targets: Mapping[str, str]) -> Iterator[bytes]:
    """The page in pieces, without the lines of models that are not shown.

    targets: the archive's name for each model that is. tritonserver has a model's lines some time
    longer than the model.
    """
    known: dict[str, str | None] = {}
    lines = page.splitlines(keepends=True)
    for start in range(0, len(lines), _AT_ONCE):
        some = (_rename(line, targets, known) for line in lines[start : start + _AT_ONCE])
        yield "".join(some).encode()


def _rename(line: str, targets: Mapping[str, str], known: dict[str, str | None]) -> str:
    found = None if line.startswith("#") else _MODEL.search(line)
    if found is None:
        return line
    name = found[1]
    if name not in known:
        known[name] = _labels(name, targets)
    labels = known[name]
    if labels is None:
        return ""
    return f"{line[: found.start()]}{labels}{_NAMESPACE.sub('', line[found.end() :], 1)}"


def _labels(triton_name: str, targets: Mapping[str, str]) -> str | None:
    try:
        model_name, step = parse_published(triton_name)
    except ValueError:  # of somebody who shares tritonserver with us
        model_name, step = triton_name, None
    if model_name not in targets:
        return None
    target = escape(targets[model_name])
    return f'target_model="{target}",model_name="{model_name}",step="{step or ""}"'
