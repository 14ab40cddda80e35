"""Values to buckets by their hash: HashBucket and HashedCross."""

from __future__ import annotations

from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import Frame
from ensemble_tools.workflows.rules import KeptColumns, OperatorCall, Rule, Unnamed, nvtabular
from ensemble_tools.workflows.runtime.operations.hashing import HashBucket


def hash_to_buckets(call: OperatorCall) -> Frame:
    """HashBucket."""
    buckets = call.parameter("num_buckets")
    if not isinstance(buckets, dict):
        buckets = dict.fromkeys(call.names, buckets)
    frame = dict(call.frame)
    for name, count in read.mapping(buckets, "num_buckets").items():
        (column,) = call.scalars([name], with_gaps=True)
        operation = HashBucket(read.bucket_count(count))
        frame[name] = call.emit(operation, [column], column.cast("int32"), name)
    return frame


def hash_crossed(call: OperatorCall) -> Frame:
    """HashedCross: one column of all."""
    columns = call.scalars(call.names, with_gaps=True)
    buckets = call.parameter("num_buckets")
    if isinstance(buckets, dict):
        buckets = buckets.get(call.names)
    operation = HashBucket(read.bucket_count(buckets))
    name = "_X_".join(call.names)
    return {name: call.emit(operation, columns, columns[0].cast("int32"), name)}


RULES = (
    Rule(
        nvtabular("hash_bucket", "HashBucket"),
        hash_to_buckets,
        KeptColumns.BESIDE_INPUT,
        unnamed=Unnamed.PASSED_ON,
    ),
    Rule(nvtabular("hashed_cross", "HashedCross"), hash_crossed, KeptColumns.ALONE),
)
