"""PURE. tritonserver's own metrics page, with its model names taken apart.

tritonserver knows a SageMaker model as several Triton models (docs/decisions/0004). Each sample's
label `model` becomes `target_model`, `model_name` and `step`, which is empty for the entry model.
The label `namespace`, a directory of the container's own, goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from io import StringIO
from itertools import islice

from ensemble_tools import parse_published
from serve.telemetry.exposition import escape

#: Lines that are read before others get their turn: about half a millisecond.
_AT_ONCE = 150
_MODEL, _NAMESPACE = 'model="', ',namespace="'


def rename_models(page: str, targets: Mapping[str, str]) -> Iterator[bytes]:
    """The page in pieces, without the lines of models that are not shown.

    targets: the archive's name for each model that is. tritonserver has a model's lines some time
    longer than the model.
    """
    known: dict[str, str | None] = {}
    lines = StringIO(page)
    while some := list(islice(lines, _AT_ONCE)):
        yield "".join(_rename(line, targets, known) for line in some).encode()


def model_labels(triton_name: str, target_of: Callable[[str], str]) -> dict[str, str]:
    """What stands in the place of the label `model`; step is empty for the entry model."""
    try:
        model_name, step = parse_published(triton_name)
    except ValueError:  # of somebody who shares tritonserver with us
        model_name, step = triton_name, None
    return {"target_model": target_of(model_name), "model_name": model_name, "step": step or ""}


def _rename(line: str, targets: Mapping[str, str], known: dict[str, str | None]) -> str:
    """By hand, since a page of 500 models has twenty thousand lines: a fifth of what regexes take.

    A step whose name needs escapes, which no exporter writes, has no lines.
    """
    head, _, rest = line.partition(_MODEL)
    if not rest or line[0] == "#" or head[-1] not in "{,":
        return line
    name, _, tail = rest.partition('"')
    if name not in known:
        known[name] = _labels(name, targets)
    labels = known[name]
    if labels is None:
        return ""
    if tail.startswith(_NAMESPACE):
        tail = tail[len(_NAMESPACE) :].partition('"')[2]
    return head + labels + tail


def _labels(triton_name: str, targets: Mapping[str, str]) -> str | None:
    if "\\" in triton_name:
        return None
    labels = model_labels(triton_name, lambda name: targets.get(name, ""))
    if labels["model_name"] not in targets:
        return None
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())
