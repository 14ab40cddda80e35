"""The order of the suite, its examples, and which tests start a real tritonserver."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest
from hypothesis import settings

from tests.support.clock import clock as clock
from tests.support.examples import SHORT, SHORT_EXAMPLES

# Without a clock: a busy machine is no fault.
settings.register_profile("suite", deadline=None)
settings.load_profile("suite")
settings.register_profile(SHORT, max_examples=SHORT_EXAMPLES, deadline=None)

#: Folders and files that take long, the longest first; every other takes seconds and fills the gaps
#: at the end.
LONG = (
    "tests/end_to_end/",
    "tests/contract/",
    "simulator/tests/end_to_end/",
    "deploy/tests/commands/",
    "tests/reliability/",
    "tests/golden/",
    "tests/unit/container/backends/",
    "tests/unit/serve/http/test_bounded_protocol.py",
    "tests/unit/serve/models/",
    "tests/unit/ensemble_tools/archive/test_inert_pickle.py",
    "simulator/tests/unit/replay/",
    "tests/unit/container/tritonserver/",
    "tests/unit/serve/invoke/test_invocation.py",
    "tests/unit/ensemble_tools/commands/",
    "tests/unit/serve/test_called_models.py",
)
#: Fixtures that start one, but where it is played. A test that starts one by itself bears the mark.
REAL_TRITONSERVER, PLAYED = frozenset({"triton", "stage", "container"}), "endpoint"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long begins first, so that no worker ends alone; else nothing moves."""
    for item in items:
        fixtures = set(getattr(item, "fixturenames", ()))
        if REAL_TRITONSERVER & fixtures and PLAYED not in fixtures:
            item.add_marker(pytest.mark.tritonserver)
    items.sort(key=_rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported and made stays: a collection of garbage between would find next to none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Thousands of tests live as long as their process: no collection of garbage walks them."""
    gc.collect()
    gc.freeze()


def _rank(item: pytest.Item) -> int:
    ranks = (rank for rank, long in enumerate(LONG) if item.nodeid.startswith(long))
    return next(ranks, len(LONG))
