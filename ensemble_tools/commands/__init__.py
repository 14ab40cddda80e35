"""The command line: one module a command, and what draws the pictures of `explain`."""
