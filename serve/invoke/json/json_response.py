"""A tritonserver answer with binary tensors as the answer in JSON that was asked for. No I/O.

Source: FinalizeResponse in tritonserver's http_server.cc; the members come in its order.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from serve.errors import CallerError, InvocationFailed
from serve.invoke.json.tensor_json import DATA_TYPES, Steps, write_data


def write_json_answer(
    body: bytes,
    head_size: int | None,
    in_json: frozenset[str] | None,
    written: Callable[[int], object] | None = None,
    wanted: tuple[str, ...] | None = None,
) -> Steps[tuple[list[bytes], int | None]]:
    """Write outputs as JSON; all of them, or those named in in_json.

    head_size: the length of the answer's JSON part, None when all of it is JSON. written: told how
    many bytes of data each step wrote; what it raises ends it. Returns the new body in pieces, and
    the length of its JSON part if others of its outputs are binary. Raises CallerError for an
    output that JSON cannot hold, InvocationFailed for an answer that is broken.
    """
    size = len(body) if head_size is None else head_size
    try:
        # Names and labels are a model's own, and need not be UTF-8.
        head = json.loads(body[:size].decode("utf-8", "surrogateescape"))
        outputs = head.pop("outputs")
        pieces = [_dump(head)[:-1], b',"outputs":[' if head else b'"outputs":[']
        binary: list[memoryview] = []
        for number, (output, tensor) in enumerate(
            _choose(outputs, memoryview(body)[size:], wanted)
        ):
            if number:
                pieces.append(b",")
            if tensor is not None and (in_json is None or output["name"] in in_json):
                pieces += yield from _put_data(output, tensor, written)
                continue
            pieces.append(_dump(output))
            if tensor is not None:
                binary.append(tensor)
        pieces.append(b"]}")
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise InvocationFailed(f"tritonserver's answer cannot be read: {error}") from error
    if not any(map(len, binary)):
        return pieces, None
    return [*pieces, *map(bytes, binary)], sum(map(len, pieces))


def _choose(
    outputs: list[dict[str, Any]], tensors: memoryview, names: tuple[str, ...] | None
) -> list[tuple[dict[str, Any], memoryview | None]]:
    """Outputs with their tensors; None for one that is JSON already."""
    chosen: list[tuple[dict[str, Any], memoryview | None]] = []
    for output in outputs:
        size = output.get("parameters", {}).get("binary_data_size")
        if size is None:
            chosen.append((output, None))
        else:
            chosen.append((output, tensors[:size]))
            tensors = tensors[size:]
    if names is None:
        return chosen
    named = {output["name"]: (output, tensor) for output, tensor in chosen}
    return [named[name] for name in names]


def _put_data(
    output: dict[str, Any], tensor: memoryview, written: Callable[[int], object] | None
) -> Steps[list[bytes]]:
    datatype, shape = output["datatype"], output["shape"]
    if datatype not in DATA_TYPES:
        raise CallerError(
            f"the output {output['name']} has the data type {datatype}, which JSON cannot hold;"
            " ask for it with the parameter binary_data"
        )
    count = 1
    for size in shape:
        count *= size
    rest = {key: value for key, value in output["parameters"].items() if key != "binary_data_size"}
    described = {key: value for key, value in output.items() if key != "parameters"}
    if rest:
        described["parameters"] = rest
    data = yield from write_data(tensor, datatype, count, written)
    return [_dump(described)[:-1], b',"data":', *data, b"}"]


def _dump(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")
