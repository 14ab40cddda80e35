"""A real tritonserver whose later starts are slow, so that a test sees that there is none."""

from __future__ import annotations

from pathlib import Path

from container.tritonserver.features import (
    GRPC_RESTRICTED,
    HTTP_RESTRICTED,
    WHEEL_LIBRARIES,
    find_features,
)
from container.tritonserver.runtime import find_tritonserver

#: How long a start after the first one takes longer, in seconds.
SLOWER_S = 1
_PROGRAM = """\
#!/bin/sh
# What it takes as tritonserver does: {flags}
if [ -e "{started}" ]; then sleep {slower}; fi
: > "{started}"
exec "{program}" "$@"
"""


def slow_to_start_again(directory: Path, configured: str | None) -> str:
    """For SERVE_TRITON_SERVER: the wheel's tritonserver, whose later starts take a second more."""
    program = find_tritonserver(Path(configured) if configured else None, {})
    root, packages = program.parents[1], directory / "slow"
    ours = packages / "pytriton/tritonserver"
    (ours / "bin").mkdir(parents=True)
    (packages / WHEEL_LIBRARIES).symlink_to(program.parents[3] / WHEEL_LIBRARIES)
    for entry in root.iterdir():
        if entry.name != "bin":
            (ours / entry.name).symlink_to(entry)
    started = packages / "started"
    slow = ours / "bin/tritonserver"
    flags = " ".join(sorted(find_features(program) & {HTTP_RESTRICTED, GRPC_RESTRICTED}))
    slow.write_text(_PROGRAM.format(started=started, slower=SLOWER_S, program=program, flags=flags))
    slow.chmod(0o755)
    return str(slow)
