"""PURE. Does a message mean that a resource is lacking, so that unloading models would help (507)?

tritonserver has no status for it: on 2.35 nearly every error is a 400, and a load that was refused
for GPU memory is a 400 on every version, so the words decide. Each phrase has been seen, or stands
in the source that is named beside it.
"""

from __future__ import annotations

_PHRASES = (
    "out of memory",  # CUDA, torch, TensorRT and the kernel all say so
    "memory limit set for gpu",  # core, model_lifecycle: --model-load-gpu-limit
    "cudaerrormemoryallocation",
    "cuda_error_out_of_memory",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
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
    "can't start new thread",  # Python
    "disk quota exceeded",  # EDQUOT
)


def means_exhaustion(message: str) -> bool:
    """Whether the message of a failed load or invocation speaks of a lacking resource."""
    folded = message.casefold()
    return any(phrase in folded for phrase in _PHRASES)
