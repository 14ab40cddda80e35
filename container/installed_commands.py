"""The commands that `pip install .` brings: merlin-serve, merlin-tools.

Each is `python -m` of its package. They import nothing but what is always there, so that a missing
extra is said in a sentence: the packages' own modules import what it brings.
"""

from __future__ import annotations

from importlib import import_module

from ensemble_tools.command_start import start_command


def merlin_serve() -> int:
    """python -m container."""
    return _run("container", "merlin-serve", "server")


def merlin_tools() -> int:
    """python -m ensemble_tools."""
    return _run("ensemble_tools", "merlin-tools", "tools")


def _run(package: str, program: str, extra: str) -> int:
    start_command(program, extra)
    return int(import_module(f"{package}.__main__").as_program(program))
