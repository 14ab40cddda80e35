"""Which tensors a model's file takes and gives, as far as the file itself says so.

ONNX and TensorFlow write names, types and shapes into their files, as their backends read them to
complete a config. Forests say how many features and classes they have, and TorchScript how the
arguments of `forward` are called; the backends of these two complete nothing.
"""

from __future__ import annotations

import errno
import json
import math
import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from ensemble_tools.archive.files import read_with
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.archive.wire_format import Message, NotReadable, Span, open_message
from ensemble_tools.archive.zip_sizes import measure_unpacked

#: Tensors in one direction; models have some ten.
_MAX_TENSORS = 1_000
#: How far from the end of XGBoost's file its parameters are looked for.
_MAX_TAIL = 1024 * 1024
#: Of a forest's file, what tells its format; LightGBM writes its parameters there.
_HEAD = 64 * 1024
#: What every TorchScript file holds, and what torch.save writes does not.
TORCHSCRIPT_ENTRY = "constants.pkl"
#: Of TorchScript's code and of its data.
_MAX_CODE = 1024 * 1024
_MAX_FEATURES = 2**31


@dataclass(frozen=True)
class Signature:
    """The tensors of a model in the file's order; dims: their whole shapes."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


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


@dataclass(frozen=True)
class Arguments:
    """The arguments of TorchScript's `forward`, by name, and how many tensors it gives.

    Of a dictionary the keys that `forward` itself reads.
    """

    inputs: tuple[str, ...]
    outputs: int


def read_onnx(path: Path) -> Signature | None:
    """Of an ONNX file, None where it does not say all of it; blocking. Raises as read_with does."""
    return read_with(path, partial(_read, _read_onnx))


def find_no_tensor(path: Path) -> str:
    """The first input or output of an ONNX file that is a sequence, a map or the like; empty
    where all are tensors. Raises as read_with does.
    """
    return read_with(path, _find_no_tensor) or ""


def read_external_files(path: Path) -> frozenset[str]:
    """Of an ONNX file the names of those that hold its weights, as it has them; as read_onnx.

    Empty for one without such, and for what cannot be read.
    """
    return read_with(path, _read_external_files) or frozenset()


def read_saved_model(path: Path) -> Signature | None:
    """Of a SavedModel's saved_model.pb, as read_onnx."""
    return read_with(path, partial(_read, _read_saved_model))


def read_forest(path: Path) -> Forest | None:
    """Of a file of XGBoost, LightGBM or treelite; None for any other. Raises as read_with does."""
    return read_with(path, partial(_read_forest, path.name))


def read_arguments(path: Path) -> Arguments | None:
    """Of a TorchScript file; None where it does not say so. Raises as read_with does."""
    return read_with(path, _read_arguments) if measure_unpacked(path) else None


_Tensors = Iterable[TensorSpec | None]


def _read(
    read: Callable[[Message], tuple[_Tensors, _Tensors] | None], file: BinaryIO
) -> Signature | None:
    try:
        tensors = read(open_message(file))
        inputs, outputs = (_read_all(it) for it in tensors) if tensors else ((), ())
    except NotReadable:
        return None
    return Signature(inputs, outputs) if inputs and outputs else None


def _read_all(tensors: _Tensors) -> tuple[TensorSpec, ...]:
    """The tensors; none where one of them is not known."""
    known: dict[str, TensorSpec] = {}
    for tensor in tensors:
        if tensor is None or tensor.name in known or len(known) == _MAX_TENSORS:
            return ()
        known[tensor.name] = tensor
    return tuple(known.values())


# --- ONNX (onnx/onnx.proto) -----------------------------------------------------------------------

_ONNX_TYPES = {
    1: "TYPE_FP32",
    2: "TYPE_UINT8",
    3: "TYPE_INT8",
    4: "TYPE_UINT16",
    5: "TYPE_INT16",
    6: "TYPE_INT32",
    7: "TYPE_INT64",
    8: "TYPE_STRING",
    9: "TYPE_BOOL",
    10: "TYPE_FP16",
    11: "TYPE_FP64",
    12: "TYPE_UINT32",
    13: "TYPE_UINT64",
    16: "TYPE_BF16",
}

#: Fields of a type: sequence, map, sparse tensor, optional.
_NO_TENSORS = (4, 5, 8, 9)


def _read_onnx(model: Message) -> tuple[_Tensors, _Tensors] | None:
    graph = model.first(7)
    if graph is None:
        return None
    parts: dict[int, list[Message]] = {5: [], 11: [], 12: []}
    for number, value in graph.fields():
        if number in parts and isinstance(value, Span):
            parts[number].append(graph.at(value))
    # Up to IR version 3 the weights stand among the inputs, too.
    weights = {it.text(8) for it in parts[5]}
    inputs = [it for it in parts[11] if it.text(1) not in weights]
    return map(_read_onnx_tensor, inputs), map(_read_onnx_tensor, parts[12])


#: Message -> in which of its fields messages lead to weights in other files, and which they are.
_ONNX_WAYS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}


def _read_external_files(file: BinaryIO) -> frozenset[str]:
    files = set()
    waiting = [("model", open_message(file))]
    try:
        while waiting:
            kind, message = waiting.pop()
            if kind == "entry":
                if message.text(1) == "location":
                    files.add(message.text(2))
                continue
            ways = _ONNX_WAYS[kind]
            for number, value in message.fields():
                if number in ways and isinstance(value, Span):
                    waiting.append((ways[number], message.at(value)))
    except NotReadable:
        pass
    return frozenset(files)


