"""Reads a forest's file, of XGBoost, LightGBM or treelite: its features, classes and kind."""

from __future__ import annotations

import json
import math
import re
import struct
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_tools.archive.files import read_with

#: How far from the end of XGBoost's file its parameters are looked for.
_MAX_TAIL = 1024 * 1024
#: Of a forest's file, what tells its format; LightGBM writes its parameters there.
_HEAD = 64 * 1024
_MAX_FEATURES = 2**31
_REGRESSORS = ("reg:", "rank:", "count:", "survival:")
_CLASSIFIERS = ("binary:", "multi:")
_LIGHTGBM_REGRESSORS = {
    *("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "mape", "gamma"),
    *("tweedie", "lambdarank", "rank_xendcg"),
}
_LIGHTGBM_CLASSIFIERS = {"binary", "multiclass", "multiclassova"}
#: Tokenizers, too, begin with a version, which is no list there.
_XGBOOST_STARTS = rb'\s*\{\s*"(learner"\s*:\s*\{|version"\s*:\s*\[|Config"\s*:)'
#: The learner's parameters in XGBoost's binary format, and what is in front of them in older files.
_OLD_PARAMETERS, _OLD_MARK = struct.Struct("<fIi2i"), b"binf"
#: What fil calls such a file.
_OLD_NAME = "xgboost.model"
_UBJ_TEXT = rb"SL\0\0\0\0\0\0\0(.)"
_UBJ_PARAMETERS, _UBJ_OBJECTIVE = b"learner_model_param{", b"objective{"


@dataclass(frozen=True)
class Forest:
    """A forest, as its file describes it."""

    #: The library that wrote it, in fil's words.
    model_type: str
    #: None where the file does not say.
    features: int | None = None
    #: 1 for two classes, as fil counts, and for a regressor.
    classes: int = 1
    #: None for an objective of the user's own, and where the file does not say.
    is_classifier: bool | None = None


def read_forest(path: Path) -> Forest | None:
    """The forest of XGBoost, LightGBM or treelite, None for others. Raises as read_with does."""
    return read_with(path, partial(_read_forest, path.name))


def _read_forest(name: str, file: BinaryIO) -> Forest | None:
    length = file.seek(0, 2)
    file.seek(0)
    head = file.read(_HEAD)
    if re.match(rb"tree\r?\n", head):
        return _read_lightgbm(head)
    file.seek(max(0, length - _MAX_TAIL))
    tail = file.read(_MAX_TAIL)
    if re.match(rb'\s*\{\s*"', head):
        return _read_xgboost_json(head, tail)
    if head.startswith(b"{L") and b"learner" in head[:64]:
        return _read_xgboost_ubj(tail)
    if name.endswith(".tl"):
        return Forest("treelite_checkpoint")
    is_named = name == _OLD_NAME or name.endswith(".xgb")
    return Forest("xgboost") if is_named or _is_old_xgboost(head) else None


def _is_old_xgboost(head: bytes) -> bool:
    """Whether it is XGBoost's binary format; other libraries, too, call a file `….model`.

    Up to XGBoost 1.7 it is a base score, the numbers of features and classes, and two flags.
    """
    start = len(_OLD_MARK) if head.startswith(_OLD_MARK) else 0
    if len(head) < start + _OLD_PARAMETERS.size:
        return False
    score, features, _, *flags = _OLD_PARAMETERS.unpack_from(head, start)
    return math.isfinite(score) and 0 < features < _MAX_FEATURES and all(it < 2 for it in flags)


def _read_lightgbm(head: bytes) -> Forest:
    lines = head.decode("utf-8", "replace").splitlines()
    header = dict(line.split("=", 1) for line in lines[1:] if "=" in line)
    objective = header.get("objective", "").partition(" ")[0]
    last = _count(header.get("max_feature_idx"))
    features = None if last is None else last + 1
    kinds = {True: _LIGHTGBM_CLASSIFIERS, False: _LIGHTGBM_REGRESSORS}
    kind = next((is_one for is_one, names in kinds.items() if objective in names), None)
    classes = _count(header.get("num_tree_per_iteration")) or 1
    return Forest("lightgbm", features, classes, kind if features else None)


def _read_xgboost_json(head: bytes, tail: bytes) -> Forest | None:
    """The parameters stand behind the trees, in keys that are sorted: what follows them is read.

    Names of features may hold anything, but a part that begins inside of a text does not close the
    two objects around it.
    """
    if not re.match(_XGBOOST_STARTS, head):
        return None
    forest = Forest("xgboost_json")
    start = tail.rfind(b'"learner_model_param"')
    try:
        read = json.loads(b'{"learner":{' + tail[start:]) if start >= 0 else {}
        learner = read["learner"]
        parameters, objective = learner["learner_model_param"], learner["objective"]["name"]
        return _make_xgboost(forest.model_type, parameters, objective)
    except (ValueError, LookupError, TypeError, RecursionError):
        return forest


def _read_xgboost_ubj(tail: bytes) -> Forest:
    part = tail[max(0, tail.rfind(_UBJ_PARAMETERS)) :]
    values = {}
    for key in (b"num_class", b"num_feature", b"num_target"):
        if match := re.search(key + _UBJ_TEXT, part, re.DOTALL):
            values[key.decode()] = _read_text_behind(match, part)
    behind = part[max(0, part.rfind(_UBJ_OBJECTIVE)) :][:_HEAD]
    objective = re.search(rb"name" + _UBJ_TEXT, behind, re.DOTALL)
    if objective is None or _UBJ_OBJECTIVE not in behind or _UBJ_PARAMETERS not in part:
        return Forest("xgboost_ubj")
    return _make_xgboost("xgboost_ubj", values, _read_text_behind(objective, behind))


def _read_text_behind(match: re.Match[bytes], part: bytes) -> str:
    """The text of which the match holds the length."""
    return part[match.end() : match.end() + match[1][0]].decode("ascii", "replace")


def _make_xgboost(model_type: str, parameters: Any, objective: Any) -> Forest:
    features = _count(parameters.get("num_feature"))
    classes, targets = (
        _count(parameters.get("num_class")),
        _count(parameters.get("num_target", "1")),
    )
    name = str(objective)
    kind = True if name.startswith(_CLASSIFIERS) else None
    kind = False if name.startswith(_REGRESSORS) else kind
    known = features is not None and targets is not None and targets <= 1
    return Forest(model_type, features or None, classes or 1, kind if known else None)


def _count(text: Any) -> int | None:
    """A number as forests write it; None for what is none, or far too large."""
    if not isinstance(text, str) or not re.fullmatch(r"[0-9]{1,10}", text):
        return None
    return number if (number := int(text)) < _MAX_FEATURES else None
