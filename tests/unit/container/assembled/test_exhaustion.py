"""Lacking memory, or another resource, is a 507, whatever tritonserver calls it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import models
from tests.support.protocol import complaint, infer
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

LACKS = {
    "gpu-limit": "memory limit set for GPU 0 has exceeded, model loading is rejected",
    "cuda": "CUDA out of memory. Tried to allocate 20.00 MiB",
    "shm": "Unable to initialize shared memory key '/x': No space left on device",
    "region": "Failed to increase the shared memory pool size for key '/x' to 67108864 bytes",
    "host": "MemoryError: std::bad_alloc",
    "numpy": "Unable to allocate 7.45 GiB for an array with shape (1000000000,)",
    "files": "OSError: [Errno 24] Too many open files",
    "threads": "RuntimeError: can't start new thread",
    # As the libraries write what NVIDIA's own SageMaker frontend answers with 507.
    "tensorflow": "ResourceExhaustedError: OOM when allocating tensor with shape[200,75,75,64] and "
    "type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
    "word": "RuntimeError: worker 3 ended: OOM",
    "dst": "InternalError: Failed copying input tensor from "
    "/job:localhost/replica:0/task:0/device:CPU:0 to /job:localhost/replica:0/task:0/device:GPU:0 "
    "in order to run _EagerConst: Dst tensor is not initialized.",
    "src": "InternalError: Src tensor is not initialized.",
    "cnmem": "RuntimeError: initCnmem: cnmemInit call failed! Reason=CNMEM_STATUS_OUT_OF_MEMORY. "
    "numdev=1",
    "cudnn": "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
    "cublas": "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
    "`cublasCreate(handle)`",
    "device": "InternalError: failed to create a context on GPU 0: CUDA_OUT_OF_MEMORY",
    "alloc": "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
    "`cublasCreate(handle)`",
    "solver": "RuntimeError: cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling "
    "`cusolverDnCreate(handle)`",
    "gemm": "InternalError: Blas GEMM launch failed : a.shape=(5, 64), b.shape=(64, 128), m=5, "
    "n=128, k=64 [Op:MatMul]",
    "xgemm": "InternalError: Blas xGEMMBatched launch failed : a.shape=[8,4,64], "
    "b.shape=[8,64,64] [Op:BatchMatMulV2]",
    "gemv": "InternalError: Blas xGEMV launch failed : a.shape=[1,64,128], b.shape=[1,128,1]",
    "blas": "InternalError: Attempting to perform BLAS operation using StreamExecutor without BLAS "
    "support [Op:MatMul]",
    "dnn": "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR",
    "dnn-handle": "UnknownError: Could not create cudnn handle: CUDNN_STATUS_INTERNAL_ERROR",
    "blas-handle": "InternalError: failed to create cublas handle: cublas error",
    "lt-handle": "InternalError: failed to create cublasLt handle: the resource allocation failed",
    "cupy": "cupy.cuda.memory.OutOfMemoryError: 512 bytes, so far allocated 4,294,967,296 bytes",
}
FAULTS = {
    # No instance has so much, and no model that is unloaded makes room for it.
    "tebibytes": "MemoryError: Unable to allocate 512. TiB for an array",
    "torch-bytes": "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 562949953421312 bytes. Error code 12 (Cannot allocate memory)",
    "oom": "ValueError: the model's name is quoted beside this",
    "wrong": "ValueError: the weights are from another model",
    "room": "KeyError: 'room'",
    "bloom": "OSError: bigscience/bloom-560m is not a local folder",
    "gemm-shape": "ValueError: Blas GEMM takes two matrices, found 'launch failed'",
    "no-blas": "ImportError: numpy was built without BLAS",
    "internal": "RuntimeError: cuDNN error: CUDNN_STATUS_BAD_PARAM",
    "handle": "OSError: failed to create a file handle",
    "zoom": "ValueError: zoom must be positive, found -1 (ZOOM_RANGE)",
}
MESSAGES = {**LACKS, **FAULTS}


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerOnFake]:
    """A container whose tritonserver refuses to load l-* and to invoke i-*, each with its words."""
    directory = tmp_path_factory.mktemp("lacking")
    failed = "load failed for model '{0}': version 1 is at UNAVAILABLE state: Internal: {1}; "
    loads = {f"l-{key}": {"message": failed.format(key, text)} for key, text in MESSAGES.items()}
    infers = {f"i-{key}": {"message": text, "status": 400} for key, text in LACKS.items()}
    infers |= {f"s-{key}": {"message": text, "status": 500} for key, text in MESSAGES.items()}
    with container_on_fake(directory, {"load": loads, "infer": infers}) as container:
        models.write_archive(container.model_root / "m/model", {"m": models.identity})
        yield container


@pytest.mark.parametrize("key", MESSAGES)
def test_loads(key: str, lacking: ContainerOnFake) -> None:
    """A load that fails for want of a resource is a 507, any other a 400; none leaves a trace."""
    answer = lacking.load(f"l-{key}", lacking.model_root / "m/model")
    assert answer.status_code == (507 if key in LACKS else 400)
    assert MESSAGES[key] in complaint(answer)
    assert lacking.models() == {}
    assert not lacking.published()


@pytest.mark.parametrize(
    "name", [*(f"i-{key}" for key in LACKS), *(f"s-{key}" for key in MESSAGES)]
)
def test_invocations(name: str, lacking: ContainerOnFake) -> None:
    """An invocation that fails for want of a resource is a 507, whatever status Triton gave it."""
    with lacking.loaded(name, lacking.model_root / "m/model"):
        answer = lacking.invoke(name, infer([1]))
        assert answer.status_code == (507 if name[2:] in LACKS else 500)
        assert MESSAGES[name[2:]] in complaint(answer)


def test_memory_reserve(tmp_path: Path) -> None:
    """A load is refused with 507 while less memory is free than is to be kept free."""
    with container_on_fake(tmp_path, SERVE_MEMORY_RESERVE_MB="100000000") as container:
        directory = models.write_archive(container.model_root / "m/model", {"m": models.identity})
        answer = container.load("m1", directory)
        assert answer.status_code == 507
        assert "SERVE_MEMORY_RESERVE_MB" in complaint(answer)
        assert container.models() == {}
        assert not container.published()
        assert not container.asked("load")
