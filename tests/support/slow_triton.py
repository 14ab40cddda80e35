"""A real tritonserver whose later starts wait for a file: a test sees that there is none."""

from __future__ import annotations

from pathlib import Path

from container.tritonserver.features import (
    GRPC_RESTRICTED,
    HTTP_RESTRICTED,
    WHEEL_LIBRARIES,
    find_features,
)
from container.tritonserver.runtime import find_tritonserver

_PROGRAM = """\
#!/bin/sh
# What it takes as tritonserver does: {flags}
while [ -e "{started}" ] && [ ! -e "{go}" ]; do sleep 0.05; done
: > "{started}"
exec "{program}" "$@"
"""


def slow_to_start_again(directory: Path, configured: str | None, go: Path) -> str:
    """For SERVE_TRITON_SERVER: the wheel's tritonserver, which starts again once `go` is there."""
    program = find_tritonserver(Path(configured) if configured else None, {})
    root, packages = program.parents[1], directory / "slow"
    ours = packages / "pytriton/tritonserver"
    (ours / "bin").mkdir(parents=True)
    (packages / WHEEL_LIBRARIES).symlink_to(program.parents[3] / WHEEL_LIBRARIES)
    for entry in root.iterdir():
        if entry.name != "bin":
            (ours / entry.name).symlink_to(entry)
    slow = ours / "bin/tritonserver"
    flags = " ".join(sorted(find_features(program) & {HTTP_RESTRICTED, GRPC_RESTRICTED}))
    started = packages / "started"
    slow.write_text(_PROGRAM.format(started=started, go=go, program=program, flags=flags))
    slow.chmod(0o755)
    return str(slow)
