"""Which instance answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from merlin_simulator.rules import RoutableInstance, Route, route, route_alike


def _candidate(name: str, **facts: object) -> RoutableInstance:
    plain: dict[str, object] = {
        "loaded": False,
        "coming": False,
        "model_in_flight": 0,
        "in_flight": 0,
        "models": 0,
        "memory": None,
    }
    return RoutableInstance(name, **{**plain, **facts})  # type: ignore[arg-type]


HOLDER = _candidate("a", loaded=True, model_in_flight=3)
BUSY = _candidate("a", loaded=True, model_in_flight=4)


@pytest.mark.parametrize(
    ("candidates", "chosen"),
    [
        # Without an instance in service nobody answers.
        ([], None),
        # An instance that has the model is asked, however full it is.
        ([_candidate("a"), _candidate("b", loaded=True, models=9, memory=1.0)], Route("b")),
        # A new model comes where memory is free, then where fewer models are.
        (
            [_candidate("a", memory=0.9, models=1), _candidate("b", memory=0.1, models=5)],
            Route("b"),
        ),
        ([_candidate("a", models=2), _candidate("b", models=1)], Route("b")),
        # Of two copies the one with fewer requests of the model is asked.
        ([HOLDER, _candidate("b", loaded=True, model_in_flight=1)], Route("b")),
        # Where every holder is busy another instance loads a copy for the next ones.
        ([BUSY, _candidate("b")], Route("a", copy_to="b")),
        ([BUSY], Route("a")),
        # A copy that is coming would make warm callers wait; and it stops a further copy.
        ([BUSY, _candidate("b", coming=True), _candidate("c")], Route("a")),
        # Callers of a cold model wait together where it comes.
        ([_candidate("a"), _candidate("b", coming=True, models=9)], Route("b")),
    ],
)
def test_which_instance_answers(candidates: list[RoutableInstance], chosen: Route | None) -> None:
    assert route(candidates, busy_at=4) == chosen


@given(
    st.lists(
        st.builds(
            RoutableInstance,
            st.sampled_from("abcdef"),
            st.booleans(),
            st.booleans(),
            st.integers(0, 9),
            st.integers(0, 9),
            st.integers(0, 9),
            st.none() | st.floats(0, 2),
        ),
        unique_by=lambda candidate: candidate.name,
    ),
    st.integers(1, 9),
)
def test_a_route_keeps_its_promises(candidates: list[RoutableInstance], busy_at: int) -> None:
    """A holder is asked where there is one; a copy goes to an instance without the model."""
    chosen = route(candidates, busy_at)
    assert (chosen is None) == (not candidates)
    if chosen is None:
        return
    by_name = {candidate.name: candidate for candidate in candidates}
    assert by_name[chosen.name].loaded or not any(c.loaded for c in candidates)
    if chosen.copy_to is not None:
        assert by_name[chosen.name].model_in_flight >= busy_at
        assert not by_name[chosen.copy_to].loaded
        assert not any(c.coming and not c.loaded for c in candidates)


def test_instances_of_one_model_share_its_requests() -> None:
    """However full they are: the least busy are asked, each of them at some time."""
    busy = _candidate("a", in_flight=2)
    idle = [_candidate("b", memory=0.9), _candidate("c", memory=0.1)]
    asked = {route_alike([busy, *idle]) for _ in range(200)}
    assert asked == {Route("b"), Route("c")}
    assert route_alike([]) is None
