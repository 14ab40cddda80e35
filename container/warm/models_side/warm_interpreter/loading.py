"""Both sides: a model's program as a module, as the stub would have imported it."""

import importlib.util
import sys


def load(program, name):
    """The file's module, which others may import by the name. Raises what its import raises."""
    spec = importlib.util.spec_from_file_location(name, program)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
