"""A process's command line, as all see it who look at processes (/proc/PID/cmdline, ps)."""

import ctypes

#: What the command line of a child begins with; behind it stands what its stub is told by.
CHILD = "merlin-model"
#: And that of an interpreter, with its library's name.
INTERPRETER = "merlin-interpreter"
#: Fields of /proc/self/stat (proc_pid_stat(5)), counted behind the command's bracket.
_BEGIN, _END = 45, 46


def write(words):
    """Write these words over it, as many as there is room for. Linux alone."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    begin, end = int(fields[_BEGIN]), int(fields[_END])
    room = end - begin
    text = b"".join(word.encode() + b"\0" for word in words)
    ctypes.memmove(begin, text[: room - 1].ljust(room, b"\0"), room)
