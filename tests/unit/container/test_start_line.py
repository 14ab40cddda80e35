"""What one line says of a container that starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from container.machine.hardware import Hardware
from container.settings.reading import read_settings
from container.start_line import describe_open_apis, describe_start
from container.tritonserver.features import GRPC_RESTRICTED, HTTP_RESTRICTED
from container.tritonserver.runtime import BackendPython, TritonRuntime

HTTP = f"--{HTTP_RESTRICTED}"


def described(folder: Path, python: BackendPython | None, **environment: str) -> dict[str, object]:
    for backend in ("python", "pytorch", "onnxruntime"):
        (folder / backend).mkdir(exist_ok=True)
        (folder / backend / f"libtriton_{backend}.so").touch()
    runtime = TritonRuntime(
        Path("/opt/t/bin/tritonserver"), folder, None, None, None, None, python, ("pytorch",)
    )
    return {**describe_start(read_settings(environment), runtime, environment)}


def test_defaults(tmp_path: Path) -> None:
    """The image's own Python is not asked; backends that are ours say so."""
    assert described(tmp_path, None) == {
        "mode": "single-model",
        "models": "/opt/ml/model",
        "port": 8080,
        "python": "the image's python3",
        "packages": "",
        "backends": "onnxruntime, python, pytorch (stand-in)",
        "gpus": 0,
        "shared_memory": "no limit known, 16 MB for each instance of a Python model",
        "settings": "defaults",
    }


def test_what_the_machine_has(tmp_path: Path) -> None:
    """GPUs, and the /dev/shm that Python models live in, of which nobody says how large it is."""
    runtime = TritonRuntime(Path("t"), tmp_path, None, None, None, None, None, ())
    hardware = Hardware(2, 64 << 20)
    found = describe_start(read_settings({}, hardware), runtime, {}, hardware)
    assert found["gpus"] == 2
    assert found["shared_memory"] == "64 MB, 1 MB for each instance of a Python model"


def test_what_is_not_the_default(tmp_path: Path) -> None:
    """As it was set, but for arguments' values, which may open tritonserver's APIs."""
    python = BackendPython(
        Path("/v/bin/python"), "3.11", Path("/v"), None, packages=(("numpy", "1.24"),)
    )
    found = described(
        tmp_path,
        python,
        SAGEMAKER_MULTI_MODEL="true",
        SAGEMAKER_BIND_TO_PORT="9000",
        SERVE_MODEL_ROOT="/models",
        SERVE_WARM="off",
        SERVE_COMPILE="auto",
        SAGEMAKER_TRITON_ADDITIONAL_ARGS="--http-restricted-api=all,k=secret --log-info 1 --x",
    )
    assert found["settings"] == (
        "SAGEMAKER_TRITON_ADDITIONAL_ARGS=--http-restricted-api=… --log-info --x SERVE_WARM=off"
    )
    assert (found["mode"], found["models"], found["port"]) == ("multi-model", "/models", 9000)
    assert (found["python"], found["packages"]) == ("/v/bin/python (3.11)", "numpy 1.24")


@pytest.mark.parametrize(
    ("restricts", "version", "said"),
    [
        ((HTTP_RESTRICTED, GRPC_RESTRICTED), "2.41.0", ""),
        (
            (GRPC_RESTRICTED,),
            "2.39.0",
            f"over HTTP: found no {HTTP} in tritonserver 2.39.0, expected",
        ),
        (
            (GRPC_RESTRICTED,),
            "",
            f"found no {HTTP} in tritonserver /opt/t/bin/tritonserver, expected",
        ),
        ((), "2.35.0", f"over HTTP and gRPC: found no {HTTP} and no --{GRPC_RESTRICTED} in triton"),
    ],
)
def test_what_models_can_reach(
    tmp_path: Path, restricts: tuple[str, ...], version: str, said: str
) -> None:
    """A tritonserver before 2.40 cannot shut its HTTP, and the log says so with the remedy."""
    runtime = TritonRuntime(
        *(Path("/opt/t/bin/tritonserver"), tmp_path, None, None, None, None, None, ()),
        knows=frozenset(restricts),
        version=version,
    )
    sentence = describe_open_apis(runtime)
    assert said in sentence
    assert bool(sentence) == ("take a newer BASE_IMAGE" in sentence) == bool(said)
