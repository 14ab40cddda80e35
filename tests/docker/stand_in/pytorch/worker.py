"""Serves one TorchScript model, by the container's own rules, to model.py beside it.

Runs in Debian's Python 3.11, with torch from /opt/libtorch; triton_python_backend_utils is made of
what those rules use of it.
"""

import pickle
import struct
import sys
import types

sys.path[:0] = ["/opt/libtorch", "/opt/serve/container/backends/pytorch"]


class Tensor:
    """A name and an array."""

    def __init__(self, name, array):
        self.pair = (name, array)

    def as_numpy(self):
        """The array."""
        return self.pair[1]

    def is_cpu(self):
        """Always."""
        return True


class Request:
    """What was asked."""

    def __init__(self, given, wanted):
        self.given, self.wanted = given, wanted

    def requested_output_names(self):
        """Of the outputs."""
        return self.wanted


class Response:
    """An answer, or an error's words."""

    def __init__(self, output_tensors=(), error=None):
        self.said = error if error is not None else [it.pair for it in output_tensors]


class TritonError(str):
    """Its words; the code goes."""

    INVALID_ARG = INTERNAL = None

    def __new__(cls, words, code=None):
        """Words alone."""
        return super().__new__(cls, words)


def get_input_tensor_by_name(request, name):
    """None where there is none."""
    return Tensor(name, request.given[name]) if name in request.given else None


utils = types.ModuleType("triton_python_backend_utils")
utils.Tensor, utils.InferenceResponse, utils.TritonError = Tensor, Response, TritonError
utils.get_input_tensor_by_name = get_input_tensor_by_name
utils.Logger = types.SimpleNamespace(log_warn=lambda words: print(words, file=sys.stderr))
sys.modules[utils.__name__] = utils


def read():
    """The next message; None at the end."""
    head = sys.stdin.buffer.read(8)
    return pickle.loads(sys.stdin.buffer.read(struct.unpack("<Q", head)[0])) if head else None


def write(said):
    """A message."""
    message = pickle.dumps(said, protocol=4)
    sys.stdout.buffer.write(struct.pack("<Q", len(message)) + message)
    sys.stdout.buffer.flush()


from torchscript import TritonPythonModel  # noqa: E402

model = TritonPythonModel()
model.initialize(read())
write(None)
while (asked := read()) is not None:
    said = model.answer(Request(*asked)).said
    write(str(said) if isinstance(said, str) else said)
