"""The tensorflow backend: SavedModels, run as graphs.

saved_model.py serves the model: in a child of a warm interpreter where there are any, else here.
"""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "saved_model.py")
INTERPRETERS = os.environ.get("MERLIN_WARM_INTERPRETERS")

if INTERPRETERS:
    sys.path.append(os.path.join(INTERPRETERS, "code"))
    from warm_interpreter.front import Front

    class TritonPythonModel(Front):
        """One instance."""

        library, program, module = "tensorflow", PROGRAM, "saved_model"

else:
    sys.path.append(os.path.dirname(PROGRAM))
    from saved_model import TritonPythonModel  # noqa: F401
