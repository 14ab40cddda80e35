"""What one line says of a container that starts."""

from __future__ import annotations

from pathlib import Path

from container.settings import read_settings
from container.start_line import describe_start
from container.tritonserver.runtime import BackendPython, TritonRuntime


def described(folder: Path, python: BackendPython | None, **environment: str) -> dict[str, object]:
    for backend in ("python", "pytorch", "onnxruntime"):
        (folder / backend).mkdir(exist_ok=True)
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
        "settings": "defaults",
    }


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
