"""What a fork copies of the libraries' random number generators, with the libraries themselves."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from container.warm.interpreters import CODE
from container.warm.libraries import LIBRARIES
from tests.support.container import ROOT
from tests.unit.container.warm.test_interpreters import UTILS

#: Imports the libraries as an interpreter does, forks three children, and prints what each drew.
DRAWING = """
import importlib, json, os, random, sys, warnings
warnings.simplefilter("ignore")
code, utils, *modules = sys.argv[1:]
sys.path.insert(0, code)
from warm_interpreter import child, triton_utils
from warm_interpreter.interpreter import import_all
triton_utils.install(utils)
lacking = import_all(modules)
assert not lacking, lacking
import numpy as np

def compiled():
    import numba
    return [numba.njit(lambda: np.random.rand())(), numba.njit(lambda: random.random())()]

def dask(da):
    return [float(da.random.random(1).compute()[0])]

def torch(torch):
    scripted = torch.jit.CompilationUnit("def draw():\\n    return torch.rand([1])\\n").draw()
    noise = torch.nn.functional.dropout(torch.ones(64))
    return [float(torch.rand(1)), float(scripted), noise.tolist(), torch.randperm(99).tolist()]

def tensorflow(tf):
    with tf.Graph().as_default() as graph:
        drawn = tf.raw_ops.RandomUniform(shape=[1], dtype=tf.float32, seed=0, seed2=0)
        old = float(tf.compat.v1.Session(graph=graph).run(drawn)[0])
    new = tf.function(lambda: tf.random.uniform([]))
    return [old, float(new()), float(tf.random.uniform([])),
            float(tf.random.get_global_generator().uniform([]))]

DRAWS = {
    "random": lambda module: [random.random()],
    "numpy": lambda module: [np.random.rand(), np.random.default_rng().random()],
    "tempfile": lambda module: [next(module._get_candidate_names())],
    "pyarrow.compute": lambda module: [module.random(1)[0].as_py()],
    "numba.core": lambda module: compiled(),
    "dask.array": dask,
    "torch": torch,
    "tensorflow": tensorflow,
}

def draw():
    drawn = {}
    for name, how in DRAWS.items():
        if name in sys.modules:
            drawn[name] = how(sys.modules[name])
    random.seed(7), np.random.seed(7)
    drawn["seeded"] = [random.random(), np.random.rand()]
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(7)
        drawn["seeded"].append(float(sys.modules["torch"].rand(1)))
    return drawn

for _ in range(3):
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        child.reseed()
        print(json.dumps(draw()), flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""
_PYTHONS = {
    ".venv-merlin": ("torch", "pandas", "torch-pandas", "nvtabular", "feast"),
    ".venv-frameworks": ("forests", "tensorflow"),
}


@pytest.mark.slow
@pytest.mark.parametrize("environment", _PYTHONS)
def test_each_child_draws_numbers_of_its_own(environment: str) -> None:
    """Of every library that interpreters import; where a model sets a seed, the seed's."""
    modules = [module for name in _PYTHONS[environment] for module in LIBRARIES[name].modules]
    python = ROOT / environment / "bin/python"
    words = [str(it) for it in (python, "-c", DRAWING, CODE, UTILS, *dict.fromkeys(modules))]
    ran = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=600, cwd=Path("/")
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    children = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert len(children) == 3
    seeded = [drawn.pop("seeded") for drawn in children]
    assert seeded[0] == seeded[1] == seeded[2]
    assert {"random", "numpy", "tempfile", "pyarrow.compute"} < set(children[0])
    for library in children[0]:
        for drawn in zip(*(child[library] for child in children), strict=True):
            assert len({json.dumps(each) for each in drawn}) == 3, library


def test_every_library_is_asked() -> None:
    """A new one is drawn from as well."""
    assert {name for names in _PYTHONS.values() for name in names} == set(LIBRARIES)
