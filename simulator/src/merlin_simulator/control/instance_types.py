"""SageMaker's instance types: memory and cores by name. No I/O."""

from __future__ import annotations

import re

from merlin_simulator.rules import GIB

#: GiB for each vCPU.
_FAMILIES = {
    "c4": 1.875, "c5": 2, "c5d": 2, "c6i": 2, "c6id": 2, "c6g": 2, "c6gd": 2, "c6gn": 2,
    "c7i": 2, "c7g": 2, "c8g": 2, "inf1": 2, "inf2": 4,
    "m4": 4, "m5": 4, "m5d": 4, "m6i": 4, "m6id": 4, "m6g": 4, "m6gd": 4, "m7i": 4, "m8g": 4,
    "g4dn": 4, "g5": 4, "g6": 4, "g6e": 8, "gr6": 8, "r5": 8, "r5d": 8, "r6i": 8, "r6id": 8,
    "r6g": 8, "r6gd": 8, "r7i": 8, "r8g": 8, "p2": 15.25, "p3": 7.625,
}  # fmt: skip
_SIZES = {"medium": 1, "large": 2, "xlarge": 4}
#: Types whose memory does not follow from family and size, in GiB.
_OTHERS = {"ml.t2.medium": 4.0, "ml.t2.large": 8.0, "ml.t2.xlarge": 16.0, "ml.t2.2xlarge": 32.0}
_OTHER_CORES = {"ml.t2.medium": 2, "ml.t2.large": 2, "ml.t2.xlarge": 4, "ml.t2.2xlarge": 8}
_NAME = re.compile(r"ml\.(?P<family>[a-z0-9]+)\.(?P<many>\d*)(?P<size>medium|large|xlarge)")


def memory_of(instance_type: str) -> int | None:
    """Bytes; None where the type's memory is not known here."""
    if instance_type in _OTHERS:
        return int(_OTHERS[instance_type] * GIB)
    match = _NAME.fullmatch(instance_type)
    if match is None or match["family"] not in _FAMILIES:
        return None
    return int(_FAMILIES[match["family"]] * _SIZES[match["size"]] * int(match["many"] or 1) * GIB)


def count_cores(instance_type: str) -> int | None:
    """vCPUs; None where the type is not known here."""
    if instance_type in _OTHER_CORES:
        return _OTHER_CORES[instance_type]
    match = _NAME.fullmatch(instance_type)
    if match is None or match["family"] not in _FAMILIES:
        return None
    return _SIZES[match["size"]] * int(match["many"] or 1)


def list_families() -> list[str]:
    """Families of the types that are known here."""
    return sorted(_FAMILIES)
