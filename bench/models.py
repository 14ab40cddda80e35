"""The model archives that are loaded: each a directory <root>/<name>/model/<name>, as SageMaker
extracts it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

_ROOT = Path(__file__).parents[1]
EXPORTS = _ROOT / "examples" / "merlin"
_REWRITE_S = 60

_IDENTITY = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(r, "IN").as_numpy())]
            )
            for r in requests
        ]
"""

#: Uses so many seconds of CPU time, not of the clock, to initialize.
_BURNING = """
import time


class TritonPythonModel(TritonPythonModel):
    def initialize(self, args):
        until = time.process_time() + {seconds}
        while time.process_time() < until:
            pass
"""

#: Triton's configs call BYTES by another name.
_CONFIG_TYPES = {"BYTES": "STRING"}


@dataclass(frozen=True)
class Archives:
    """Where they are written; the same files are given to each contender."""

    root: Path

    def path(self, name: str) -> Path:
        """What POST /models is given as url."""
        return self.root / name / "model"

    def identity(
        self, name: str, datatype: str = "FP32", rank: int = 1, burn_s: float = 0.0
    ) -> str:
        """A Python model, IN -> OUT unchanged, of tensors with that many free dimensions.

        burn_s: the CPU seconds that its initialize uses. Written once; returns the name.
        """
        directory = self.path(name) / name
        if not directory.exists():
            (directory / "1").mkdir(parents=True)
            source = _IDENTITY + (_BURNING.format(seconds=burn_s) if burn_s else "")
            (directory / "1/model.py").write_text(source)
            (directory / "config.pbtxt").write_text(_config(datatype, rank))
        return name

    def merlin(self, name: str, export: str) -> str:
        """A copy of one of examples/merlin's exports, as Merlin wrote it; returns the name."""
        if not self.path(name).exists():
            shutil.copytree(EXPORTS / export / "repository", self.path(name))
        return name

    def merlin_ensemble(self, name: str, export: str) -> str:
        """The same export as the Triton ensemble that one would prepare by hand for the rival.

        `python -m ensemble_tools rewrite` makes it: real files, no executor. Returns the name.
        """
        if not self.path(name).exists():
            self.path(name).parent.mkdir(parents=True)
            command = [sys.executable, "-m", "ensemble_tools", "rewrite", "--name", name]
            done = subprocess.run(
                [*command, str(EXPORTS / export / "repository"), str(self.path(name))],
                cwd=_ROOT, capture_output=True, text=True, timeout=_REWRITE_S, check=False,
            )  # fmt: skip
            if done.returncode:
                raise BenchError(f"{export}: ensemble_tools rewrite said {done.stderr.strip()}")
        return name


def _config(datatype: str, rank: int) -> str:
    kind = _CONFIG_TYPES.get(datatype, datatype)
    tensor = f"data_type: TYPE_{kind} dims: [{', '.join(['-1'] * rank)}]"
    return (
        'backend: "python"\n'
        "max_batch_size: 0\n"
        f'input {{ name: "IN" {tensor} }}\n'
        f'output {{ name: "OUT" {tensor} }}\n'
        "instance_group { kind: KIND_CPU count: 1 }\n"
    )
