"""What runs: the process tree inside the image."""

#: The project's, as pyproject.toml has it.
__version__ = "0.1.0"
