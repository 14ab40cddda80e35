"""The generator: each token is drawn by the one before it. Pure Python, so a caller can check it.

It stands for a language model and has learned nothing: weights come from a seed, and draws from the
prompt, so the same prompt has the same answer everywhere.
"""

import random

WORDS = (
    "the a red blue small old new shop cart song film day is has finds sends buys loves for with "
    "and then again today"
)
TOKENS = tuple(WORDS.split())
SEED = 20
#: As many tokens as fit into an answer.
CONTEXT = 32


class ContextFull(Exception):
    """The answer has CONTEXT tokens, and was to have more."""


def generate(prompt, most):
    """So many tokens, one after the other. Raises ContextFull in the place of the 33rd."""
    weights = random.Random(SEED)
    following = {token: [weights.expovariate(1.0) for _ in TOKENS] for token in TOKENS}
    draws = random.Random(prompt)
    token = draws.choice(TOKENS)
    for number in range(most):
        if number == CONTEXT:
            raise ContextFull(f"the context has room for {CONTEXT} tokens, and {most} were asked")
        yield token
        (token,) = draws.choices(TOKENS, following[token])
