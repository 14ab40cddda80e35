"""tritonserver's own metrics page, with its model names taken apart. No I/O.

tritonserver knows a SageMaker model as several Triton models (decision 4). Each sample's
label `model` becomes `target_model`, `model_name` and `step`, which is empty for the entry model.
Where a model has come back and its predecessor still leaves, the newest alone has lines. The label
`namespace`, a directory of the container's own, goes.

Archives' Python models may add metrics of their own to the page (pb_utils.MetricFamily), with any
name, help and label. What they wrote stays where it makes no page unreadable and says nothing in
the name of others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from ensemble_tools import drop_number, is_candidate, parse_published
from serve.telemetry.exposition import escape

#: Lines that are read before others get their turn: about half a millisecond.
_AT_ONCE = 150
#: Names of tritonserver's own families begin so, and names of ours.
_OWN, _OURS = "nv_", "serve_"
#: So many lines of families that models made are kept.
_MODELS_LINES = 1_000
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
#: What may stand behind a family's name: a suffix, labels, a number.
_SAMPLE = re.compile(
    r"(?:_bucket|_sum|_count|_total)?"
    r'(?:\{(?:[a-zA-Z_]\w*="(?:[^"\\\x00-\x1f]|\\[\\"n])*",?)*\})?'
    r" (?:[-+]?(?:[0-9.]+(?:e[-+]?[0-9]+)?|Inf)|NaN|Nan)",
    re.ASCII | re.IGNORECASE,
)
_MODEL, _NAMESPACE = 'model="', ',namespace="'


def rename_models(
    page: str, targets: Mapping[str, str], entries: Mapping[str, str]
) -> Iterator[bytes]:
    """The page in pieces, without the lines of models that are not shown.

    targets: the archive's name for each model that is. tritonserver has a model's lines some time
    longer than the model. entries: model_labels'.
    """
    known: dict[str, str | None] = {}
    lines = pick_trusted_lines(page)
    while some := list(islice(lines, _AT_ONCE)):
        yield "".join(_rename(line, targets, entries, known) for line in some).encode()


def pick_trusted_lines(page: str) -> Iterator[str]:
    """The lines of families that stand there once, each family's own; bounded for models' families.

    tritonserver's own families come first on its page. Whatever comes under such a name behind
    them, or under one of ours, a model wrote; and so it did a line that is not of the family above
    it, since a help text is written as it is.
    """
    seen: set[str] = set()
    family, is_own, accepted, left = "", False, False, _MODELS_LINES
    for line in page.split("\n"):
        if line.startswith(("# HELP ", "# TYPE ")):
            name = line.split(" ", 3)[2]
            if name != family or line[2] == "H":
                family, is_own = name, name.startswith(_OWN)
                is_new = name not in seen and not name.startswith(_OURS)
                accepted = is_new and (is_own or _NAME.fullmatch(name) is not None)
                seen.add(name)
        elif not (line.startswith(family) and family):
            continue
        if accepted and not is_own:
            left -= 1
            accepted = left > 0
            if accepted and line[0] != "#" and not _SAMPLE.fullmatch(line, len(family)):
                continue
        if accepted:
            yield line + "\n"


def model_labels(
    triton_name: str, target_of: Callable[[str], str], entries: Mapping[str, str]
) -> dict[str, str] | None:
    """What stands in the place of the label `model`; step is empty for the entry model.

    entries: the newest entry model of each name. None for a model of an older one, which leaves,
    and for a candidate's.
    """
    try:
        model_name, step = parse_published(triton_name)
    except ValueError:  # of somebody who shares tritonserver with us
        model_name, step = triton_name, None
    else:
        entry = triton_name.partition(".")[0]
        if is_candidate(model_name) or entry != entries.get(model_name, drop_number(entry)):
            return None
    return {"target_model": target_of(model_name), "model_name": model_name, "step": step or ""}


def _rename(
    line: str,
    targets: Mapping[str, str],
    entries: Mapping[str, str],
    known: dict[str, str | None],
) -> str:
    """By hand, since a page of 500 models has twenty thousand lines: a fifth of what regexes take.

    A step whose name needs escapes, which no exporter writes, has no lines.
    """
    head, _, rest = line.partition(_MODEL)
    if not rest or line[0] == "#" or head[-1] not in "{,":
        return line
    name, _, tail = rest.partition('"')
    if name not in known:
        known[name] = _read_labels(name, targets, entries)
    labels = known[name]
    if labels is None:
        return ""
    if tail.startswith(_NAMESPACE):
        tail = tail[len(_NAMESPACE) :].partition('"')[2]
    return head + labels + tail


def _read_labels(
    triton_name: str, targets: Mapping[str, str], entries: Mapping[str, str]
) -> str | None:
    if "\\" in triton_name:
        return None
    labels = model_labels(triton_name, lambda name: targets.get(name, ""), entries)
    if labels is None or labels["model_name"] not in targets:
        return None
    return ",".join(f'{name}="{escape(value)}"' for name, value in labels.items())
