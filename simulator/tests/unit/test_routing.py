"""Which instance answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from merlin_simulator.rules import Candidate, Route, route, route_alike


def _candidate(name: str, **facts: object) -> Candidate:
    plain: dict[str, object] = {
        "loaded": False,
        "coming": False,
        "model_in_flight": 0,
        "in_flight": 0,
        "models": 0,
        "memory": None,
    }
    return Candidate(name, **{**plain, **facts})  # type: ignore[arg-type]


def test_no_instance_no_route() -> None:
    """Without an instance in service nobody answers."""
    assert route([], busy_at=4) is None


def test_the_holder_answers() -> None:
    """An instance that has the model is asked, however full it is."""
    chosen = route([_candidate("a"), _candidate("b", loaded=True, models=9, memory=1.0)], 4)
    assert chosen == Route("b")


def test_the_emptiest_gets_a_new_model() -> None:
    """Free memory counts before the number of models."""
    full, free = _candidate("a", memory=0.9, models=1), _candidate("b", memory=0.1, models=5)
    assert route([full, free], 4) == Route("b")
    assert route([_candidate("a", models=2), _candidate("b", models=1)], 4) == Route("b")


def test_the_least_busy_holder_answers() -> None:
    """Of two copies the one with fewer requests of the model is asked."""
    busy = _candidate("a", loaded=True, model_in_flight=3)
    assert route([busy, _candidate("b", loaded=True, model_in_flight=1)], 4) == Route("b")


def test_a_copy_is_made_where_every_holder_is_busy() -> None:
    """The holder answers this one; the other instance loads a copy for the next ones."""
    busy = _candidate("a", loaded=True, model_in_flight=4)
    assert route([busy, _candidate("b")], 4) == Route("a", copy_to="b")
    assert route([busy], 4) == Route("a")


def test_a_copy_that_is_coming_gets_no_requests_yet() -> None:
    """It would make warm callers wait; and it stops a further copy."""
    busy, coming = _candidate("a", loaded=True, model_in_flight=9), _candidate("b", coming=True)
    assert route([busy, coming, _candidate("c")], 4) == Route("a")


def test_callers_of_a_cold_model_wait_where_it_comes() -> None:
    """Not each on an instance of its own."""
    assert route([_candidate("a"), _candidate("b", coming=True, models=9)], 4) == Route("b")


@given(
    st.lists(
        st.builds(
            Candidate,
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
def test_a_route_keeps_its_promises(candidates: list[Candidate], busy_at: int) -> None:
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
