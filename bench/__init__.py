"""Side-by-side measurements of the container, and the report they write."""

import sys
from pathlib import Path

# The machine is described by the simulator's package, which need not be installed.
sys.path.append(str(Path(__file__).parents[1] / "simulator/src"))
