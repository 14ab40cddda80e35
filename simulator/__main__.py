"""python -m simulator, in a checkout: merlin-simulator without an installation."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "src"))

from merlin_simulator.__main__ import as_program

if __name__ == "__main__":
    sys.exit(as_program("python -m simulator"))
