"""The commands that `pip install .` brings: merlin-serve, merlin-tools.

Each is `python -m` of its package. They import nothing but what is always there, so that a missing
extra is said in a sentence: the packages' own modules import what it brings.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

from ensemble_tools.own_protobuf import import_own_protobuf
from ensemble_tools.signals import INTERRUPTED

_NOT_INSTALLED = 1
#: What a package's program imports when it is run: its libraries are looked for before.
_IMPORTED_LATER = {"container": ("container.entrypoint",)}


def merlin_serve() -> int:
    """python -m container."""
    return _run("container", "merlin-serve", "server")


def merlin_tools() -> int:
    """python -m ensemble_tools."""
    return _run("ensemble_tools", "merlin-tools", "tools")


def _run(package: str, program: str, extra: str) -> int:
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # while it imports, Ctrl-C has nothing to clear away
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))
    try:
        import_own_protobuf()
        for module in (f"{package}.__main__", *_IMPORTED_LATER.get(package, ())):
            import_module(module)
    except ModuleNotFoundError as missing:
        print(
            f"{program}: the Python package {missing.name!r} is not installed; install this "
            f"project with its extra: pip install '.[{extra}]'",
            file=sys.stderr,
        )
        return _NOT_INSTALLED
    signal.signal(signal.SIGINT, before)
    return int(sys.modules[f"{package}.__main__"].as_program(program))
