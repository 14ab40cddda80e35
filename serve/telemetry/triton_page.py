"""PURE. tritonserver's own metrics page, with its model names taken apart.

tritonserver knows a SageMaker model as several Triton models (docs/decisions/0004). Each sample's
label `model` becomes `target_model`, `model_name` and `step`, which is empty for the entry model.
The label `namespace`, a directory of the container's own, goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ensemble_tools import parse_published
from serve.telemetry.exposition import escape

#: Lines that are read before others get their turn: half a millisecond.
_AT_ONCE = 400
#: Where its model lies: a directory of ours that changes with each start.
_NAMESPACE = re.compile(r'(?<=[{,])namespace="(?:[^"\\]|\\.)*",')
_MODEL = re.compile(r'(?<=[{,])model="((?:[^"\\]|\\.)*)"')


def rename_models(page: str, target_of: Callable[[str], str]) -> Iterator[bytes]:
    """The page in pieces. target_of: the archive's name for a model's name."""
    known: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        name = found[1]
        labels = known.get(name)
        if labels is None:
            labels = known[name] = _labels(name, target_of)
        return labels

    lines = page.splitlines(keepends=True)
    for start in range(0, len(lines), _AT_ONCE):
        some = "".join(lines[start : start + _AT_ONCE])
        yield _MODEL.sub(rename, _NAMESPACE.sub("", some)).encode()


def _labels(triton_name: str, target_of: Callable[[str], str]) -> str:
    try:
        model_name, step = parse_published(triton_name)
    except ValueError:  # a model of somebody else's, or a name that needs escapes
        model_name, step = triton_name, None
    target = escape(target_of(model_name))
    return f'target_model="{target}",model_name="{model_name}",step="{step or ""}"'
