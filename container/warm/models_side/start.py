"""Starts a warm interpreter: python start.py UTILS READY NAME RUNTIME PADDING MODULE..."""

from warm_interpreter.interpreter import main

main()
