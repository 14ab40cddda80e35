"""What one invocation came to, for all who tell of it: metrics, log, traces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: What a caller who had left is counted as (nginx has the number; there is none of HTTP's own).
CALLER_LEFT = 499


@dataclass(slots=True)
class InvocationRecord:
    """Filled while an invocation goes its way. Times in seconds, sizes in bytes."""

    model_name: str
    target_model: str = ""  # the archive's name, as the platform says it
    status: int = 0
    sentence: str = ""  # why it was refused
    began: float = 0.0  # by time.monotonic
    seconds: float = 0.0  # until its answer was there, or until the end of one that streams
    waiting_s: float = 0.0  # for a place in tritonserver
    translating_s: float = 0.0  # of the request and of the answer
    triton_s: float = 0.0  # from the first try to the last answer, with a reload between them
    triton_began: float = 0.0  # by time.monotonic; 0 where nothing was sent
    request_bytes: int = 0
    answer_bytes: int = 0
    cold: bool = False  # its model was loaded again for it
    headers: Iterable[tuple[bytes, bytes]] = ()  # the caller's, names in lower case
    trace_id: str = ""
    trace: object = None  # what the tracer keeps of it


def target_model(headers: Iterable[tuple[bytes, bytes]], errors: str = "replace") -> str:
    """The archive's name in the caller's mouth: for logs, never to pick a model by.

    headers: names in lower case. errors: as of bytes.decode, for what is no UTF-8.
    """
    return _read_header(headers, b"x-amzn-sagemaker-target-model", errors)


def read_inference_id(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The caller's InferenceId, as SageMaker passes it on; empty where there is none."""
    return _read_header(headers, b"x-amzn-sagemaker-inference-id")


def _read_header(
    headers: Iterable[tuple[bytes, bytes]], header_name: bytes, errors: str = "replace"
) -> str:
    """The first value of that name; empty where there is none."""
    return next((value for name, value in headers if name == header_name), b"").decode(
        "utf-8", errors
    )
