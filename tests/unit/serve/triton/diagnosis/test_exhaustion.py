"""Which messages speak of a lack: real ones, and those that a caller forges."""

from __future__ import annotations

import time

import pytest

from serve.triton.diagnosis.exhaustion import means_exhaustion
from serve.triton.diagnosis.verdicts import Verdict, judge

RAISED_51 = "Failed to process the request(s) for model 'm_0_0', message: "
STATE = "version 1 is at UNAVAILABLE state: "


@pytest.mark.parametrize(
    "message",
    [
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "can not create model 'm': memory limit set for GPU 0 has exceeded, model loading is"
        " rejected.",
        "OSError: [Errno 28] No space left on device",
        "OSError: [Errno 12] Cannot allocate memory",
        "OSError: [Errno 24] Too many open files: 'x'",
        "std::bad_alloc",
        "RuntimeError: can't start new thread",
        "[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory",
        "Unable to create shared memory region",
        "OOM when allocating tensor with shape[32,1024] and type float",
        "the worker ended (OOM)",
        "OOM",
        "Dst tensor is not initialized.",
        "Src tensor is not initialized.",
        "Reason=CNMEM_STATUS_OUT_OF_MEMORY. numdev=1",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "Internal: CUDA_OUT_OF_MEMORY",
        "OutOfMemoryException: 512 bytes",
    ],
)
def test_lacking_resources(message: str) -> None:
    """However the words are cased."""
    assert means_exhaustion(message)
    assert means_exhaustion(message.upper())
    assert not means_exhaustion("unexpected shape for input 'memory'")


@pytest.mark.parametrize(
    "message",
    [
        "KeyError: 'room'",
        "KeyError: 'Zoom'",
        "no category 'mushrooms'",
        "bigscience/BLOOM-560m is not a local folder",
        "ValueError: boom",
        "/proc/self/oom_score_adj: Permission denied",
    ],
)
def test_words_with_oom_inside(message: str) -> None:
    """Only the word by itself speaks of memory."""
    assert not means_exhaustion(message)
    assert not means_exhaustion(message.upper())


def test_tensorflows_sentence_beside_a_callers_room() -> None:
    """A caller who wrote of rooms has not written TensorFlow's sentence; OOM alone he may have."""
    said = [b'{"inputs": [{"name": "room_type"}]}']
    assert means_exhaustion("OOM when allocating tensor with shape[32,1024]", said)
    assert not means_exhaustion("the worker ended: OOM", said)


@pytest.mark.parametrize(
    "message",
    [
        "AttributeError: module 'torch.cuda' has no attribute 'OutOfMemoryError'",
        "ImportError: cannot import name 'OutOfMemoryError' from 'torch'",
        "ImportError: /lib/libgomp.so.1: cannot allocate memory in static TLS block",
        "OSError: libgomp-d22c30c5.so: cannot allocate memory in static TLS block",
        "ImportError: scipy was built without BLAS support",
        "ModuleNotFoundError: No module named 'bad_alloc'",
        "NameError: name 'OutOfMemoryError' is not defined",
        "FileNotFoundError: [Errno 2] No such file or directory: '/out of memory.txt'",
        "KeyError: 'oom'",
        "KeyError: 'Out of Memory (2019)'",
        "Error: <class 'KeyError'> - 'oom', Traceback: ['  File x']",
        "IndexError: the word OOM has no row",
    ],
)
def test_faults_of_the_model_itself(message: str) -> None:
    """Whatever names and words they are about."""
    assert not means_exhaustion(message)
    assert not means_exhaustion(f"load failed for model 'm': {STATE}Internal: {message}\n\nAt:\n x")
    assert not means_exhaustion(f"{RAISED_51}{message}\n\nAt:\n  /m.py(1): execute")


@pytest.mark.parametrize(
    "message",
    [
        "ImportError: libtorch.so: cannot open shared object file: Too many open files",
        "ImportError: libtorch_cpu.so: failed to map segment from shared object: Cannot allocate"
        " memory",
        "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: CUDA out of memory; after KeyError: 'x'",
    ],
)
def test_lacks_beside_such_faults(message: str) -> None:
    """They stay lacks."""
    assert means_exhaustion(message)


@pytest.mark.parametrize(
    "message",
    [
        "MemoryError: Unable to allocate 512. TiB for an array with shape (70368744177664,)",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 16.1 GiB for an array",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 562949953421312 bytes."
        " Error code 12 (Cannot allocate memory)",
        "CUDA out of memory. Tried to allocate 37252.90 GiB (GPU 0; 15.78 GiB total capacity;"
        " 1.10 GiB already allocated)",
        "ran out of memory trying to allocate 3725.29GiB (rounded to 4000000000000)",
        "ArrowMemoryError: malloc of size 1125899906842624 failed",
        "Failed to allocate memory for requested buffer of size 17179869185",
    ],
)
def test_more_than_the_machine_has(message: str) -> None:
    """Is no lack: to unload others makes no room for it. A larger machine may have it."""
    assert not means_exhaustion(message, memory=16 * 2**30)
    assert means_exhaustion(message, memory=2**60)
    assert means_exhaustion(message)
    raised = f"{RAISED_51}{message}\n\nAt:\n  /m.py(1): execute"
    assert judge(500, raised, ["m"], memory=16 * 2**30) is Verdict.MODEL


@pytest.mark.parametrize(
    "message",
    [
        "Unable to allocate 7.45 GiB for an array with shape (1000000000,)",
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)",
        "Failed to increase the shared memory pool size for key '/x' to 67108864 bytes",
        "MemoryError: std::bad_alloc",
    ],
)
def test_what_an_emptier_machine_would_give(message: str) -> None:
    """Is a lack; of numbers the one counts that was asked for."""
    assert means_exhaustion(message, memory=16 * 2**30)


@pytest.mark.parametrize(
    "words", ["blas gemm", "importerror: ", "could not create cublas", "allocate 1,", "oom gemm"]
)
def test_what_a_model_writes_is_looked_through_at_once(words: str) -> None:
    """Whatever it repeats: the event loop waits meanwhile."""
    started = time.thread_time()
    means_exhaustion("blas " + words.replace(" ", "") * 6000, memory=2**30)
    means_exhaustion(words * 6000, memory=2**30)
    assert time.thread_time() - started < 0.5
