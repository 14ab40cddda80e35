"""The programs that a child runs instead of a backend, for a predictor among other steps.

No I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ensemble_tools import Predictor

_BACKENDS = Path(__file__).parents[1] / "backends"
#: Backend -> the library and the file that its model.py names as well.
_PROGRAMS = {
    "pytorch": ("torch", "torchscript.py"),
    "tensorflow": ("tensorflow", "saved_model.py"),
    "fil": ("forests", "forest.py"),
}


def find_predictors(stand_ins: Iterable[str]) -> Mapping[str, Predictor]:
    """stand_ins: the backends that ours play; what NVIDIA's play is no business of a child's."""
    return {
        name: Predictor(_PROGRAMS[name][0], _BACKENDS / name / _PROGRAMS[name][1])
        for name in stand_ins
        if name in _PROGRAMS
    }
