"""The runtime of compiled workflows: numpy and this directory, which is published beside them.

It imports nothing of the house, and nothing of Merlin; every Python that runs models can run it.
"""