def _read_onnx_tensor(value: Message) -> TensorSpec | None:
    name, kind = value.text(1), value.first(2)
    tensor = kind.first(1) if kind else None
    shape = tensor.first(2) if tensor else None
    data_type = _ONNX_TYPES.get(tensor.integer(1) or 0) if tensor else None
    if not name or shape is None or data_type is None:
        return None
    dims = tuple(_read_size(it.integer(1)) for it in shape.messages(1))
    if 0 in dims:  # no config can declare that
        return None
    return TensorSpec(name, data_type, dims or (1,))  # a scalar, as ONNX Runtime's backend has it


def _find_no_tensor(file: BinaryIO) -> str:
    try:
        graph = open_message(file).first(7)
        values = [it for number in (11, 12) for it in graph.messages(number)] if graph else []
        kinds = {it.text(1): it.first(2) for it in values}
        names = (it for it, kind in kinds.items() if kind and _holds(kind, _NO_TENSORS))
        return next(names, "")
    except NotReadable:
        return ""


def _holds(message: Message, numbers: Collection[int]) -> bool:
    return any(number in numbers for number, _ in message.fields())


def _read_size(size: int | None) -> int:
    return -1 if size is None or size < 0 else size


# --- SavedModel (tensorflow/core/protobuf/saved_model.proto, meta_graph.proto) --------------------

_TF_TYPES = {
    1: "TYPE_FP32",
    2: "TYPE_FP64",
    3: "TYPE_INT32",
    4: "TYPE_UINT8",
    5: "TYPE_INT16",
    6: "TYPE_INT8",
    7: "TYPE_STRING",
    9: "TYPE_INT64",
    10: "TYPE_BOOL",
    17: "TYPE_UINT16",
    19: "TYPE_FP16",
    22: "TYPE_UINT32",
    23: "TYPE_UINT64",
}
_TAG, _SIGNATURE = "serve", "serving_default"


def _read_saved_model(saved: Message) -> tuple[_Tensors, _Tensors] | None:
    for graph in saved.messages(2):
        info = graph.first(1)
        if info is None or _TAG not in info.texts(4):
            continue
        for entry in graph.messages(5):
            signature = entry.first(2)
            if entry.text(1) == _SIGNATURE and signature is not None:
                inputs, outputs = signature.messages(1), signature.messages(2)
                return map(_read_tf_tensor, inputs), map(_read_tf_tensor, outputs)
    return None


def _read_tf_tensor(entry: Message) -> TensorSpec | None:
    name, info = entry.text(1), entry.first(2)
    shape = info.first(3) if info else None
    data_type = _TF_TYPES.get(info.integer(2) or 0) if info else None
    if not name or shape is None or data_type is None or shape.integer(3):
        return None
    dims = tuple(_read_size(it.integer(1) or 0) for it in shape.messages(2))
    return TensorSpec(name, data_type, dims) if dims else None  # no config can declare a scalar


# --- forests --------------------------------------------------------------------------------------

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


# --- TorchScript (torch/csrc/jit/serialization) ---------------------------------------------------

_ARGUMENT = re.compile(r"(\w+): Tensor")
_TABLE = re.compile(r"(\w+): Dict\[str, Tensor\]")
_RETURNED = re.compile(r"Tensor|Tuple\[(Tensor(?:, Tensor)*)\]")


def _read_arguments(file: BinaryIO) -> Arguments | None:
    try:
        with zipfile.ZipFile(file) as archive:
            return _parse_forward(archive)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError):
        return None
    except (NotImplementedError, RuntimeError, OverflowError):  # encrypted, or of another method
        return None
    except OSError as error:
        if error.errno != errno.EINVAL:  # an entry that begins in front of the file
            raise
        return None


def _parse_forward(archive: zipfile.ZipFile) -> Arguments | None:
    """The argument list of the class that data.pkl makes, from its code in the archive."""
    data = (name for name in archive.namelist() if re.fullmatch(r"[^/]+/data\.pkl", name))
    top = next(data, "").partition("/")[0]
    module, _, name = _find_first_class(_read_part(archive, f"{top}/data.pkl")).rpartition(" ")
    code = _read_part(archive, f"{top}/code/{module.replace('.', '/')}.py").decode()
    start = f"\n{code}".index(f"\nclass {name}(Module):\n")
    body = code[start:].partition("\nclass ")[0]
    declared, _, answer = (
        body[body.index("\n  def forward(") :].partition(":\n")[0].partition(") -> ")
    )
    parameters = declared.partition(",")[2].strip()  # behind the object itself
    returned = _RETURNED.fullmatch(answer)
    if returned is None:
        return None
    outputs = returned[1].count("Tensor") if returned[1] else 1
    if table := _TABLE.fullmatch(parameters):
        keys = re.findall(rf'\b{table[1]}\["([^"\\]+)"\]', body)
        return Arguments(tuple(dict.fromkeys(keys)), outputs) if keys else None
    arguments = [_ARGUMENT.fullmatch(it.strip()) for it in parameters.split(",")]
    names = tuple(it[1] for it in arguments if it)
    return Arguments(names, outputs) if len(names) == len(arguments) else None


def _find_first_class(data: bytes) -> str:
    """`module name` of the first class in a pickle; nothing of it is run."""
    for opcode, value, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            return str(value)
    raise LookupError


def _read_part(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as part:
        return part.read(_MAX_CODE)
