"""The tensorflow backend: SavedModels, run as graphs, by saved_model.py beside this file."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "../shared"))
from stand_in import choose_program

TritonPythonModel = choose_program(__file__, "tensorflow", "saved_model")
