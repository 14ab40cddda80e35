"""Models whose answers tell them apart, and how each answer is checked.

Small ones add a number of their own to random values, so no other model's answer can be taken for
theirs. The exports of examples/merlin are asked their committed request and must give the numbers
that Merlin computed offline.
"""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import models
from tests.support.container import ROOT
from tests.support.models import Writable, write_archive
from tests.support.protocol import binary, sized

EXPORTS = ROOT / "examples/merlin"
#: The frameworks' Python has the models' packages as well (requirements/frameworks.in).
PYTHONS = (".venv-frameworks/bin/python", ".venv-merlin/bin/python")
_OF_FRAMEWORKS = ("forest_lightgbm", "forest_xgboost", "tensorflow_ragged")

#: Candidates that are dropped.
BAD_CANDIDATES = {
    "raising": models.RAISING,
    "killing": models.KILLING,
    "stillborn": models.STILLBORN,
    "forever": models.FOREVER,
    "greedy": models.GREEDY,
}

#: tests/end_to_end: sums of floats in another order than offline.
_RELATIVE, _ABSOLUTE = 1e-6, 1e-7


@dataclass(frozen=True)
class Question:
    """One request: its body and headers, and what is wrong with the answer to it, or None."""

    body: bytes
    headers: tuple[tuple[str, str], ...]
    verdict: Callable[[bytes, Mapping[str, str]], str | None]


@dataclass(frozen=True)
class Tenant:
    """archive: where it lies. ask: makes a question of a source of chance."""

    name: str
    archive: Path
    ask: Callable[[random.Random], Question]
    kind: str


def small(root: Path, name: str, addend: float) -> Tenant:
    """One Python model that adds; asked in JSON and in the binary form."""
    archive = _written(root, name, {name: models.adder(addend)})
    return Tenant(name, archive, lambda chance: _sum(chance, addend), "python")


def chained(root: Path, name: str, addends: Sequence[float]) -> Tenant:
    """An ensemble of Python models that add."""
    archive = root / name / "model"
    if not archive.exists():
        models.sums(archive, addends)
    total = math.fsum(addends)
    return Tenant(name, archive, lambda chance: _sum(chance, total), "ensemble")


def slow(root: Path, name: str, marker: Path) -> Tenant:
    """One that sleeps for IN[0] seconds; asked to sleep for none."""
    archive = _written(root, name, {name: models.slow(marker)})
    return Tenant(name, archive, lambda _: _plain([0.0], [0.0]), "slow")


def export(root: Path, name: str, as_name: str | None = None) -> Tenant:
    """A committed export of Merlin, copied to where archives may lie."""
    archive = root / (as_name or name) / "model"
    if not archive.exists():
        shutil.copytree(EXPORTS / name / "repository", archive)
    request = (EXPORTS / name / "request.json").read_bytes()
    expected = json.loads((EXPORTS / name / "expected.json").read_text())["outputs"]
    question = Question(request, (), lambda body, _: _tensors_differ(body, expected))
    return Tenant(as_name or name, archive, lambda _: question, name)


def write_candidate(archive: Path, source: str) -> None:
    """Let the archive carry a candidate that runs this."""
    if not (archive / "candidate").exists():
        write_archive(archive / "candidate", {"m": models.PythonModel(source)})


def servable_exports() -> tuple[str, ...]:
    """The exports that the best Python here can serve."""
    python = models_python()
    names = sorted(path.name for path in EXPORTS.iterdir() if (path / "request.json").exists())
    if python is None:
        return ()
    frameworks = "frameworks" in str(python)
    return tuple(name for name in names if frameworks or name not in _OF_FRAMEWORKS)


def models_python() -> Path | None:
    """The Python that models get; None where neither environment is made."""
    return next((ROOT / path for path in PYTHONS if (ROOT / path).exists()), None)


def model_environment() -> dict[str, str]:
    """The container's setting for that Python."""
    python = models_python()
    return {"SERVE_BACKEND_PYTHON": str(python)} if python else {}


def _written(root: Path, name: str, written: Mapping[str, Writable]) -> Path:
    archive = root / name / "model"
    return archive if archive.exists() else write_archive(archive, written)


# -- questions


def _sum(chance: random.Random, addend: float) -> Question:
    values = [float(chance.randrange(-1000, 1000)) for _ in range(chance.randrange(1, 9))]
    expected = [value + addend for value in values]
    return (_plain if chance.random() < 0.7 else _binary)(values, expected)


def _plain(values: list[float], expected: list[float]) -> Question:
    given = {"name": "IN", "datatype": "FP32", "shape": [len(values)], "data": values}
    body = json.dumps({"inputs": [given]}).encode()
    return Question(body, (), lambda answer, _: _values_differ(answer, expected))


def _binary(values: list[float], expected: list[float]) -> Question:
    body, size = binary(values)
    wanted = np.array(expected, dtype="<f4").tobytes()
    return Question(body, (("Content-Type", sized(size)),), _tail_differs(wanted))


def _values_differ(answer: bytes, expected: list[float]) -> str | None:
    (tensor,) = json.loads(answer)["outputs"]
    if tensor["name"] == "OUT" and tensor["data"] == expected:
        return None
    return f"{tensor['name']} {tensor['data']}, not {expected}"


def _tail_differs(wanted: bytes) -> Callable[[bytes, Mapping[str, str]], str | None]:
    def verdict(answer: bytes, headers: Mapping[str, str]) -> str | None:
        _, _, size = headers.get("content-type", "").partition("json-header-size=")
        if size.isdigit() and answer[int(size) :] == wanted:
            return None
        return f"{answer!r}, not the bytes {wanted!r}"

    return verdict


def _tensors_differ(body: bytes, expected: list[dict[str, Any]]) -> str | None:
    found = {tensor["name"]: tensor for tensor in json.loads(body)["outputs"]}
    if found.keys() != {tensor["name"] for tensor in expected}:
        return f"outputs {sorted(found)}"
    for tensor in expected:
        answer = found[tensor["name"]]
        if (answer["datatype"], answer["shape"]) != (tensor["datatype"], tensor["shape"]):
            return f"{tensor['name']}: {answer['datatype']} {answer['shape']}"
        if not np.allclose(answer["data"], tensor["data"], rtol=_RELATIVE, atol=_ABSOLUTE):
            return f"{tensor['name']}: {answer['data']}, not {tensor['data']}"
    return None
