"""The numbers of a run that no variable sets, each with its reason.

A test that would wait for one of them hands in another (`main`'s `constants`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Times in seconds."""

    #: For tritonserver to become live: some seconds from a warm disk. From a cold one it reads its
    #: libraries first, with GPUs GB of CUDA's: an image then has 8 GB and more.
    start_timeout_s: float = 120.0
    start_timeout_with_gpus_s: float = 300.0
    #: For an unload: the platform gives up after 360, and to give one up takes up to ten more.
    unload_timeout_s: float = 350.0
    #: For a request to arrive whole. The platform sends it at once; a caller who trickles is ended.
    read_timeout_s: float = 30.0
    #: Deaths of tritonserver within the window that are healed; one more ends the container. Those
    #: that a request or a model explains are not counted (decision 22).
    restart_limit: int = 3
    restart_window_s: float = 60.0
    #: How long no lost model could be loaded again before `/ping` says so: a shorter shortage ends
    #: without a new container (decision 29).
    unhealthy_after_s: float = 120.0
    #: After SIGTERM: for requests in flight, then for tritonserver, which is killed after that.
    #: With what is published last it is 25 s at most: the platform kills after 30.
    drain_timeout_s: int = 12
    triton_stop_timeout_s: float = 6.0
    #: Before tritonserver is ended, for the last publication of metrics.
    last_metrics_s: float = 2.0
    #: Beside its end, for the last captures.
    last_captures_s: float = 8.0

    def start_timeout(self, gpus: int) -> float:
        """On a machine with so many GPUs."""
        return self.start_timeout_with_gpus_s if gpus else self.start_timeout_s
