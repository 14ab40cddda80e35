"""What a compiled workflow runs on: numpy and this directory, which is published beside it.

It imports nothing of the house, and nothing of Merlin; every Python that runs models can run it.
"""
