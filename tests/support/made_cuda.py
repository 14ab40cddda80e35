"""Plays a library that initialises CUDA where it sees a GPU, which does not survive a fork."""

import os

#: The file that the ids of all processes go to that initialised it.
RECORD = "MADE_CUDA_RECORD"
#: The process that did; none where no GPU is visible.
OWNER = None if os.environ.get("CUDA_VISIBLE_DEVICES") == "" else os.getpid()

if OWNER is not None and RECORD in os.environ:
    with open(os.environ[RECORD], "a") as record:
        record.write(f"{OWNER}\n")


def count_devices() -> int:
    """How many are visible. Raises RuntimeError in a fork of a process that initialised CUDA."""
    if OWNER is None:
        return 0
    if os.getpid() != OWNER:
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")
    return 1
