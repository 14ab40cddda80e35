"""The child's side: runs one instance of a model for a stub, and ends when the stub does."""

import contextlib
import fcntl
import os
import random
import select
import signal
import sys
import traceback

from . import channel, command_line, triton_utils
from .loading import load
from .message_kinds import (
    ANSWERS,
    FAILED,
    FINALIZE,
    FINALIZED,
    FORKED,
    LOG,
    NOT_FORKED,
    RAISED,
    READY,
)

#: Of a line for the log, in characters: it must fit into a packet, since any thread may write it.
LONGEST_LINE = 8 * 1024


def refuse(connection, why):
    """Tell a stub that there is no child for it."""
    with contextlib.suppress(OSError, channel.Gone):
        connection.settimeout(1.0)  # others wait for the interpreter
        channel.accept(connection).send((NOT_FORKED, why))


def main(connection):
    """Serve a stub until it is gone. Never returns; what it dies of is printed."""
    status = 0
    try:
        end = channel.accept(connection)
        end_with(end.lifeline)
        end.send((FORKED, ""))
        serve(end)
    except channel.Gone:
        pass
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def end_with(lifeline):
    """Be killed when the stub has ended, whatever the model does meanwhile.

    The kernel does it: code that holds Python's lock would keep a thread of ours from it. Nobody
    writes into the pipe, so that its end is all that there is to be told.
    """
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
    poll = select.poll()
    poll.register(lifeline)
    if poll.poll(0):  # it ended before
        raise channel.Gone


def serve(end):
    """Load the model, then answer."""
    (_, job), _ = end.receive()
    command_line.write([command_line.CHILD, job["named"]])
    reseed()
    sys.path[:] = [*job["path"], *(entry for entry in sys.path if entry not in job["path"])]
    triton_utils.set_codes(job["codes"])
    triton_utils.Logger.tell = staticmethod(
        lambda level, text: end.send((LOG, (level, text[:LONGEST_LINE])))
    )
    try:
        model = load(job["program"], job["module"]).TritonPythonModel()
        if hasattr(model, "initialize"):
            model.initialize(job["arguments"])
    except Exception as error:
        end.send((FAILED, raised(error)))
        return
    end.send((READY, ""))
    while True:
        (kind, requests), arrays = end.receive()
        if kind == FINALIZE:
            if hasattr(model, "finalize"):
                model.finalize()
            end.send((FINALIZED, ""))
            return
        end.trim()
        try:
            answers = model.execute(triton_utils.read_requests(requests, arrays))
            end.send(*triton_utils.write_answers(ANSWERS, answers))
        except channel.Gone:
            raise
        except Exception as error:
            end.send((RAISED, raised(error)))
        # The next request lies where these do; and nobody needs what was answered.
        requests = arrays = answers = None


def raised(error):
    """(class, words) of what a model raised. Where it was raised is for the log alone."""
    traceback.print_exception(type(error), error, error.__traceback__)
    return type(error).__name__, str(error)


def reseed():
    """Begin with random numbers of its own, as a process does that imports for itself.

    These are the generators whose states a fork copies. What else is imported (TensorFlow, pyarrow,
    numba, dask) seeds its generators at their first use.
    """
    random.seed()
    for library, seed in (
        ("numpy", lambda numpy: numpy.random.seed()),
        ("torch", lambda torch: torch.default_generator.seed()),
    ):
        if library in sys.modules:
            seed(sys.modules[library])
