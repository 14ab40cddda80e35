"""Errors as causes: few words, whatever the sentence."""

from __future__ import annotations

import pytest

from serve.errors import (
    AskedTooOften,
    BadRequest,
    DiskFailed,
    FailedAtRequest,
    InvocationFailed,
    KilledForMemory,
    ModelNotLoaded,
    ModelUnusable,
    Overloaded,
    ResourceExhausted,
    StoreUnavailable,
    TritonTimeout,
    TritonUnavailable,
)
from serve.telemetry.causes import CAUSES, find_cause


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (BadRequest("the body", "nothing", "something"), "caller"),
        (ModelNotLoaded("m"), "caller"),
        (ModelUnusable("no config"), "archive"),
        (DiskFailed("EIO"), "disk"),
        (Overloaded("too many"), "crowd"),
        (AskedTooOften("m", 2.0, 0.3), "rate"),
        (InvocationFailed("it raised"), "model"),
        (FailedAtRequest("it raised at this request"), "model"),
        (StoreUnavailable("the store hangs"), "feature_store"),
        (TritonUnavailable("restarting"), "tritonserver"),
        (TritonTimeout("a load", 3.0), "tritonserver"),
        (KilledForMemory("killed"), "memory"),
        (ResourceExhausted("no memory to load the model a: 3 MiB available"), "memory"),
        (ResourceExhausted("no shared memory in /dev/shm to load the model a"), "shared_memory"),
        (ResourceExhausted("no memory of GPU 0 to load the model a"), "gpu"),
        (ResourceExhausted("CUDA error: out of memory"), "gpu"),
        (ResourceExhausted("Blas xGEMM launch failed : a.shape=[1,8], b.shape=[8,2]"), "gpu"),
        (ResourceExhausted("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED"), "gpu"),
        (ResourceExhausted("blas_thread_init: pthread_create: cannot fork"), "processes"),
        (ResourceExhausted("no file descriptors of tritonserver to load a"), "descriptors"),
        (ResourceExhausted("[Errno 24] Too many open files"), "descriptors"),
        (ResourceExhausted("no processes and threads to load"), "processes"),
        (ResourceExhausted("can't start new thread"), "processes"),
        (ResourceExhausted("No space left on device"), "disk"),
        (RuntimeError("a bug"), "container"),
    ],
)
def test_cause(error: Exception, cause: str) -> None:
    assert find_cause(error) == cause
    assert cause in CAUSES
