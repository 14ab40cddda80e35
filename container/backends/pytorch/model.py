"""The pytorch backend: TorchScript models, as libtorch serves.

torchscript.py serves the model: in a child of a warm interpreter where there are any, else here.
"""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "torchscript.py")
INTERPRETERS = os.environ.get("MERLIN_WARM_INTERPRETERS")

if INTERPRETERS:
    sys.path.append(os.path.join(INTERPRETERS, "code"))
    from warm_interpreter.front import Front

    class TritonPythonModel(Front):
        """One instance."""

        library, program, module = "torch", PROGRAM, "torchscript"

else:
    sys.path.append(os.path.dirname(PROGRAM))
    from torchscript import TritonPythonModel  # noqa: F401
