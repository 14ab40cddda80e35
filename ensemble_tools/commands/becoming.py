"""Becoming another program: commands that need more than this library knows are rooms above it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ensemble_tools.commands import request, verify
from ensemble_tools.signals import hold


def enter_another_room(command: Sequence[str]) -> None:
    """Become the program of a command that only has its door here; returns for any other one."""
    for door in (verify, request):
        if command[:1] == [door.NAME]:
            become(door.PROGRAM, command[1:])


def become(module: str, arguments: Sequence[str]) -> None:
    """Become `python -m module`, isolated if we are, as in images; does not return."""
    hold()
    isolated = ["-I"] if sys.flags.isolated else []
    os.execv(sys.executable, [sys.executable, *isolated, "-m", module, *arguments])
