"""numpy's arrays alone, for generated steps; stands above Triton's triton_python_backend_utils.

A stub imports numpy whole before it looks at its model, which is half of the CPU time of its start
and a third of its memory. What a step never asks for is imported when something asks for it.
"""

import sys as _sys
from importlib.machinery import PathFinder as _PathFinder
from importlib.util import LazyLoader as _LazyLoader

#: The first line of a step's file that needs no more.
_MARK = b"# numpy: arrays alone\n"
#: Parts of numpy, and modules of Python's that numpy alone imports.
_LATER = {"numpy." + name for name in ("ctypeslib", "fft", "ma", "polynomial", "random")}
_LATER |= {"ctypes", "ipaddress", "pickle", "textwrap"}


class _Finder:
    """Finds these modules so that they are imported at the first look into them."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = _PathFinder.find_spec(name, path, target) if name in _LATER else None
        if spec is not None and spec.loader is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


def _needs_arrays_alone():
    try:
        with open("/proc/self/cmdline", "rb") as command:  # the stub, its model's file, ...
            model_file = command.read().split(b"\0")[1]
        with open(model_file, "rb") as source:
            return source.readline() == _MARK
    except (OSError, IndexError):
        return False


if _needs_arrays_alone():
    _sys.meta_path.insert(0, _Finder)
    try:
        import numpy as _numpy  # noqa: F401
    finally:
        _sys.meta_path.remove(_Finder)
