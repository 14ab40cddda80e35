"""Numbers to the numbers of bins: Bucketize."""

from __future__ import annotations

from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import Frame, Kind
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.rules import KeptColumns, OperatorCall, Rule, nvtabular
from ensemble_tools.workflows.runtime.operations.bucketizing import Bucketize


def bucketize(call: OperatorCall) -> Frame:
    """Boundaries are kept in a function of NVTabular's own, which closes over them."""
    if call.parameter("use_digitize") is not True:
        raise Unknown("use_digitize is not True")
    bounds = read.closed_over(
        call.parameter("boundaries"),
        "nvtabular.ops.bucketize",
        "Bucketize.__init__.<locals>.<lambda>",
    )
    frame: Frame = {}
    for name, column in call.each(call.scalars(call.names, Kind.INT, Kind.FLOAT)):
        own = read.mapping(bounds, "boundaries").get(name) if isinstance(bounds, dict) else bounds
        if not isinstance(own, list | tuple) or not own:
            raise Unknown(f"it has no boundaries for {name}")
        numbers = tuple(read.number(bound, "a boundary") for bound in own)
        plain = [read.plain(number) for number in numbers]
        if plain != sorted(plain):
            raise call.refuse([name], "its boundaries are not in ascending order")
        frame[name] = call.emit(Bucketize(numbers), [column], column.cast("int32"), name)
    return frame


RULES = (Rule(nvtabular("bucketize", "Bucketize"), bucketize, KeptColumns.ALONE),)
