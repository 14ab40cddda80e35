"""Stories with a command each, and what they share."""

import sys
from pathlib import Path

# The stories' SageMaker is the simulator's package, which need not be installed.
sys.path.append(str(Path(__file__).parents[1] / "simulator/src"))
