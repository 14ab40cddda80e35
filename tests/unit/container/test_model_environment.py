"""What of the container's environment models see."""

from __future__ import annotations

import subprocess
import sys

from container.model_environment import hide_from_models

ENVIRONMENT = {
    "PATH": "/bin",
    "LD_LIBRARY_PATH": "/cuda",
    "HF_HOME": "/cache",
    "SAGEMAKER_MULTI_MODEL": "true",
    "AWSOME": "no prefix",
    "AWS_REGION": "eu-west-1",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/credentials/1",
    "AWS_SECRET_ACCESS_KEY": "x",
    "OTEL_EXPORTER_OTLP_HEADERS": "api-key=x",
    "SERVE_MODEL_ROOT": "/work",
    "SAGEMAKER_TRITON_ADDITIONAL_ARGS": "--x",
}


def test_clean() -> None:
    """Neither credentials nor where they are to be had, nor this container's settings."""
    seen = hide_from_models(ENVIRONMENT, "clean")
    assert list(seen) == [
        "PATH",
        "LD_LIBRARY_PATH",
        "HF_HOME",
        "SAGEMAKER_MULTI_MODEL",
        "AWSOME",
    ]


def test_all() -> None:
    """Everything, as a copy."""
    seen = hide_from_models(ENVIRONMENT, "all")
    assert seen == ENVIRONMENT
    assert seen is not ENVIRONMENT


def test_a_process_that_is_shut() -> None:
    """It is not dumpable, and what it starts is (PR_GET_DUMPABLE is 3)."""
    asked = "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), flush=True)"
    program = (
        "import subprocess, sys; from container.model_environment import shut_ourselves;"
        f"shut_ourselves(); {asked}; subprocess.run([sys.executable, '-c', {asked!r}], check=True)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["0", "1"], done.stderr
