"""Why something was refused, in the few words that a metric's label may have. No I/O."""

from __future__ import annotations

import re

from serve import errors

#: Every cause there is: a label's values are bounded.
CAUSES = (
    "caller",
    "archive",
    "model",
    "crowd",
    "rate",
    "memory",
    "shared_memory",
    "gpu",
    "descriptors",
    "processes",
    "disk",
    "feature_store",
    "tritonserver",
    "container",
)
#: The first class that an error is an instance of decides.
_CLASSES: tuple[tuple[type[BaseException], str], ...] = (
    (errors.FailedAtRequest, "model"),
    (errors.CallerError, "caller"),
    (errors.ModelUnusable, "archive"),
    (errors.DiskFailed, "disk"),
    (errors.AskedTooOften, "rate"),
    (errors.Overloaded, "crowd"),
    (errors.InvocationFailed, "model"),
    (errors.StoreUnavailable, "feature_store"),
    (errors.TritonError, "tritonserver"),
)
#: What a lack's sentence says, ours or a library's; the first that stands in it decides.
_WORDS = (
    (re.compile(r"\bgpu\b|cuda|cnmem|\bcu(?:blas|dnn|solver|sparse|fft)|\bblas\b"), "gpu"),
    (re.compile(r"shared memory|/dev/shm"), "shared_memory"),
    (re.compile(r"descriptor|too many open files"), "descriptors"),
    (re.compile(r"processes|thread|fork"), "processes"),
    (re.compile(r"left on device|quota"), "disk"),
)


def find_cause(error: BaseException) -> str:
    """One of CAUSES. An error that is not of the tree is the container's own."""
    if isinstance(error, errors.ResourceExhausted):
        sentence = str(error).casefold()
        return next((cause for pattern, cause in _WORDS if pattern.search(sentence)), "memory")
    return next((cause for kind, cause in _CLASSES if isinstance(error, kind)), "container")
