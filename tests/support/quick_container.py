"""python -m tests.support.quick_container serve: the container, with constants of a test.

They stand in the environment variable QUICK_CONSTANTS, which the program does not inherit.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict

from container.__main__ import main
from container.constants import Constants

VARIABLE = "QUICK_CONSTANTS"


def told(constants: Constants) -> dict[str, str]:
    """What tells this program its constants."""
    return {VARIABLE: json.dumps(asdict(constants))}


if __name__ == "__main__":
    sys.exit(main(constants=Constants(**json.loads(os.environ.pop(VARIABLE)))))
