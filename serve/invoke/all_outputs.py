"""A request for a part of a model's outputs as a request for all of them. No I/O.

For ensembles that tritonserver fails to run where a part is asked for (ServingPlan.fails_in_part).
Everything is asked for in binary; what the caller did not ask for is left out of the answer
(json_response).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from serve.invoke.request_types import (
    Output,
    decode_outputs,
    decode_outputs_text,
    read_leniently,
)
from serve.invoke.unique_members import address

_BINARY = "binary_data"


def ask_for_all(text: bytes, outputs: Sequence[str]) -> tuple[bytes, list[Output]] | None:
    """The request that asks for all outputs, as binary tensors, and the outputs that it asked for.

    None where it asks for everything, or for what the model has not. text: the request's JSON,
    checked. outputs: the model's.
    """
    if b"outputs" not in text and b"\\" not in text:
        return None
    plain, envelope = read_leniently(decode_outputs_text, text)
    if not envelope.outputs:
        return None
    outputs_asked: list[Output] = decode_outputs(envelope.outputs)
    names = {output.name for output in outputs_asked}
    if not names or not names < {*outputs}:
        return None
    everything: list[dict[str, Any]] = [
        *({"name": output.name, "parameters": _ask_for_binary(output)} for output in outputs_asked),
        *({"name": name, "parameters": {_BINARY: True}} for name in outputs if name not in names),
    ]
    start = len(text) - len(plain) + address(envelope.outputs) - address(plain)
    written = msgspec.json.encode(everything)
    return text[:start] + written + text[start + len(bytes(envelope.outputs)) :], outputs_asked


def is_json(output: Output) -> bool:
    """Whether it is to stand in the answer's JSON."""
    return output.parameters is UNSET or output.parameters.get(_BINARY) is not True


def _ask_for_binary(output: Output) -> dict[str, Any]:
    return {**({} if output.parameters is UNSET else output.parameters), _BINARY: True}
