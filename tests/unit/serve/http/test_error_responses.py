"""Every error has its status, and every sentence is one line."""

from __future__ import annotations

import json

import pytest

from serve import errors
from serve.http.error_responses import STATUSES, make_error_answer
from serve.limit import RateLimit

#: The contract's (contract.md, the multi-model API); 5xx are ours.
EXPECTED = {
    errors.ServeError("x"): 500,
    errors.CallerError("x"): 400,
    errors.BadRequest("a", "b", "c"): 400,
    errors.BodyTooLarge("9 bytes", 8): 413,
    errors.HeaderTooLarge("x-a", 9, 8): 431,
    errors.ModelNotLoaded("m"): 404,
    errors.ModelAlreadyLoaded("m", "loaded"): 409,
    errors.RequestRefused(3600.0): 400,
    errors.ModelUnusable("x"): 400,
    errors.HeadTooLarge("more", "less"): 431,
    errors.RequestLate(1.5): 408,
    errors.KilledForMemory("x"): 507,
    errors.ResourceExhausted("x"): 507,
    errors.DiskFailed("x"): 500,
    errors.Overloaded("x"): 503,
    errors.AskedTooOften("m", 2.0, 0.3): 429,
    errors.InvocationFailed("x"): 500,
    errors.FailedAtRequest("x"): 400,
    errors.StoreUnavailable("x"): 503,
    errors.TritonError("x"): 500,
    errors.TritonUnavailable("x"): 503,
    errors.TritonTimeout("x", 1.5): 504,
}


def tree(kind: type[errors.ServeError]) -> set[type[errors.ServeError]]:
    return {kind, *(child for sub in kind.__subclasses__() for child in tree(sub))}


def test_the_table_is_whole() -> None:
    """Each class of the tree stands in the table once, or its parent does; all are known here."""
    classes = [kind for kind, _ in STATUSES]
    assert len(classes) == len(set(classes))
    assert set(classes) | {errors.BadRequest} == tree(errors.ServeError)  # it is a CallerError
    assert {type(error) for error in EXPECTED} == tree(errors.ServeError)


@pytest.mark.parametrize(("error", "status"), EXPECTED.items(), ids=lambda value: str(type(value)))
def test_statuses(error: errors.ServeError, status: int) -> None:
    """As the contract has them; the body is JSON with one sentence."""
    answered, headers, body = make_error_answer(error)
    assert answered == status
    assert (b"content-type", b"application/json") in headers
    assert json.loads(body) == {"error": str(error)}


def test_who_is_one_too_many_may_try_again_soon() -> None:
    """An answer to nobody else says when."""
    told = {type(error) for error in EXPECTED if len(make_error_answer(error)[1]) > 1}
    assert told == {errors.Overloaded, errors.AskedTooOften}
    assert (b"retry-after", b"1") in make_error_answer(errors.Overloaded("x"))[1]


@pytest.mark.parametrize(
    ("wait_s", "seconds"), [(1e-9, 1), (0.3, 1), (1.0, 1), (1.1, 2), (1000.0, 1000)]
)
def test_who_asks_too_often_is_told_when_to_come_back(wait_s: float, seconds: int) -> None:
    """In whole seconds, one at least, in the header as in the sentence."""
    error = errors.AskedTooOften("m", RateLimit(0.5, "SERVE_RATE_LIMIT"), wait_s)
    _, headers, body = make_error_answer(error)
    assert (b"retry-after", b"%d" % seconds) in headers
    assert json.loads(body)["error"] == (
        "the model 'm' is asked more than 0.5 times a second (SERVE_RATE_LIMIT); try again in"
        f" {seconds} s"
    )


def test_a_bug_is_no_caller_s_to_read() -> None:
    """Its class is named, what it says is not; whoever met it logs it."""
    status, _, body = make_error_answer(KeyError("secret"))
    assert status == 500
    assert b"KeyError" in body
    assert b"secret" not in body


def test_no_class_hides_behind_its_parent() -> None:
    """The first class that fits decides, so children stand before their parents."""
    for place, (kind, _) in enumerate(STATUSES):
        assert not any(issubclass(later, kind) for later, _ in STATUSES[place + 1 :])


@pytest.mark.parametrize("name", ["a\nb", "x" * 5000, "../x", "\0", "é'\""])
def test_names_in_messages_are_short_and_escaped(name: str) -> None:
    """Whatever a caller chose as a name, the sentence stays on a line."""
    for error in (errors.ModelNotLoaded(name), errors.ModelAlreadyLoaded(name, "loaded")):
        assert len(str(error).splitlines()) == 1
        assert len(str(error)) < 300
