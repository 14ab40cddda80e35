"""The fil backend: forests, each by the library that made it.

forest.py serves the model: in a child of a warm interpreter where there are any, else here.
"""

import os
import sys

PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "forest.py")
INTERPRETERS = os.environ.get("MERLIN_WARM_INTERPRETERS")

if INTERPRETERS:
    sys.path.append(os.path.join(INTERPRETERS, "code"))
    from warm_interpreter.front import Front

    class TritonPythonModel(Front):
        """One instance."""

        library, program, module = "forests", PROGRAM, "forest"

else:
    sys.path.append(os.path.dirname(PROGRAM))
    from forest import TritonPythonModel  # noqa: F401
