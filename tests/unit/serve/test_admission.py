"""Available memory, as the kernel's files tell it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from serve import admission
from serve.admission import admit, available_memory
from serve.errors import ResourceExhausted

MIB = 1024 * 1024
GIB = 1024 * MIB


def machine(tmp_path: Path, files: Mapping[str, str], available_kib: int = 8 * MIB) -> int:
    """available_memory of a machine with these control group files."""
    meminfo = tmp_path / "meminfo"
    meminfo.write_text(f"MemTotal: 99999999 kB\nMemAvailable:   {available_kib} kB\nHugePages: 0\n")
    for name, content in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return available_memory(meminfo, tmp_path / "cgroup")


V2 = {"memory.max": f"{4 * GIB}\n", "memory.current": f"{3 * GIB}\n",
      "memory.stat": f"anon 1\nfile 2\ninactive_file {GIB}\nactive_file 5\n"}  # fmt: skip
V1 = {"memory/memory.limit_in_bytes": f"{2 * GIB}", "memory/memory.usage_in_bytes": f"{GIB}",
      "memory/memory.stat": f"inactive_file 7\ntotal_inactive_file {GIB // 2}\n"}  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, 8 * GIB),
        (V2, 2 * GIB),
        (V1, 3 * GIB // 2),
        ({**V2, **V1}, 3 * GIB // 2),
        ({**V2, "memory.max": "max\n"}, 8 * GIB),
        ({**V2, "memory.max": "nonsense"}, 8 * GIB),
        ({**V2, "memory.current": ""}, 8 * GIB),
        ({"memory.max": f"{GIB}"}, 8 * GIB),
        ({**V2, "memory.stat": ""}, GIB),
        ({**V2, "memory.stat": "anon\n\n"}, GIB),
        ({**V1, "memory/memory.limit_in_bytes": "9223372036854771712"}, 8 * GIB),
        ({**V2, "memory.current": f"{9 * GIB}"}, -4 * GIB),
    ],
    ids=[
        "none", "v2", "v1", "both", "v2 unlimited", "v2 nonsense", "v2 empty", "v2 in part",
        "no cache known", "short lines", "v1 unlimited", "over the limit",
    ],
)  # fmt: skip
def test_the_least_limit_counts(tmp_path: Path, files: Mapping[str, str], expected: int) -> None:
    """The machine's and the group's; a group that cannot be read, or has none, does not count."""
    assert machine(tmp_path, files) == expected


def test_a_group_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A directory in its place: as if it were not there."""
    (tmp_path / "cgroup/memory.max").mkdir(parents=True)
    assert machine(tmp_path, {}) == 8 * GIB


@pytest.mark.parametrize(
    ("reserve", "admitted"),
    [(0, True), (1, True), (8 * GIB, True), (8 * GIB + 1, False), (1 << 60, False)],
)
def test_admission(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reserve: int, admitted: bool
) -> None:
    """As long as the reserve is there; a refusal says how much there is and what sets the bound."""
    machine(tmp_path, {})
    monkeypatch.setattr(
        admission, "available_memory", lambda: available_memory(tmp_path / "meminfo", tmp_path)
    )
    if admitted:
        admit("m", reserve)
        return
    with pytest.raises(ResourceExhausted, match=r"model m: 8192 MiB.*SERVE_MEMORY_RESERVE_MB"):
        admit("m", reserve)


def test_it_may_run_on_the_event_loop() -> None:
    """The real files are read in well under the millisecond that the loop can spare."""
    available_memory()
    took = []
    for _ in range(20):
        started = time.perf_counter()
        assert available_memory() > 0
        took.append(time.perf_counter() - started)
    assert min(took) < 0.001
