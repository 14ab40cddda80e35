"""Starts a warm interpreter: python start.py UTILS PADDING MODULE... (warm_interpreter)."""

from warm_interpreter.interpreter import main

main()
