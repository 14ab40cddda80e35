"""A job on standard input, its answer on standard output."""

from __future__ import annotations

import os
import sys

from .job import main

if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # to take its libraries apart costs as long as to load some of them
