"""Starts a warm interpreter: python start.py UTILS READY NAME PADDING MODULE..."""

from warm_interpreter.interpreter import main

main()
