"""What the machine has left, as many ask for it at once."""

from __future__ import annotations

import threading
from itertools import count

from container.telemetry.machine_gauges import MachineGauges
from container.telemetry.outside_counts import OutsideCounts


def test_lines_that_were_dropped_are_counted_once() -> None:
    """Each scrape and each publication looks from a thread of its own."""
    dropped = count(1)
    starts = {"torch": 2, "forests": 0}
    outside = OutsideCounts(lambda: next(dropped), lambda: starts)
    gauges = MachineGauges(lambda: 3, lambda: {"version": "1"}, outside)

    def look() -> None:
        for _ in range(50):
            gauges.refresh()

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sample = gauges.registry.get_sample_value
    assert sample("serve_log_dropped_lines_total") == 200
    assert sample("serve_interpreter_starts_total", {"library": "torch"}) == 2
    assert sample("serve_interpreter_starts_total", {"library": "forests"}) == 0
    assert sample("serve_models_loaded") == 3
    assert (sample("serve_memory_free_bytes") or 0) > 0
