"""The fake tritonserver in the container's hands."""

from __future__ import annotations

import json
from pathlib import Path

from tests.fakes import tritonserver as fake


def fake_environment(directory: Path, **knobs: object) -> dict[str, str]:
    """Environment for a container on a fake tritonserver; what happens is in directory/record."""
    root = directory / "fake"
    for backend in ("python", "pytorch", "onnxruntime"):
        (root / "backends" / backend).mkdir(parents=True)
        (root / "backends" / backend / f"libtriton_{backend}.so").touch()
    (root / "bin").mkdir()
    program = fake.install(root / "bin/tritonserver")
    return {
        "SERVE_TRITON_SERVER": str(program),
        fake.VARIABLE: json.dumps({"record": str(directory / "record"), **knobs}),
    }
