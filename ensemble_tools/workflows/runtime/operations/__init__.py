"""Every operation that a program may have; a new one is entered here.

An operation is a record of its parameters that says what is done to columns: a frozen dataclass
that inherits from Operation, in the file of its family, which is called as the one with its rules.
A family is imported when a program has an operation of it: each model's process imports anew.
"""

from __future__ import annotations

from importlib import import_module
from typing import cast

from .operation import Operation

#: Operations by their names in program.json, and the family and class of each.
CLASSES = {
    "bucketize": ("bucketizing", "Bucketize"),
    "cast": ("scaling", "Cast"),
    "categorify": ("categorify", "Categorify"),
    "clip": ("scaling", "Clip"),
    "difference_lag": ("grouping", "DifferenceLag"),
    "drop_missing": ("filling", "DropMissing"),
    "fill": ("filling", "Fill"),
    "fill_texts": ("filling", "FillTexts"),
    "group": ("grouping", "Group"),
    "hash_bucket": ("hashing", "HashBucket"),
    "is_missing": ("filling", "IsMissing"),
    "join": ("table_joins", "Join"),
    "list_slice": ("lists", "SliceLists"),
    "log1": ("scaling", "Log1"),
    "none_left": ("filling", "NoneLeft"),
    "none_missing": ("filling", "NoneMissing"),
    "normalize": ("scaling", "Normalize"),
    "scale": ("scaling", "Scale"),
    "target_encode": ("target_encoding", "TargetEncode"),
}


def find_operation(name: str) -> type[Operation]:
    """The class of that name in program.json; raises KeyError for one that there is not."""
    family, operation = CLASSES[name]
    return cast("type[Operation]", getattr(import_module(f".{family}", __package__), operation))
