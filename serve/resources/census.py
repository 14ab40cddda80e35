"""What the models' processes hold now: memory, shared memory, threads. Read from /proc.

A Python stub says by its command whose it is (its model's path) and which region in /dev/shm is its
own; what it starts belongs to it, and so does the process that was forked from a warm interpreter
to run the model for it, which says so in the same way. tritonserver is the child of ours whose
command names our serving repository. A process that ends while it is read holds nothing.

Memory is what no file stands behind (RssAnon), with the region, which tritonserver allocates whole
(seen: 16 MiB each on 2.51). Libraries are shared by all models and can be read again. A forked
process counts what it has more than the interpreter that it was forked from, and what it was seen
to change of that: asking the kernel for the pages that are its own takes 4 ms for each. What it
shares with its stub, large requests and answers, is its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from serve.resources.free import Kernel
from serve.resources.processes import (
    FORKED,
    STUB,
    Process,
    find_children,
    find_family,
    name_model,
    read,
    read_command,
)

#: Bytes that a forked process changes of what it shares at first: 11 MB with torch.
_CHANGED = 11 * 1024 * 1024
_PREFIX = "shm-region-prefix-name="


@dataclass(frozen=True)
class Usage:
    """Memory and threads of some processes."""

    memory: int = 0  # bytes now, the region included
    peak: int = 0  # the most bytes that it was
    region: int = 0
    processes: int = 0  # stubs
    tasks: int = 0  # threads of these, children's included

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.memory + other.memory,
            self.peak + other.peak,
            self.region + other.region,
            self.processes + other.processes,
            self.tasks + other.tasks,
        )


@dataclass(frozen=True)
class Census:
    """The usage of tritonserver and of its stubs."""

    models: Mapping[str, Usage] = field(default_factory=dict)  # of stubs, by the Triton model
    server: Usage = Usage()  # tritonserver's own, without stubs
    pid: int | None = None  # tritonserver's
    #: Bytes of tritonserver's regions in /dev/shm that no stub uses. While nothing is being loaded
    #: they are those of stubs that died, which some versions keep for as long as they live.
    abandoned: int = 0
    #: Of each model's stubs and what they have started.
    pids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def take_census(serving_repository: Path, kernel: Kernel, parent: int | None = None) -> Census:
    """Blocking: 4 ms for a hundred stubs. parent: of tritonserver; this process."""
    proc = str(kernel.proc)
    children = find_children(proc)
    server = _find_server(proc, children.get(parent or os.getpid(), ()), serving_repository)
    if server is None:
        return Census()
    models: dict[str, Usage] = {}
    pids: dict[str, tuple[int, ...]] = {}
    used = set()

    def count(name: str, held: Usage, family: Sequence[Process]) -> None:
        models[name] = models.get(name, Usage()) + held
        pids[name] = (*pids.get(name, ()), *(process.pid for process in family))

    for stub in children.get(server.pid, ()):
        arguments = _read_arguments(proc, stub.pid)
        if arguments[0].endswith(STUB) and (name := name_model(arguments[1], serving_repository)):
            region = _read_region_name(arguments)
            used.add(region)
            family = find_family(stub, children)
            count(name, _sum_held(proc, family, _measure_region(kernel, region)), family)
    for process, inherited in _find_forked(proc, children, parent or os.getpid(), server.pid):
        arguments = _read_arguments(proc, process.pid)
        if arguments[0] == FORKED and (name := name_model(arguments[1], serving_repository)):
            family = find_family(process, children)
            count(name, _sum_forked(proc, family, inherited), family)
    abandoned = sum(
        _measure_region(kernel, name) for name in _list_regions(proc, server, kernel) - used
    )
    return Census(models, _own(proc, server), server.pid, abandoned, pids)


def _find_server(proc: str, ours: Sequence[Process], serving_repository: Path) -> Process | None:
    argument = f"--model-repository={serving_repository}"
    return next((child for child in ours if argument in _read_arguments(proc, child.pid)), None)


def _sum_held(proc: str, family: Iterable[Process], region: int) -> Usage:
    """A stub's own and that of all below it."""
    held = Usage(region, region, region, 1)
    for process in family:
        held += _own(proc, process)
    return held


def _find_forked(
    proc: str, children: Mapping[int, list[Process]], us: int, server: int
) -> Iterator[tuple[Process, int]]:
    """Processes that may be forked, and the bytes that each shared at first.

    They are their interpreter's children, which is ours; ours, once it has died.
    """
    for child in children.get(us, ()):
        if child.pid != server:
            yield child, 0
            if below := children.get(child.pid):
                inherited = _own(proc, child).memory
                yield from ((process, inherited) for process in below)


def _sum_forked(proc: str, family: Iterable[Process], inherited: int) -> Usage:
    """A forked process's own and that of all below it; its stub is counted for itself."""
    held = Usage()
    for process in family:
        own = _own(proc, process, with_shared=True)
        memory = max(own.memory - inherited, 0) + min(inherited, _CHANGED)
        peak = max(own.peak - inherited, 0) + min(inherited, _CHANGED)
        held += Usage(memory, peak, tasks=own.tasks)
    return held


def _own(proc: str, process: Process, *, with_shared: bool = False) -> Usage:
    """One process; its peak is that of its resident memory, less the files in it now.

    with_shared: memory that it shares with a process that it was forked for counts as its own.
    """
    rows = {}
    for row in read(f"{proc}/{process.pid}/status").splitlines():
        name, _, value = row.partition(b":")
        if name in (b"RssAnon", b"RssFile", b"RssShmem", b"VmHWM"):
            rows[name] = int(value.split()[0]) << 10
    shared = rows.get(b"RssShmem", 0)
    memory = rows.get(b"RssAnon", 0) + (shared if with_shared else 0)
    files = rows.get(b"RssFile", 0) + (0 if with_shared else shared)
    return Usage(memory, max(memory, rows.get(b"VmHWM", 0) - files), tasks=process.threads)


def _read_region_name(arguments: tuple[str, ...]) -> str:
    """The stub's region: its second argument (python_backend, pb_stub); empty for none."""
    name = arguments[2].strip("/") if len(arguments) > 2 else ""
    return "" if "/" in name or name.startswith(".") else name


def _list_regions(proc: str, server: Process, kernel: Kernel) -> set[str]:
    """Names of all that tritonserver has made for stubs; its command says how they begin."""
    arguments = _read_arguments(proc, server.pid)
    prefix = next((word.partition(_PREFIX)[2] for word in arguments if _PREFIX in word), "")
    try:
        names = os.listdir(kernel.shared_memory) if prefix else []
    except OSError:
        return set()
    return {name for name in names if name.startswith(prefix)}


def _measure_region(kernel: Kernel, region: str) -> int:
    """Its bytes; 0 where there is none."""
    if not region:
        return 0
    try:
        return (kernel.shared_memory / region).stat().st_blocks * 512
    except (OSError, ValueError):
        return 0


def _read_arguments(proc: str, pid: int) -> tuple[str, ...]:
    """Of its command; there are two at least."""
    return (*read_command(pid, proc).split("\0"), "")
