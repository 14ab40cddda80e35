"""What can go wrong while serving, by whose fault it is. No HTTP numbers here (error_responses).

ServeError
├── CallerError                 the request cannot be carried out as it stands
│   ├── BadRequest              malformed: a field, a header, a body
│   │   ├── BodyTooLarge        more bytes than a request may have
│   │   └── HeaderTooLarge      a header line that tritonserver would not take
│   ├── HeadTooLarge            a request's line and headers are
│   ├── RequestLate             it was not whole in time
│   ├── ModelNotLoaded          no such model, or none that can be invoked now
│   ├── ModelAlreadyLoaded      the name is taken: loading, ready or unloading
│   ├── FailedAtRequest         the model raised at this request, and answers others
│   └── RequestRefused          tritonserver died twice while this very request was in it
├── ModelUnusable               the archive, or the model in it, cannot be loaded
├── ResourceExhausted           memory, shared memory, disk, processes or descriptors are lacking
│   └── KilledForMemory         so much that the kernel killed a process while a model was loaded
├── DiskFailed                  ours: the disk did not give what an archive holds
├── Overloaded                  too many ask at once; the caller can try again in a moment
│   └── AskedTooOften           a model is asked more often than one may be
├── StoreUnavailable            a feature store that the model asks is down
├── InvocationFailed            the model raised, or answered what cannot be passed on
└── TritonError                 ours: tritonserver did not do what it was asked
    ├── TritonUnavailable       it is not there (starting, restarting, stopping)
    └── TritonTimeout           it did not answer in time
"""

from __future__ import annotations

import math

from serve.limit import add_setting, name_setting, named


class ServeError(Exception):
    """Whatever a caller of the contract may be told; the message is one sentence for people."""

    #: The sentence as a log may have it, where the message has values of a caller's in it.
    without_values = ""

    @property
    def logged(self) -> str:
        """The sentence for the log."""
        return self.without_values or str(self)


class CallerError(ServeError):
    """The platform or the user asked for what cannot be done as asked."""


class BadRequest(CallerError):
    """Malformed: names what was found, what was expected, and what to do."""

    def __init__(self, what: str, found: str, expected: str) -> None:
        super().__init__(f"{what}: found {found}, expected {expected}")


class BodyTooLarge(BadRequest):
    """More bytes than a request may have; most: what it may have, a Limit if a setting says it.

    instead: what to do, behind the number.
    """

    def __init__(self, found: str, most: int, instead: str = "") -> None:
        super().__init__("the body", found, f"at most {add_setting(most)}{instead}")


class HeaderTooLarge(BadRequest):
    """A header of so many bytes, name and value; most: what it may have."""

    def __init__(self, name: str, size: int, most: int) -> None:
        super().__init__(f"the header {shortened(name)}", f"{size} bytes", f"at most {most}")


class HeadTooLarge(CallerError):
    """The request's line and headers, in all or one of them, are larger than they may be."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(f"the request's head: found {found}, expected {expected}")


class RequestLate(CallerError):
    """The request did not arrive in time; limit_s: a TimeLimit if a setting says it."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            f"the request was not whole after {limit_s:g} s{named(limit_s)}; send it faster"
        )


class ModelNotLoaded(CallerError):
    """No model of that name can be invoked or unloaded; state says why, and what to do."""

    def __init__(self, name: str, state: str = "") -> None:
        state = state or "is not loaded; GET /models lists what is, and POST /models loads it"
        super().__init__(f"the model {shortened(name)} {state}")


class ModelAlreadyLoaded(CallerError):
    """The name is taken; state says how, and what to do."""

    def __init__(self, name: str, state: str) -> None:
        super().__init__(f"the model {shortened(name)} {state}")


class FailedAtRequest(CallerError):
    """The model raised at this request, and answers others: its rows may be the reason."""


class RequestRefused(CallerError):
    """tritonserver died twice while this very request was in it; it does not get it again."""

    def __init__(self, refused_s: float) -> None:
        super().__init__(
            "this request was in flight when tritonserver died twice, with the models of all: it "
            f"is refused for {refused_s / 3600:g} h; send another one, or look for what is unusual "
            "in it"
        )


class ModelUnusable(ServeError):
    """The archive cannot be served, or the model in it fails to load. The archive's fault."""


class ResourceExhausted(ServeError):
    """A resource is lacking; the platform answers by unloading other models."""


class KilledForMemory(ResourceExhausted):
    """A load failed, and while it ran the kernel killed a process for want of memory."""


class DiskFailed(ServeError):
    """An error of the disk while an archive is read; the message names the file."""


class Overloaded(ServeError):
    """Too many requests, connections or bytes at once; why says which, and the setting.

    retry_after_s: whole seconds after which the caller may try again.
    """

    retry_after_s = 1

    def __init__(self, why: str, when: str = "in a moment") -> None:
        super().__init__(f"{why}; try again {when}")


class AskedTooOften(Overloaded):
    """A model is asked more often than one may be; wait_s: until it may be asked again.

    most_a_second: a RateLimit if a setting says it.
    """

    def __init__(self, name: str, most_a_second: float, wait_s: float) -> None:
        self.retry_after_s = max(1, math.ceil(wait_s))
        super().__init__(
            f"the model {shortened(name)} is asked more than {most_a_second:g} times a second"
            f"{named(most_a_second)}",
            f"in {self.retry_after_s} s",
        )


class InvocationFailed(ServeError):
    """The model's fault: it raised while it answered."""


class StoreUnavailable(ServeError):
    """A feature store that a model asks is down, or does not answer in time."""


class TritonError(ServeError):
    """tritonserver failed us; the caller can only try again."""


class TritonUnavailable(TritonError):
    """tritonserver cannot be reached; it is starting, restarting or stopping."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"tritonserver cannot be reached ({detail}); try again in a moment")


class TritonTimeout(TritonError):
    """Something took too long; limit_s: a TimeLimit if a setting says it."""

    def __init__(self, what: str, limit_s: float) -> None:
        setting = name_setting(limit_s)
        remedy = f"; raise {setting} if it may take that long" if setting else ""
        super().__init__(f"{what} took longer than {limit_s:.3g} s{remedy}")


def shortened(name: str) -> str:
    """A name as a message shows it: quoted, escaped, at most a line long."""
    return repr(name if len(name) <= 80 else f"{name[:80]}…")
