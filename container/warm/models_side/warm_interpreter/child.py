"""The child's side: runs one instance of a model for a stub, and ends when the stub does."""

import contextlib
import importlib.util
import os
import random
import select
import sys
import threading
import traceback

from . import channel, command_line, triton_utils
from .words import ANSWERS, FAILED, FINALIZE, FINALIZED, FORKED, LOG, NOT_FORKED, RAISED, READY

#: Of a line for the log, in characters: it must fit into a packet, since any thread may write it.
LONGEST_LINE = 8 * 1024


def refuse(connection, why):
    """Tell a stub that there is no child for it."""
    with contextlib.suppress(OSError, channel.Gone):
        connection.settimeout(1.0)  # others wait for the interpreter
        channel.accept(connection).send((NOT_FORKED, why))


def main(connection):
    """Serve a stub until it is gone."""
    end = channel.accept(connection)
    threading.Thread(target=end_with, args=(end,), daemon=True).start()
    with contextlib.suppress(channel.Gone):
        end.send((FORKED, ""))
        serve(end)
    os._exit(0)


def end_with(end):
    """End when the stub has ended, whatever the model does meanwhile."""
    poll = select.poll()
    poll.register(end.fileno(), select.POLLRDHUP)
    while True:
        try:
            if poll.poll():
                os._exit(0)
        except InterruptedError:
            continue


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
        (kind, asked), arrays = end.receive()
        if kind == FINALIZE:
            if hasattr(model, "finalize"):
                model.finalize()
            end.send((FINALIZED, ""))
            return
        end.trim()
        try:
            answers = model.execute(triton_utils.read_requests(asked, arrays))
        except Exception as error:
            end.send((RAISED, raised(error)))
        else:
            end.send(*triton_utils.write_answers(ANSWERS, answers))
        del asked, arrays  # the next request lies where these do


def load(program, name):
    """The model's module, as the stub would have imported it."""
    spec = importlib.util.spec_from_file_location(name, program)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def raised(error):
    """(class, words) of what a model raised. Where it was raised is for the log alone."""
    traceback.print_exception(type(error), error, error.__traceback__)
    return type(error).__name__, str(error)


def reseed():
    """Each process begins with random numbers of its own."""
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
