"""Reads a lock of requirements/: what is installed for which Python, and by which hashes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker, default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


@dataclass(frozen=True)
class Pin:
    """One package. name: as package indexes have it.

    hashes: SHA-256 of the files that pip takes for it, of which it installs one.
    """

    name: str
    version: str
    hashes: tuple[str, ...]


def read_lock(path: Path, python: str) -> Iterator[Pin]:
    """What pip installs from it into a Python of that version, as `3.11`, on Linux and x86_64.

    Raises ValueError for a line that pins no version, or has no hash: it names file and line.
    """
    environment = {
        **{name: str(value) for name, value in default_environment().items()},
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    text = re.sub(r"^ *#.*$", "", path.read_text(), flags=re.MULTILINE)
    for line in filter(None, map(str.strip, text.replace("\\\n", " ").splitlines())):
        requirement = Requirement(line.partition(" --hash")[0])
        pinned = re.fullmatch(r"==([^*]+)", str(requirement.specifier))
        hashes = tuple(_HASH.findall(line))
        if not (pinned and hashes):
            raise ValueError(f"{path}: found {line[:80]!r}, expected NAME==VERSION with --hash")
        if _holds(requirement.marker, environment):
            yield Pin(canonicalize_name(requirement.name), pinned[1], hashes)


def _holds(marker: Marker | None, environment: dict[str, str]) -> bool:
    return marker is None or marker.evaluate(environment)
