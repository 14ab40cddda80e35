"""What a request's inputs, outputs and parameters say, held against each other. No I/O.

Shapes against data, above all: tritonserver believes them. Sources: request_checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from msgspec import UNSET

from serve.errors import BadRequest, CallerError, shortened
from serve.invoke.request_types import (
    BINARY_ONLY,
    ELEMENT_SIZES,
    LARGEST_DIMENSION,
    LongInput,
    Named,
    Output,
)
from serve.invoke.unique_members import find_twice
from serve.triton.diagnosis.request_mistakes import find_wrong_in

#: Bytes of a list of lists that has no values.
_OF_EMPTY_LISTS = b" \t\r\n,[]"
#: Characters of a correlation id (core's STRING_CORRELATION_ID_MAX_LENGTH_BYTES).
_LONGEST_SEQUENCE_ID = 128
_LARGEST_INTEGER = (1 << 64) - 1
_SHARED_MEMORY = "shared_memory_"
#: What other libraries call data types of the protocol.
_OTHER_NAMES = {
    **dict.fromkeys(("STRING", "STR", "OBJECT", "BYTE"), "BYTES"),
    "DOUBLE": "FP64",
    "FLOAT": "FP32",
    "HALF": "FP16",
    "BFLOAT16": "BF16",
    "BOOLEAN": "BOOL",
    "LONG": "INT64",
    "INT": "INT32",
}
_LONGEST_TYPE = 20


# -- inputs


def check_data(tensor: LongInput, data: bytes) -> None:
    """Hold the shape against data in JSON."""
    elements = 1
    for size in tensor.shape:
        elements *= size
    datatype = tensor.datatype
    if datatype == "BYTES":
        count = _count_strings(data)
    elif datatype in ELEMENT_SIZES:
        # A list has one comma less than values, however it is nested; tritonserver counts anew.
        count = data.count(b",") + 1 if data else 0
    else:
        raise _complain_of_type(tensor)
    if data and not data.startswith(b"["):
        raise _complain_of_data(tensor, elements, count, data)
    if datatype in BINARY_ONLY and data:
        raise BadRequest(
            f"the input {shortened(tensor.name)}",
            f"{datatype} in JSON",
            f"{datatype} as a binary tensor, or FP32",
        )
    if count != elements or elements < 2:  # no value has as many commas as one
        _check_count(tensor, elements, count, data)


def _check_count(tensor: LongInput, elements: int, count: int, data: bytes) -> None:
    if tensor.datatype != "BYTES" and data:  # an empty list has one comma more than values
        count -= data.translate(None, b" \t\r\n").count(b"[]")
    if not elements:
        _check_empty(tensor)
        if not count and data.translate(None, _OF_EMPTY_LISTS):  # numbers where strings belong
            count = 1
    if count != elements:
        raise _complain_of_data(tensor, elements, count, data)


def _count_strings(data: bytes) -> int:
    if b"\\" not in data:
        return data.count(b'"') // 2
    data = data.replace(b"\\\\", b"")
    # To take these out would take twice as long as counting them.
    return (data.count(b'"') - data.count(b'\\"')) // 2


def read_binary_size(tensor: LongInput, parameters: Mapping[str, Any]) -> int | None:
    """Of a binary tensor, in bytes; None for data in JSON."""
    _refuse_shared_memory("input", tensor.name, parameters)
    size = parameters.get("binary_data_size", UNSET)
    if size is UNSET:
        return None
    if type(size) is not int or not 0 <= size <= _LARGEST_INTEGER:
        raise BadRequest(
            f"the input {shortened(tensor.name)}: the parameter `binary_data_size`",
            _describe(size),
            "a whole number of bytes",
        )
    if tensor.data:
        raise BadRequest(
            f"the input {shortened(tensor.name)}",
            "`data` and `binary_data_size`",
            "one of them",
        )
    return size


def check_binary(tensor: LongInput, size: int) -> None:
    """Hold the shape against the bytes that are said to lie behind the JSON."""
    if tensor.datatype not in ELEMENT_SIZES:
        raise _complain_of_type(tensor)
    elements = prod(tensor.shape)
    if not elements:
        _check_empty(tensor)
    least_bytes = elements * ELEMENT_SIZES[tensor.datatype]
    if size != least_bytes and (tensor.datatype != "BYTES" or size < least_bytes or not elements):
        kind = "at least " if tensor.datatype == "BYTES" and elements else ""
        shape = _show_shape(tensor.shape)
        raise BadRequest(
            f"the input {shortened(tensor.name)}: the parameter `binary_data_size`",
            f"{size} bytes",
            f"{kind}{least_bytes}, which {tensor.datatype} of its shape {shape} has",
        )


def _check_empty(tensor: LongInput) -> None:
    """The other dimensions of an empty tensor are believed by whoever reads it."""
    if prod(size or 1 for size in tensor.shape) > LARGEST_DIMENSION:
        raise BadRequest(
            f"the input {shortened(tensor.name)}",
            f"the shape {_show_shape(tensor.shape)}",
            f"dimensions beside the empty one of at most {LARGEST_DIMENSION} together",
        )


def are_unique(tensors: Sequence[Named]) -> bool:
    """Whether each has a name of its own."""
    return len(tensors) < 2 or len({tensor.name for tensor in tensors}) == len(tensors)


def check_names(kind: str, tensors: Sequence[Named]) -> None:
    """Raise BadRequest for two of one name; kind: `inputs` or `outputs`."""
    if not are_unique(tensors):
        twice = shortened(find_twice(tensor.name for tensor in tensors))
        raise BadRequest(f"the {kind}", f"{twice} twice", "each name once")


# -- outputs and parameters


def check_outputs(outputs: Sequence[Output]) -> int:
    """How many members all of them have."""
    members = 0
    for output in outputs:
        members += 1
        if output.parameters is not UNSET:
            members += 1 + len(output.parameters)
            _check_output(output.name, output.parameters)
    check_names("outputs", outputs)
    return members


def _check_output(name: str, parameters: Mapping[str, Any]) -> None:
    _refuse_shared_memory("output", name, parameters)
    binary = parameters.get("binary_data", False)
    if type(binary) is not bool:
        raise BadRequest(
            f"the output {shortened(name)}: the parameter `binary_data`",
            _describe(binary),
            "true or false",
        )
    if "classification" in parameters:
        # tritonserver dies of classes of strings, and of those of an output that happens to be
        # empty (seen on 2.36 and 2.51); what a Python model answers, no config promises.
        raise BadRequest(
            f"the output {shortened(name)}: the parameter `classification`",
            "a wish that can end tritonserver",
            "no such parameter: ask for the scores, and sort them",
        )


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """The request's own (ParseJsonTritonParams); names that are the model's may hold any scalar."""
    for name, value in parameters.items():
        expected = _judge_fit(name, value)
        if expected:
            raise BadRequest(f"the parameter {shortened(name)}", _describe(value), expected)


def _judge_fit(name: str, value: object) -> str:
    """The type that a value should have; empty where it fits."""
    kind = type(value)
    if name in ("sequence_start", "sequence_end", "binary_data_output"):
        return "" if kind is bool else "true or false"
    if name == "sequence_id" and kind is str:
        fits = len(str(value).encode(errors="surrogatepass")) <= _LONGEST_SEQUENCE_ID
        return "" if fits else f"at most {_LONGEST_SEQUENCE_ID} bytes"
    if name in ("priority", "timeout", "sequence_id"):
        fits = isinstance(value, int) and kind is int and 0 <= value <= _LARGEST_INTEGER
        return "" if fits else f"a whole number from 0 to {_LARGEST_INTEGER}"
    if name.startswith(_SHARED_MEMORY):
        return "tensors in the body: shared memory is not for callers"
    return "" if kind in (str, int, float, bool) else "a string, a number, true or false"


def _refuse_shared_memory(kind: str, name: str, parameters: Mapping[str, Any]) -> None:
    for key in parameters:
        if key.startswith(_SHARED_MEMORY):
            raise BadRequest(
                f"the {kind} {shortened(name)}",
                f"the parameter {shortened(key)}",
                "its tensor in the body: shared memory is not for callers",
            )


# -- words


def _complain_of_data(
    tensor: LongInput, elements: int, count: int, data: bytes
) -> BadRequest | CallerError:
    """With the value that does not belong there, if that is why they are too few."""
    where = f"the input {shortened(tensor.name)}"
    if not data.startswith(b"["):
        kind = "no list" if data and data != b"null" else data.decode() or "nothing"
        return BadRequest(f"{where}: the field `data`", kind, f"a list of {elements} values")
    wrong = find_wrong_in(tensor.name, tensor.datatype, data)
    if wrong is not None:
        error = CallerError(wrong.said)
        error.without_values = wrong.logged
        return error
    shape = _show_shape(tensor.shape)
    return BadRequest(where, f"{count} values", f"{elements}, which its shape {shape} has")


def _complain_of_type(tensor: LongInput) -> BadRequest:
    known = ", ".join(ELEMENT_SIZES)
    name = tensor.datatype[:_LONGEST_TYPE].upper().removeprefix("TYPE_")
    name = _OTHER_NAMES.get(name, name.replace("FLOAT", "FP"))
    meant = f"; did you mean {name}?" if name in ELEMENT_SIZES else ""
    return BadRequest(
        f"the input {shortened(tensor.name)}: the field `datatype`",
        shortened(tensor.datatype),
        f"one of {known}{meant}",
    )


def _describe(value: object) -> str:
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return repr(value)[:40]
    return "an object" if isinstance(value, dict) else "a list"


def _show_shape(shape: Sequence[int]) -> str:
    return f"[{', '.join(map(str, shape))}]"[:200]
