"""python -m deploy, from the root of a checkout: merlin-deploy, installed or not."""

import os.path
import sys

# What is imported is this checkout's, whatever is installed.
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "src"))

if __name__ == "__main__":
    from merlin_deploy.__main__ import as_program

    sys.exit(as_program("python -m deploy"))
