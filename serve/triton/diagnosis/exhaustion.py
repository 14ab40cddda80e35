"""Whether a message means that a resource is lacking, so that unloading models would help: 507.

tritonserver has no status for it: on 2.35 nearly every error is a 400, and a load that was refused
for GPU memory is a 400 on every version, so the words decide. Each phrase has been seen, or stands
in the source that is named beside it.

No I/O.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

_PHRASES = (
    "out of memory",  # CUDA, torch, TensorRT and the kernel all say so
    "memory limit set for gpu",  # core, model_lifecycle: --model-load-gpu-limit
    "cudaerrormemoryallocation",
    "cuda_error_out_of_memory",
    "failed to allocate",  # core and backends: pinned, GPU and response memory
    "unable to allocate",  # numpy: _ArrayMemoryError
    "cannot allocate memory",  # ENOMEM
    "bad_alloc",  # C++
    "memoryerror",  # Python
    "defaultcpuallocator: can't allocate",  # torch on CPU
    "failed to increase the shared memory pool size",  # python backend, shm_manager
    "unable to create shared memory region",  # python backend
    "unable to initialize shared memory",  # python backend
    "no space left on device",  # ENOSPC: disk, or /dev/shm
    "too many open files",  # EMFILE, ENFILE
    "resource temporarily unavailable",  # EAGAIN of fork and pthread_create
    "failed to fork the stub process",  # python backend, stub_launcher: EAGAIN or ENOMEM
    "can't start new thread",  # Python
    "disk quota exceeded",  # EDQUOT
    # NVIDIA's own SageMaker frontend knows these (SageMakerMMECheckOOMError, sagemaker_server.cc).
    "cuda_out_of_memory",
    "outofmemory",
    "cnmem_status_out_of_memory",
    "cudnn_status_not_initialized",
    "cublas_status_not_initialized",
    "dst tensor is not initialized",
    "src tensor is not initialized",
    "oom when allocating",  # TensorFlow; whole, so that a caller's words with "oom" hide none of it
    # A GPU whose memory others have taken leaves none for a library's own: its handle is not made,
    # or its first computation fails (TensorFlow, cuda_blas.cc, cuda_dnn.cc; torch).
    "without blas support",
    "cudnn_status_internal_error",
)
_PATTERNS = (
    re.compile(r"\boom\b"),  # the same frontend's "OOM"; as a word, since it stands in room, bloom
    re.compile(r"\b(?:cublas|cudnn|cusolver|cusparse|cufft)(?:_status)?_alloc_failed\b"),
    re.compile(r"\b(?:failed to|could not) create cu(?:blas|dnn|solver|sparse)\w* handle\b"),
    re.compile(r"\bblas \w{0,20}(?:gemm|gemv)\w{0,20} launch failed\b"),
)
#: What speaks of no lack, in whichever words: an exception that a name or a key of the model's own
#: raised, a module that is not there or is another one, and a library that came too late for its
#: thread-local variables. Of a shared object that is not loaded the kernel says why.
_NO_LACK = re.compile(
    r"\b(?:attribute|filenotfound|index|key|modulenotfound|name|syntax|unboundlocal)error"
    r"(?:: |'> - ).*"
    r"|\bimporterror: (?!.{0,500}shared object).*"
    r"|cannot allocate memory in static tls block"
)
#: How much was asked for, as numpy, torch, TensorFlow, arrow and ONNX Runtime write it.
_ASKED = re.compile(r"\b(?:allocate|of size) ([0-9][0-9,]*\.?[0-9]*)(?: ?([kmgtpe])i?b\b)?")
_UNITS = {unit: 1024**power for power, unit in enumerate("kmgtpe", 1)}
#: A longer text, in bytes, that writes letters so may say anything: it is not looked through.
_LONGEST_ESCAPED = 256 * 1024
#: A character that JSON writes by its number.
_ESCAPED = re.compile(rb"\\u([0-9a-fA-F]{4})")


def means_exhaustion(message: str, body: Sequence[bytes] = (), memory: float = math.inf) -> bool:
    """Whether the message of a failed load or invocation speaks of a lacking resource.

    memory: bytes that the machine has. Who asks for more at once would not get them of an empty
    machine: to unload other tenants' models for that would help nobody.

    body: what the caller wrote, in pieces, or the names of what was loaded. A phrase that stands
    there as well counts for nothing: messages quote both, and nobody may have other tenants' models
    unloaded by his words.
    """
    folded = _NO_LACK.sub("", message.casefold())
    phrases = list(_find_phrases(folded))
    if phrases and _find_most_asked(folded) > memory:
        return False
    if not phrases or not body:
        return bool(phrases)
    wrote = b"".join(body).lower()
    if b"\\u" in wrote:
        if len(wrote) > _LONGEST_ESCAPED:
            return False
        wrote = _unescape(wrote)
    return any(phrase.encode() not in wrote for phrase in phrases)


def _find_phrases(folded: str) -> Iterator[str]:
    yield from (phrase for phrase in _PHRASES if phrase in folded)
    yield from (match[0] for pattern in _PATTERNS if (match := pattern.search(folded)))


def _find_most_asked(folded: str) -> float:
    """Bytes; none where the message has no such number."""
    return max(
        (
            float(number.replace(",", "")) * _UNITS.get(unit, 1)
            for number, unit in _ASKED.findall(folded)
        ),
        default=0.0,
    )


def _unescape(text: bytes) -> bytes:
    """With plain letters instead of those that are written by their number."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)).lower().encode(errors="replace"), text)
