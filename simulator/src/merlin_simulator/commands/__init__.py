"""The simulator's commands: each adds its parser and runs."""
