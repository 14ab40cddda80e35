"""A process that has imported a library and forks a child for each instance of a model.

    python start.py UTILS READY NAME RUNTIME PADDING MODULE...

UTILS is Triton's own file for Python models. READY is the descriptor of a pipe: when all is
imported, it is told what could not be (JSON: module -> why). NAME is the library's, for who looks
at processes. RUNTIME is the directory of compiled workflows' runtime, empty for none: models find
it as what lies beside them, which is the same. Standard input is a Unix socket that listens
(SOCK_SEQPACKET). Each connection is a stub that wants its model run: a child is forked for it,
talks to it alone, and ends with it. This process runs nothing of the library, and no code of a
model: it imports, it forks. It ends when it is told to; its children go on.
"""

import gc
import importlib
import importlib.util
import json
import os
import signal
import socket
import sys
import warnings

from . import child, command_line, triton_utils

#: What models with a compiled workflow call its runtime.
RUNTIME = "compiled_workflow"
#: Of why a module cannot be imported, in characters: nobody reads on before it has been written.
LONGEST_REASON = 1024


def main():
    """Import, then fork for ever."""
    listening = socket.socket(fileno=os.dup(0))
    listening.setblocking(True)  # who waits for the first connection looks at it in his own way
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    sys.stdout.reconfigure(line_buffering=True)  # it is a pipe: a child that dies loses nothing
    utils, ready, name, runtime, _, *modules = sys.argv[1:]
    command_line.write([command_line.INTERPRETER, name])
    triton_utils.install(utils)  # some libraries look for it when they are imported
    lacking = import_all(modules)
    if runtime:
        import_runtime(runtime)
    gc.collect()
    gc.freeze()  # children share what nobody changes, also by looking for garbage
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # whoever ends is buried by the kernel
    with open(int(ready), "w") as report:
        json.dump(lacking, report)
    while True:
        connection, _ = listening.accept()
        fork(listening, connection)
        connection.close()


def import_all(modules):
    """Module -> why it could not be; a child says so in its model's words when it tries again."""
    lacking = {}
    for module in modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                importlib.import_module(module)
            except Exception as error:
                lacking[module] = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
    return lacking


def import_runtime(directory):
    """The runtime's modules; a model whose workflow is compiled imports it where that fails."""
    try:
        spec = importlib.util.spec_from_file_location(
            RUNTIME, os.path.join(directory, "__init__.py"), submodule_search_locations=[directory]
        )
        sys.modules[RUNTIME] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[RUNTIME])
        for name in ("program", "counting"):
            importlib.import_module(f"{RUNTIME}.{name}")
        for file in os.listdir(os.path.join(directory, "operations")):
            name, kind = os.path.splitext(file)
            if kind == ".py":
                importlib.import_module(f"{RUNTIME}.operations.{name}")
    except Exception:
        for name in [*sys.modules]:
            if name.partition(".")[0] == RUNTIME:
                del sys.modules[name]


def fork(listening, connection):
    """A child for that stub; returns in this process only."""
    try:
        pid = os.fork()
    except OSError as error:
        child.refuse(connection, str(error))
        return
    if pid == 0:
        listening.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child.main(connection)
