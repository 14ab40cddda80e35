"""A container with every committed Merlin export in it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.container import ROOT, Container, running

EXAMPLES = ROOT / "examples" / "merlin"
EXPORTS = ("dense", "ragged", "session", "two_workflows")


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """All exports loaded side by side, at once; unloaded at the end, which leaves nothing."""
    directory: Path = tmp_path_factory.mktemp("exports")
    with (
        running(directory, SERVE_MODEL_ROOT=str(EXAMPLES)) as container,
        ThreadPoolExecutor(len(EXPORTS)) as pool,
    ):
        paths = [EXAMPLES / name / "repository" for name in EXPORTS]
        for answer in pool.map(container.load, EXPORTS, paths):
            assert answer.status_code == 200, answer.text
        yield container
        for answer in pool.map(container.unload, EXPORTS):
            assert answer.status_code == 200, answer.text
        assert not container.stubs()
        container.until_nothing_is_published()
