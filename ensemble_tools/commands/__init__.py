"""The command line: one module a command, and what writes their files."""
