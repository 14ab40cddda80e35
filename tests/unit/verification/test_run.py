"""What is refused before a tritonserver is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from container.tritonserver.runtime import (
    MERLIN_PYTHON,
    SMALL_PYTHON,
    BackendPython,
    TritonRuntime,
)
from verification.errors import MerlinMissing
from verification.run import check_for_merlin


def runtime(python: Path) -> TritonRuntime:
    return TritonRuntime(
        executable=Path("/t/bin/tritonserver"),
        backend_directory=Path("/w/backends"),
        cache_directory=None,
        bin_path=python.parent,
        library_path=None,
        server_bin=None,
        backend_python=BackendPython(python, "3.11", python.parent, None),
        stand_ins=(),
    )


def test_the_demos_python_has_no_merlin() -> None:
    """One sentence says so, in the place of an executor that cannot be loaded."""
    with pytest.raises(MerlinMissing, match=r"\.venv-models/bin/python has none; `make setup`"):
        check_for_merlin(runtime(SMALL_PYTHON))


@pytest.mark.parametrize("python", [MERLIN_PYTHON, Path("/usr/bin/python3")])
def test_any_other_is_tried(python: Path) -> None:
    """What it has shows when it runs."""
    check_for_merlin(runtime(python))
