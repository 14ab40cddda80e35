"""Smoothed means of targets, from the sums and counts that TargetEncoding keeps in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..program import Means
from .category_files import CategoryFiles
from .errors import TableUnusable


def smooth_means(
    files: CategoryFiles, path: Path, key_count: int, means: Means
) -> tuple[list[Any], dict[str, Any]]:
    """TargetEncoding._op_group_logic, for all categories at once: keys, and what stands beside.

    With folds (means.overall) the first key is the fold, and the mean is that of the other folds'
    rows. Raises TableUnusable.
    """
    keys, count, sums = _read(files, path, key_count, len(means.targets))
    if means.overall is not None:
        every, overall_count, overall_sums = _read(
            files, means.overall, key_count - 1, len(means.targets)
        )
        rows = _find_rows(every, keys[1:], means.overall)
        count = overall_count[rows] - count
        sums = [overall[rows] - own for overall, own in zip(overall_sums, sums, strict=True)]
    with np.errstate(all="ignore"):
        return keys, {
            str(target): (total + means.smoothing * mean) / (count + means.smoothing)
            for target, (total, mean) in enumerate(zip(sums, means.targets, strict=True))
        }


def _read(
    files: CategoryFiles, path: Path, key_count: int, target_count: int
) -> tuple[list[Any], Any, list[Any]]:
    """Keys, a count and sums: a file's columns by position."""
    data = list(files.read(path, None).values())
    numbers = data[key_count:]
    if len(numbers) != 1 + target_count or any(array.dtype.kind not in "iuf" for array in numbers):
        raise TableUnusable(
            f"the category file {path.name} has {len(data)} columns, and the workflow reads "
            f"{key_count} keys, a count and {target_count} sums"
        )
    return data[:key_count], numbers[0], numbers[1:]


def _find_rows(every: list[Any], values_wanted: list[Any], path: Path) -> Any:
    """The row of the first that is equal, for each row of the second."""
    size = len(every[0])
    code = np.zeros(size + len(values_wanted[0]), np.int64)
    for first, second in zip(every, values_wanted, strict=True):
        if first.dtype.kind != second.dtype.kind:
            raise TableUnusable(f"the category file {path.name} has keys of another type")
        values, rank = np.unique(np.concatenate([first, second]), return_inverse=True)
        code = np.unique(code * len(values) + rank.reshape(-1), return_inverse=True)[1].reshape(-1)
    order = np.argsort(code[:size], kind="stable")
    rows = np.searchsorted(code[:size], code[size:], sorter=order)
    matches = order[np.minimum(rows, size - 1)]
    if not size or (code[matches] != code[size:]).any() or len(np.unique(code[:size])) != size:
        raise TableUnusable(f"the category file {path.name} does not fit the one of its folds")
    return matches
