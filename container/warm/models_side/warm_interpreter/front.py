"""The stub's side: a model whose library this process never imports.

    class TritonPythonModel(Front):
        library, program, module = "torch", "/.../torchscript.py", "torchscript"

A child of the warm interpreter that has imported the library runs `program`, a file with another
TritonPythonModel, and answers what comes here. Where there is none (a GPU, packages of the
model's own), the program is imported here, as ever.

A child that ends under a request, or before it, is forked anew, and asked once more. tritonserver
is not to see it: of a stub that dies under a request it keeps a zombie, threads and shared memory
(2.51). Where none can be had, this process ends itself: to tritonserver it is the model that died.
"""

import contextlib
import json
import os
import signal
import sys

import triton_python_backend_utils as pb_utils

from . import channel
from .loading import load
from .message_kinds import CODES, EXECUTE, FAILED, FINALIZE, INITIALIZE, LOG, NOT_FORKED, RAISED

#: The folder with the interpreters' sockets; unset where there are none.
SOCKETS = "MERLIN_WARM_INTERPRETERS"
#: A parameter of a model's config: its packages are others than those of the models' Python.
OWN_ENVIRONMENT = "EXECUTION_ENV_PATH"
#: An interpreter may still be importing; several may start at once on a busy machine.
TIMEOUT_S = 120.0


class Front:
    """The TritonPythonModel in the stub: a child of an interpreter answers for it."""

    library = program = module = ""

    def initialize(self, args):
        """Raises what the model's initialize raises."""
        self._model = None
        path = os.path.join(os.environ[SOCKETS], self.library + ".sock")
        own = OWN_ENVIRONMENT in json.loads(args["model_config"]).get("parameters", {})
        if not own and "GPU" not in args["model_instance_kind"] and os.path.exists(path):
            try:
                self._model = Remote(path, self.program, self.module, args)
            except NoChild as why:
                template = "{} is imported by this process itself: {}"
                pb_utils.Logger.log_warn(template.format(self.library, why))
        if self._model is None:
            self._model = here(self.program, self.module, args)

    def execute(self, requests):
        return self._model.execute(requests)

    def finalize(self):
        if self._model is not None and hasattr(self._model, "finalize"):
            self._model.finalize()


def here(program, module, args):
    """The model in this process."""
    model = load(program, module).TritonPythonModel()
    if hasattr(model, "initialize"):
        model.initialize(args)
    return model


class NoChild(Exception):
    """There is no interpreter to be had, and why."""


class Died(Exception):
    """The model's process has ended twice, under one request."""


class Remote:
    """The model in a child."""

    def __init__(self, path, program, module, args):
        self._begin = (path, program, module, args)
        self._channel = None
        try:
            self._fork(*self._begin)
        except channel.Gone:
            die()

    def _fork(self, path, program, module, args):
        """A child that has initialized the model. Raises what that raises; Gone where it died."""
        try:
            self._channel, self._connection = channel.connect(path, TIMEOUT_S)
            (kind, reply), _ = self._receive()
        except (OSError, channel.Gone) as error:
            self._lose()
            raise NoChild(str(error) or "it has ended") from error
        if kind == NOT_FORKED:
            self._lose()
            raise MemoryError("no process for the model: " + reply)
        self._connection.settimeout(None)  # from here on it is the model that takes its time
        job = {
            "named": os.path.join(args["model_repository"], args["model_version"]),
            "path": sys.path,
            "program": program,
            "module": module,
            "arguments": {str(key): str(value) for key, value in args.items()},
            "codes": [name for name in CODES if hasattr(pb_utils.TritonError, name)],
        }
        self._channel.send((INITIALIZE, job))
        (kind, reply), _ = self._receive()
        if kind == FAILED:
            raise_again(reply)

    def execute(self, requests):
        """Ask the child; what the model raises is raised here."""
        specs, arrays = [], []
        for request in requests:
            tensors = request.inputs()
            arrays += [tensor.as_numpy() for tensor in tensors]
            names = [tensor.name() for tensor in tensors]
            output_names = list(request.requested_output_names())
            specs.append((request.request_id(), output_names, parameters(request), names))
        try:
            (kind, answers), arrays = self._ask(specs, arrays)
        except channel.Gone:
            self._fork_again()
            try:
                (kind, answers), arrays = self._ask(specs, arrays)
            except channel.Gone:
                raise Died("its process ended twice under this request") from None
        if kind == RAISED:
            raise_again(answers)
        left = iter(arrays)
        return [None if one is None else response(one, left) for one in answers]

    def _ask(self, specs, arrays):
        """The child's answer. Raises Gone where it has ended."""
        if self._channel is None:
            raise channel.Gone
        try:
            self._channel.send((EXECUTE, specs), arrays)
        except channel.Gone:
            self._lose()
            raise
        try:
            message, arrays = self._receive()
            arrays = self._channel.release(arrays)
            self._channel.trim()
        except BaseException:  # an answer that is still to come would be the next request's
            self._lose()
            raise
        return message, arrays

    def _fork_again(self):
        """Another child; where there is none, whoever loads the model again is told why."""
        pb_utils.Logger.log_warn("the process that ran the model has ended; it is forked again")
        try:
            self._fork(*self._begin)
        except BaseException:
            die()

    def _lose(self):
        """Nothing more is heard from the child, which ends when this side is closed."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def finalize(self):
        """Let the model finalize, and the child end."""
        if self._channel is None:
            return
        try:
            self._channel.send((FINALIZE, ""))
            self._receive()
        except channel.Gone:
            pass
        self._channel.close()

    def _receive(self):
        """The next message that is no line for the log."""
        while True:
            (kind, reply), arrays = self._channel.receive()
            if kind != LOG:
                return (kind, reply), arrays
            with contextlib.suppress(Exception):  # some texts cannot be written
                log(*reply)


def log(level, text):
    """A line of the child's, by Triton's Logger, which has inspect find out who logs."""
    import inspect

    inspect.modulesbyfile.setdefault(__file__, __name__)  # else it looks into all modules there are
    getattr(pb_utils.Logger, level, pb_utils.Logger.log_info)(text)


def response(answer, arrays):
    """Triton's response for a child's answer."""
    message, code, names = answer
    if message is None:
        return pb_utils.InferenceResponse(
            output_tensors=[pb_utils.Tensor(name, next(arrays)) for name in names]
        )
    known = getattr(pb_utils.TritonError, code or "", None)
    message = message.encode("utf-8", "backslashreplace").decode()  # Triton takes no surrogates
    error = pb_utils.TritonError(message, *([] if known is None else [known]))
    return pb_utils.InferenceResponse(output_tensors=[], error=error)


def parameters(request):
    """The request's, as JSON says them; Triton has them from 2.40 on."""
    given = getattr(request, "parameters", None)
    return given() if callable(given) else "{}"


def raise_again(failure):
    """An exception of the same name with the same words."""
    name, message = failure
    raise type(name, (Exception,), {})(message)


def die():
    """End as the model's process would have."""
    os.kill(os.getpid(), signal.SIGKILL)
