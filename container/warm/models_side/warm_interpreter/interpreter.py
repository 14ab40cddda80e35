"""A process that has imported a library and forks a child for each instance of a model.

    python start.py UTILS PADDING MODULE...

UTILS is Triton's own file for Python models. Standard input is a Unix socket that listens
(SOCK_SEQPACKET). Each connection is a stub that wants its model run: a child is forked for it,
talks to it alone, and ends with it. This process runs nothing of the library, and no code of a
model: it imports, it forks. It ends when it is told to; its children go on.
"""

import gc
import importlib
import os
import signal
import socket
import sys
import warnings

from . import child, triton_utils


def main():
    """Import, then fork for ever."""
    listening = socket.socket(fileno=os.dup(0))
    listening.setblocking(True)  # who waits for the first connection looks at it in his own way
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    triton_utils.install(sys.argv[1])  # some libraries look for it when they are imported
    import_all(sys.argv[3:])
    gc.collect()
    gc.freeze()  # children share what nobody changes, also by looking for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is buried by the kernel
    while True:
        connection, _ = listening.accept()
        fork(listening, connection)
        connection.close()


def import_all(modules):
    """What cannot be imported, a child says in its model's words when it tries again."""
    for module in modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                importlib.import_module(module)
            except Exception:
                continue


def fork(listening, connection):
    """A child for that stub; returns in this process only."""
    try:
        pid = os.fork()
    except OSError as error:
        child.refuse(connection, str(error))
        return
    if pid == 0:
        try:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            child.main(connection)
        finally:
            os._exit(1)  # nothing of the interpreter's own end is the child's
