"""Warm interpreters: one process for each library of the models, from which theirs are forked."""
