"""A job on standard input, its answer on standard output."""

from __future__ import annotations

from .job import main

if __name__ == "__main__":
    main()
