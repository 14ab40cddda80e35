"""A directory in the kernel's place: what it says of memory, processes and control groups."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from serve.resources.free import Kernel

MIB = 1024 * 1024
GIB = 1024 * MIB
STUB = "/opt/tritonserver/backends/python/triton_python_backend_stub"
SERVER = 100
#: Bytes of shared memory that each process has mapped.
SHARED = 2048


@dataclass
class KernelDirectory:
    """proc, cgroup and shm under one directory; by itself a machine with 8 GiB available."""

    root: Path
    available: int = 8 * GIB
    pids: dict[str, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("proc/self", "proc/sys/kernel", "cgroup", "shm"):
            (self.root / name).mkdir(parents=True)
        self.machine(self.available)

    @property
    def kernel(self) -> Kernel:
        """What the code under test is given."""
        return Kernel(self.root / "proc", self.root / "cgroup", self.root / "shm")

    def machine(self, available: int) -> None:
        """So many bytes are available."""
        self.available = available
        rows = f"MemTotal: 99999999 kB\nMemAvailable:   {available // 1024} kB\nHugePages: 0\n"
        self.write("proc/meminfo", rows)

    def write(self, name: str, content: str) -> None:
        """A file below the directory; whoever reads it meanwhile finds it whole, as in /proc."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        coming = self.root / "coming"
        coming.write_text(content)
        coming.replace(path)

    def process(
        self, pid: int, parent: int, words: list[str], memory: int, tasks: int = 1, peak: int = 0
    ) -> None:
        """A process as proc(5) shows one; bytes of anonymous memory."""
        after = ["S", str(parent), *["0"] * 15, str(tasks), "0", "0"]
        self.write(f"proc/{pid}/stat", f"{pid} (a) b) {' '.join(after)}\n")
        self.write(f"proc/{pid}/cmdline", "\0".join(words) + "\0")
        self.write(
            f"proc/{pid}/status",
            f"Name:\ta\nVmHWM:\t{(peak or memory) // 1024 + 7} kB\n"
            f"RssAnon:\t{memory // 1024} kB\nRssFile:\t5 kB\nRssShmem:\t{SHARED // 1024} kB\n",
        )

    def server(self, repository: Path, memory: int = 50 * MIB, pid: int = SERVER) -> None:
        """tritonserver, a child of this process; there is one."""
        for other in range(SERVER, SERVER + 10):
            self.end(other)
        regions = "--backend-config=python,shm-region-prefix-name=serve_"
        words = ["tritonserver", f"--model-repository={repository}", regions]
        self.process(pid, os.getpid(), words, memory, 20)

    def stub(
        self, pid: int, repository: Path, name: str, memory: int, parent: int = SERVER
    ) -> None:
        """A stub of the model, with a region of 1 MiB."""
        region = f"serve_{pid}"
        (self.root / "shm" / region).write_bytes(b"x" * MIB)
        words = [STUB, f"{repository}/{name}/1/model.py", region, "1048576"]
        self.process(pid, parent, words, memory, 5)
        self.pids.setdefault(name, []).append(pid)

    def end(self, pid: int, *, keeps_region: bool = False) -> None:
        """The process is gone."""
        for name in ("stat", "cmdline", "status"):
            (self.root / f"proc/{pid}/{name}").unlink(missing_ok=True)
        if keeps_region:
            return
        (self.root / f"shm/serve_{pid}").unlink(missing_ok=True)
