"""Runs in the models' Python: interpreters that fork, their children, and the stubs' side.

Python 3.8 and numpy alone. A package, so that no name of it stands in the way of a model's.
"""
