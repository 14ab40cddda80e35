"""What no variable sets."""

from __future__ import annotations

import pytest

from container.constants import Constants
from container.tritonserver.command import EXIT_TIMEOUT_S, PYTHON_THREADS
from ensemble_tools.setting_names import FORMER_SETTINGS
from serve.models.request_queue import Bounds

OURS, BOUNDS = Constants(), Bounds()


def test_a_start_with_gpus_may_take_longer() -> None:
    """From a cold disk CUDA's libraries are read first."""
    assert Constants().start_timeout(0) == 120
    assert Constants().start_timeout(4) == 300


def test_the_platform_hears_of_an_unload_that_is_given_up() -> None:
    """It waits for 360 s, and giving one up takes up to ten."""
    assert Constants().unload_timeout_s + 10 <= 360


def test_the_container_ends_before_the_platform_kills_it() -> None:
    """After 30 s; the last metrics and spans may take 2 s each. tritonserver, which gives a request
    that hangs some seconds of its own, ends by itself before it is killed."""
    assert OURS.drain_timeout_s + OURS.triton_stop_timeout_s + 2 + 2 <= 25
    assert 0 < EXIT_TIMEOUT_S < OURS.triton_stop_timeout_s


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("SERVE_START_TIMEOUT", f"has {OURS.start_timeout_s:g} s"),
        ("SERVE_START_TIMEOUT", f"with GPUs {OURS.start_timeout_with_gpus_s:g} s"),
        ("SERVE_UNLOAD_TIMEOUT", f"has {OURS.unload_timeout_s:g} s"),
        ("SERVE_READ_TIMEOUT", f"has {OURS.read_timeout_s:g} s"),
        ("SERVE_RESTART_LIMIT", f"{OURS.restart_limit} deaths of tritonserver"),
        ("SERVE_RESTART_WINDOW", f"within {OURS.restart_window_s:g} s"),
        ("SERVE_UNHEALTHY_AFTER", f"for {OURS.unhealthy_after_s:g} s"),
        ("SERVE_MAX_WAITING", f"{BOUNDS.waiting:,} requests of a model"),
        ("SERVE_MAX_WAITING_TOTAL", f"{BOUNDS.total_waiting:,} of all"),
        ("SERVE_SHUTDOWN_TIMEOUT", f"in flight have {OURS.drain_timeout_s} s"),
        ("SERVE_SHUTDOWN_TIMEOUT", f"tritonserver {OURS.triton_stop_timeout_s:g} s"),
        ("SERVE_PYTHON_THREADS", f"{PYTHON_THREADS} threads"),
    ],
)
def test_what_is_told_of_a_former_setting_holds(name: str, says: str) -> None:
    """The number in the sentence is the constant's."""
    assert says in FORMER_SETTINGS[name]
