# numpy: arrays alone
"""Stands in front of a model that needs a large library, which is in served_model.py beside it.

Generated: a child of a warm interpreter runs the model, which has imported LIBRARY already, and
this process needs numpy alone. Where there are none it is run here.
"""

import os
import sys

LIBRARY = "nvtabular"
INTERPRETERS = os.environ.get("MERLIN_WARM_INTERPRETERS")
FOLDER = os.path.dirname(os.path.abspath(__file__))

if INTERPRETERS:
    sys.path.append(os.path.join(INTERPRETERS, "code"))
    from warm_interpreter.front import Front

    class TritonPythonModel(Front):
        """One instance."""

        library, module = LIBRARY, "served_model"
        program = os.path.join(FOLDER, "served_model.py")

else:
    sys.path.append(FOLDER)
    from served_model import TritonPythonModel  # noqa: F401
