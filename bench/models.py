"""The model archives that are loaded: each a directory <root>/<name>/model/<name>, as SageMaker
extracts it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.errors import BenchError

_ROOT = Path(__file__).parents[1]
EXPORTS = _ROOT / "examples" / "merlin"
TUTORIALS = _ROOT / "tests" / "golden" / "tutorials"
FUNCTIONS = _ROOT / "tests" / "golden" / "functions"
#: The models' Python that has TensorFlow, XGBoost and LightGBM.
FRAMEWORKS = _ROOT / ".venv-frameworks" / "bin" / "python"

WIDE = "wide"
_PYTHON_S = 300
#: In the name of a workflow's directory in an export (merlin-systems).
_WORKFLOW = "transformworkflow"

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

#: Uses so many seconds of CPU time for each request.
_SLOW = """
import time


class TritonPythonModel(TritonPythonModel):
    def execute(self, requests):
        until = time.process_time() + {seconds} * len(requests)
        while time.process_time() < until:
            pass
        return super().execute(requests)
"""

_FEATURES = """
import numpy
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUT", side_by_side(r))]) for r in requests
        ]


def side_by_side(request):
    columns = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
    return numpy.concatenate([columns[f"IN_{n}"] for n in range(len(columns))], axis=1)
"""

#: Triton's configs call BYTES by another name.
_CONFIG_TYPES = {"BYTES": "STRING"}

_CONFIG = """
backend: "python"
max_batch_size: 0
instance_group { kind: KIND_CPU count: 1 }
"""


@dataclass(frozen=True)
class WideExport:
    """The export that is made when it is asked for, being too large to be committed.

    It lies below folder, and is made again when one of the files of its recipe changes. python is
    that of the models' environment.
    """

    folder: Path = _ROOT / "build" / "exports"
    recipe: tuple[Path, ...] = (EXPORTS / "export_wide.py", EXPORTS / "export.py")
    python: Path = _ROOT / ".venv-merlin" / "bin" / "python"

    def make(self) -> Path:
        """Where it lies; one of another recipe is removed. Raises BenchError."""
        recipe = b"".join(path.read_bytes() for path in self.recipe)
        folder = self.folder / hashlib.sha256(recipe).hexdigest()[:12]
        if not (folder / WIDE).exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            unfinished = folder.with_name(f"{folder.name}-unfinished")
            _run_python(self.python, "examples.merlin.export_wide", unfinished)
            unfinished.rename(folder)
        return folder / WIDE


@dataclass(frozen=True)
class Archives:
    """Where they are written; the same files are given to each contender."""

    root: Path

    def path(self, name: str) -> Path:
        """What POST /models is given as url."""
        return self.root / name / "model"

    def write_identity(
        self,
        name: str,
        datatype: str = "FP32",
        rank: int = 1,
        burn_s: float = 0.0,
        request_s: float = 0.0,
    ) -> str:
        """A Python model, IN -> OUT unchanged, of tensors with that many free dimensions.

        burn_s, request_s: the CPU seconds that its initialize uses, and each request. Written once;
        returns the name.
        """
        source = _IDENTITY + (_BURNING.format(seconds=burn_s) if burn_s else "")
        source += _SLOW.format(seconds=request_s) if request_s else ""
        dims = ", ".join(["-1"] * rank)
        tensors = _tensor("input", "IN", datatype, dims)
        tensors += _tensor("output", "OUT", datatype, dims)
        return self._write(name, source, tensors)

    def write_features(self, name: str, count: int) -> str:
        """A Python model of count FP32 columns IN_0, IN_1 ...; OUT has them side by side."""
        columns = "".join(_tensor("input", f"IN_{n}", "FP32", "-1, 1") for n in range(count))
        output = _tensor("output", "OUT", "FP32", f"-1, {count}")
        return self._write(name, _FEATURES, columns + output)

    def _write(self, name: str, source: str, tensors: str) -> str:
        directory = self.path(name) / name
        if not directory.exists():
            (directory / "1").mkdir(parents=True)
            (directory / "1/model.py").write_text(source)
            (directory / "config.pbtxt").write_text(_CONFIG + tensors)
        return name

    def copy_export(self, name: str, export: str) -> str:
        """A copy of an export, as Merlin wrote it; returns the name."""
        if not self.path(name).exists():
            shutil.copytree(find_export(export) / "repository", self.path(name))
        return name

    def copy_workflow(self, name: str, export: str) -> str:
        """An export's workflow alone, the first of several, as a single model; its name."""
        if not self.path(name).exists():
            source = find_export(export)
            step = list_workflow_steps(source)[0]
            shutil.copytree(source / "repository" / step, self.path(name) / step)
        return name

    def read_inputs(self, name: str) -> tuple[str, ...]:
        """The tensors that the model of an archive with one model takes, by its config."""
        (config,) = self.path(name).glob("*/config.pbtxt")
        return tuple(re.findall(r'^input\s*\{\s*name: "([^"]+)"', config.read_text(), re.MULTILINE))

    def rewrite_export(self, name: str, export: str, compile_: str) -> str:
        """The same export as a Triton ensemble, prepared ahead of time for the rival.

        `python -m ensemble_tools rewrite` makes it: real files, no executor. Returns the name.
        """
        if not self.path(name).exists():
            self.path(name).parent.mkdir(parents=True)
            options = ["rewrite", "--name", name, "--compile", compile_]
            repository = EXPORTS / export / "repository"
            _run_python(
                Path(sys.executable), "ensemble_tools", *options, repository, self.path(name)
            )
        return name


def find_export(export: str, wide: WideExport | None = None) -> Path:
    """Where an export lies: repository/, request.json, expected.json.

    The wide one is made where it is not there, in ten seconds. Raises BenchError.
    """
    if export == WIDE:
        return (wide or WideExport()).make()
    folders = (folder / export for folder in (TUTORIALS, FUNCTIONS))
    return next((folder for folder in folders if folder.exists()), EXPORTS / export)


def list_workflow_steps(export: Path) -> tuple[str, ...]:
    """The directories of an export's workflows."""
    return tuple(sorted(path.name for path in (export / "repository").glob(f"*{_WORKFLOW}*")))


def _run_python(python: Path, module: str, *arguments: str | Path) -> None:
    """Raises BenchError with what the module says."""
    try:
        ended = subprocess.run(
            [python, "-m", module, *arguments],
            cwd=_ROOT,
            capture_output=True,
            text=True,
            timeout=_PYTHON_S,
            check=False,
        )
    except OSError as error:
        raise BenchError(f"{module}: {error}; `make setup` makes the environments") from error
    if ended.returncode:
        raise BenchError(f"{module} said {ended.stderr.strip()[-1000:]}")


def _tensor(kind: str, name: str, datatype: str, dims: str) -> str:
    written = _CONFIG_TYPES.get(datatype, datatype)
    return f'{kind} {{ name: "{name}" data_type: TYPE_{written} dims: [{dims}] }}\n'
