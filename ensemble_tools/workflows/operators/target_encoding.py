"""Categories to smoothed means of the targets: TargetEncoding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ensemble_tools.workflows import parameters as read
from ensemble_tools.workflows.frames import Frame, Kind
from ensemble_tools.workflows.parameters import Unknown
from ensemble_tools.workflows.program import Means, Table
from ensemble_tools.workflows.rules import OperatorCall, Rule, nvtabular
from ensemble_tools.workflows.runtime.operations.target_encoding import TargetEncode
from ensemble_tools.workflows.runtime.records import NumpyNumber

#: The column of the folds, in files and in frames.
_FOLD = "__fold__"
#: The column of the rows' numbers, by which they are sorted after the merge.
_ROWS = "__tmp__"


@dataclass(frozen=True)
class _FittedEncoding:
    """The operator's fitted state, checked."""

    folds: int
    seed: int | None
    smoothing: int | float
    files: Mapping[str, Any]
    targets: tuple[str, ...]
    #: Each target's mean.
    means: tuple[int | float, ...]
    #: The type of what it makes.
    dtype: str
    keeps_folds: bool


def encode_targets(call: OperatorCall) -> Frame:
    """TargetEncoding, one step a group of columns. Of the folds the last group's are kept."""
    fitted = _read_fitted(call)
    separator = call.parameter("name_sep")
    names = _target_names(call, fitted.targets, separator)
    _check_names(call, fitted, names)
    frame: Frame = {}
    for number, (columns, outputs) in enumerate(zip(call.groups, names, strict=True)):
        keys, kinds = call.keys(columns)
        table = call.emitter.table(_table(call, fitted, columns, kinds, separator))
        keeps = number == len(names) - 1 and fitted.keeps_folds
        operation = TargetEncode(
            table, fitted.means, fitted.folds, fitted.seed, (fitted.dtype,), keeps
        )
        writes = [keys[0].cast(fitted.dtype) for _ in outputs]
        if keeps:
            outputs = [*outputs, _FOLD]
            writes.append(replace(keys[0], kind=Kind.INT, width=0))
        written = call.emit_several(operation, keys, writes, columns)
        frame.update(zip(outputs, written, strict=True))
    return frame


def _read_fitted(call: OperatorCall) -> _FittedEncoding:
    folds, seed = read.whole(call.parameter("kfold"), "kfold"), call.parameter("fold_seed")
    if seed is not None and not 0 <= read.whole(seed, "fold_seed") < 2**32:
        raise Unknown(f"fold_seed is {seed}")
    if folds < 1:
        raise Unknown(f"kfold is {folds}")
    smoothing = read.number(call.parameter("p_smooth"), "p_smooth")
    if isinstance(smoothing, NumpyNumber):
        raise Unknown("p_smooth is none of Python's numbers")
    files = read.mapping(call.parameter("stats"), "stats")
    targets = read.node_columns(call.parameter("target"), "target")
    means = _means(call, targets)
    dtype = read.dtype(call.parameter("out_dtype"), "out_dtype", "float32")
    if dtype not in ("float32", "float64"):
        raise call.refuse(call.names, f"out_dtype is {dtype}")
    keeps_folds = folds > 1 and not read.flag(call.parameter("drop_folds"), "drop_folds")
    return _FittedEncoding(folds, seed, smoothing, files, targets, means, dtype, keeps_folds)


def _check_names(call: OperatorCall, fitted: _FittedEncoding, names: Iterable[list[str]]) -> None:
    """The names that TargetEncoding.transform and _op_group_logic give columns of their own."""
    own = {_ROWS, "count_y_all", *(f"{target}_sum_y_all" for target in fitted.targets)}
    if fitted.folds > 1:
        own |= {_FOLD, "count_y", *(f"{target}_sum_y" for target in fitted.targets)}
    outputs = [name for group in names for name in group]
    if len(set(outputs)) != len(outputs):
        raise call.refuse(call.names, "it gives two columns one name")
    call.check_names(call.names, {*own, *outputs})
    call.check_names(outputs, own)


def _means(call: OperatorCall, targets: Iterable[str]) -> tuple[int | float, ...]:
    means = call.parameter("target_mean") or call.parameter("means")
    by_target = [read.number_for(read.mapping(means, "means"), name, "means") for name in targets]
    if any(isinstance(mean, NumpyNumber) for mean in by_target):
        raise Unknown("a mean is none of Python's numbers")
    return tuple(map(read.plain, by_target))


def _table(
    call: OperatorCall,
    fitted: _FittedEncoding,
    columns: tuple[str, ...],
    kinds: tuple[str, ...],
    separator: str,
) -> Table:
    overall = call.category_file(fitted.files.get(separator.join(columns)))
    if fitted.folds == 1:
        return Table(overall, columns, kinds, means=Means(None, fitted.smoothing, fitted.means))
    keys = (_FOLD, *columns)
    path = call.category_file(fitted.files.get(separator.join(keys)))
    means = Means(overall, fitted.smoothing, fitted.means)
    return Table(path, keys, ("whole", *kinds), means=means)


def _target_names(call: OperatorCall, targets: tuple[str, ...], separator: str) -> list[list[str]]:
    """The names of each group's columns."""
    named = call.parameter("out_col")
    by_group = []
    for number, group in enumerate(call.groups):
        if isinstance(named, list):
            own = named[number] if number < len(named) else None
            names = [own] if isinstance(own, str) else list(read.names(own, "out_col"))
        elif named is None:
            names = [f"TE_{separator.join(group)}_{target}" for target in targets]
        else:
            raise Unknown("out_col is not a list")
        if len(names) != len(targets):
            raise Unknown("out_col and target are of different sizes")
        by_group.append(names)
    return by_group


RULES = (Rule(nvtabular("target_encoding", "TargetEncoding"), encode_targets),)
