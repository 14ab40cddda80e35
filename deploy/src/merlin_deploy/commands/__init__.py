"""The command line, and what each command does: they print, and know the exit code."""
