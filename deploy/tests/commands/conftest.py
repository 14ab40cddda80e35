"""One control plane for all tests that share it; each takes names of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.tests.support.aws_faults import FaultyAws, faulty_aws
from deploy.tests.support.runs import caller
from simulator.tests.support.control_plane import ControlPlane, control_plane
from simulator.tests.support.simulator import fake_model


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With fake containers, and a bucket `models`."""
    folder: Path = tmp_path_factory.mktemp("plane")
    with control_plane(folder / "log", "--quota", "ml.p4d.24xlarge=1") as running:
        running.client("s3").create_bucket(Bucket="models")
        yield running


@pytest.fixture(scope="module")
def aws(plane: ControlPlane) -> Iterator[FaultyAws]:
    """In front of the control plane, for calls of this process."""
    with faulty_aws(plane.url) as running, caller(plane, running):
        yield running


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """For the fake container."""
    return fake_model(tmp_path, "shop-a.tar.gz")
