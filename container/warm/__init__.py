"""Warm interpreters: one process for each library of the models, from which theirs are forked."""

from container.warm.interpreters import Surroundings, WarmInterpreters

__all__ = ["Surroundings", "WarmInterpreters"]
