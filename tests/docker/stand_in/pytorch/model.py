"""Plays the native pytorch backend of Merlin's image, which serves without the models' Python.

TorchScript runs in a process of another Python, as libtorch runs in tritonserver: worker.py.
"""

import pickle
import struct
import subprocess

import triton_python_backend_utils as pb_utils

COMMAND = ("/usr/bin/python3.11", "-E", "/opt/tritonserver/backends/pytorch/worker.py")


class TritonPythonModel:
    """One instance."""

    def initialize(self, args):
        """Starts the process; raises what it says where it cannot serve the model."""
        pipe = subprocess.PIPE
        self.worker = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe)
        self.ask(dict(args))

    def execute(self, requests):
        """One after another."""
        return [self.answer(request) for request in requests]

    def answer(self, request):
        """The process's arrays as tensors."""
        given = {it.name(): it.as_numpy() for it in request.inputs()}
        said = self.ask((given, list(request.requested_output_names())))
        if isinstance(said, str):
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(said))
        return pb_utils.InferenceResponse([pb_utils.Tensor(*pair) for pair in said])

    def ask(self, asked):
        """Whatever pickle knows, there and back."""
        message = pickle.dumps(asked)
        self.worker.stdin.write(struct.pack("<Q", len(message)) + message)
        self.worker.stdin.flush()
        (size,) = struct.unpack("<Q", self.worker.stdout.read(8))
        return pickle.loads(self.worker.stdout.read(size))

    def finalize(self):
        """Ends the process."""
        self.worker.stdin.close()
        self.worker.wait()
