"""Secrets on a child's command line, wiped once it has read them.

Every process of a container can read the command lines of all others (/proc/<pid>/cmdline), and
tritonserver takes what opens its APIs from its command line alone. The kernel shows the child's own
memory there, which its parent may write to, like a debugger: so the words go while nothing of a
model's runs yet. Whoever may read the child's whole memory still finds them there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

#: Where the command line lies in the process's memory: fields 48 and 49 of /proc/<pid>/stat, of
#: which the first two end with the name's parenthesis (man proc_pid_stat).
_ARG_START, _ARG_END = 48 - 3, 49 - 3
_MOST = 1024 * 1024  # bytes of a command line


def hide_arguments(process_id: int, secrets: Iterable[str]) -> bool:
    """Overwrite the words wherever they stand on the process's command line; whether none is left.

    False where the kernel does not let us, which Yama's strictest settings do.
    """
    process = Path("/proc", str(process_id))
    try:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
        with (process / "mem").open("r+b", buffering=0) as memory:
            memory.seek(start)
            line = memory.read(min(end - start, _MOST))
            for word in secrets:
                secret = word.encode()
                while (at := line.find(secret)) >= 0:
                    memory.seek(start + at)
                    memory.write(b"*" * len(secret))
                    line = line.replace(secret, b"*" * len(secret), 1)
        shown = (process / "cmdline").read_bytes()
    except (OSError, IndexError, ValueError):
        return False
    return not any(word.encode() in shown for word in secrets)
