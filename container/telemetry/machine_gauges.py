"""Gauges of the metrics page: what the machine has left, and the container's versions."""

from __future__ import annotations

import os
import platform
import threading
from collections import Counter as Counts
from collections.abc import Callable, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Info

from container.telemetry.outside_counts import OutsideCounts
from serve.resources.free import (
    MEMORY,
    OWN_DESCRIPTORS,
    SHARED_MEMORY,
    Kernel,
    measure_free,
)

#: Gauges of what is free: name and meaning.
_FREE = {
    MEMORY: ("memory_free_bytes", "Memory that another process could have, in bytes."),
    SHARED_MEMORY: (
        "shared_memory_free_bytes",
        "Free bytes of /dev/shm, where it has a limit.",
    ),
    OWN_DESCRIPTORS: ("descriptors_free", "File descriptors that it may still open."),
}


class MachineGauges:
    """Gauges that are as fresh as the last refresh.

    models_loaded: how many there are. versions: tells what is known of them, by label. outside:
    what others count.
    """

    def __init__(
        self,
        models_loaded: Callable[[], int],
        versions: Callable[[], Mapping[str, str]],
        outside: OutsideCounts,
        kernel: Kernel | None = None,
    ) -> None:
        self.registry = CollectorRegistry()
        self._models_loaded, self._versions = models_loaded, versions
        self._outside = outside
        self._kernel = kernel or Kernel()
        self._looking = threading.Lock()
        self._loaded = self._gauge("models_loaded", "Models that are loaded.")
        self._free = {it: self._gauge(name, meaning) for it, (name, meaning) in _FREE.items()}
        self._descriptors = self._gauge(
            "descriptors_open", "File descriptors that the container's server has open."
        )
        self._dropped = Counter(
            "serve_log_dropped_lines",
            "Lines of the log that were dropped, since they came faster than it was read.",
            registry=self.registry,
        )
        self._starts = Counter(
            "serve_interpreter_starts",
            "Starts of a library's warm interpreter: 1 as soon as a model needs it, more where it"
            " died.",
            ["library"],
            registry=self.registry,
        )
        self._counted: Counts[str] = Counts()
        self._build = Info("serve_build", "Versions; the value is 1.", registry=self.registry)

    def refresh(self) -> None:
        """Look anew. Blocking, about a millisecond; never raises. Any thread may call it."""
        with self._looking:
            self._look()

    def _look(self) -> None:
        self._loaded.set(self._models_loaded())
        free = measure_free(self._kernel, None)
        for it, gauge in self._free.items():
            gauge.set(free.get(it, float("nan")))
        self._descriptors.set(_count(self._kernel.proc / "self/fd"))
        self._count_on(self._dropped, "lines", self._outside.dropped_lines())
        for library, starts in self._outside.interpreter_starts().items():
            self._count_on(self._starts.labels(library), library, starts)
        self._build.info({"python": platform.python_version(), **self._versions()})

    def _count_on(self, counter: Counter, name: str, now: int) -> None:
        counter.inc(now - self._counted[name])
        self._counted[name] = now

    def _gauge(self, name: str, meaning: str) -> Gauge:
        return Gauge(f"serve_{name}", meaning, registry=self.registry)


def _count(directory: Path) -> float:
    try:
        return len(os.listdir(directory))
    except OSError:
        return float("nan")
