"""One control plane for all tests that share it; each takes names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.tests.support.control_plane import ControlPlane, control_plane


@pytest.fixture(scope="package")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With fake containers, and archives a.tar.gz and b.tar.gz below s3://models/shop/."""
    folder: Path = tmp_path_factory.mktemp("plane")
    with control_plane(folder / "log", "--quota", "ml.p4d.24xlarge=1") as running:
        running.put_models(folder, "a.tar.gz", "b.tar.gz")
        yield running


@pytest.fixture(scope="module")
def plane(lasting: ControlPlane) -> Iterator[ControlPlane]:
    """The control plane, in which a module finds none of SageMaker's things, and leaves none."""
    yield lasting
    lasting.clear()
