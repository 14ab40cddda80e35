"""Which generated steps there are, at which level, and which inline operators have a place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.ensembles.conversions import Conversion, ConversionKind, EnsembleTensor
from ensemble_tools.ensembles.edges import InputPlan
from ensemble_tools.ensembles.placement import (
    GeneratedStep,
    Placement,
    choose_free_name,
    drop_idle_calls,
    put_into_steps,
)
from ensemble_tools.ensembles.producers import (
    ANSWER,
    REQUEST,
    FromCall,
    FromInline,
    FromRequest,
)
from ensemble_tools.ensembles.wiring import Call, Inline, Source, Wiring
from ensemble_tools.errors import GraphNotExpressible
from tests.unit.ensemble_tools.ensembles.small_graphs import PATH

TYPES = (TensorSpec("c", "TYPE_INT64", (-1,)),)


def call(key: str, *producers: FromRequest | FromCall | FromInline) -> Call:
    """A call that reads a column of each producer."""
    sources = {f"c{number}": Source(each, "c") for number, each in enumerate(producers)}
    return Call(key, key.partition("/")[0], "operator", (), sources, (), (0,))


def inline(
    key: str, *producers: FromRequest | FromCall | FromInline, models: tuple[str, ...] = ()
) -> Inline:
    return Inline(key, "Filter", ("c",), tuple(Source(each, "c") for each in producers), models)


def wiring(*calls: Call, inlines: tuple[Inline, ...] = (), idle: tuple[str, ...] = ()) -> Wiring:
    return Wiring(calls, {each.key: each for each in inlines}, {}, idle=frozenset(idle))


def conversion(reader: str, producer: FromRequest | FromCall = REQUEST) -> Conversion:
    return Conversion(
        ConversionKind.CAST, reader, ("c",), (EnsembleTensor(producer, "c"),), TYPES, "int64", "why"
    )


def plan(reader: str, *conversions: Conversion, merlin: bool = False) -> InputPlan:
    return InputPlan(reader, {}, conversions, merlin, TYPES)


def plans(*changed: InputPlan, of: Wiring) -> dict[str, InputPlan]:
    keys = [*(each.key for each in of.calls), ANSWER]
    return {key: plan(key) for key in keys} | {each.reader: each for each in changed}


def placed(of: Wiring, found: Mapping[str, InputPlan], *taken: str) -> Placement:
    return put_into_steps(of, found, frozenset(taken), PATH)


A, B = FromCall("a"), FromCall("b")
ROW = wiring(call("a", REQUEST), call("b", A), call("c", B, REQUEST))


def test_depths() -> None:
    """One more than the deepest call that it depends on, through inline operators as well."""
    row = wiring(
        call("a", REQUEST),
        call("b", FromInline("i")),
        call("c", REQUEST),
        call("d", FromCall("c"), FromCall("b")),
        inlines=(inline("i", A, REQUEST),),
    )
    placement = placed(row, plans(of=row))
    assert placement == Placement((), {"a": 1, "b": 2, "c": 1, "d": 3})
    assert placement.deepest == 3


def test_no_calls() -> None:
    """Request and answer are one level."""
    nothing = wiring()
    placement = placed(nothing, plans(plan(ANSWER, conversion(ANSWER)), of=nothing))
    assert (placement.deepest, [step.level for step in placement.steps]) == (0, [0])


@pytest.mark.parametrize(
    ("reader", "producer", "level"),
    [("a", REQUEST, 0), ("b", A, 1), ("c", REQUEST, 2), (ANSWER, A, 3)],
)
def test_a_conversion_runs_right_in_front_of_its_reader(
    reader: str, producer: FromRequest | FromCall, level: int
) -> None:
    """The last level of its range, where it is alone."""
    made = conversion(reader, producer)
    placement = placed(ROW, plans(plan(reader, made), of=ROW))
    assert placement.steps == (GeneratedStep("convert", level, (made,)),)


def test_as_few_steps_as_there_can_be() -> None:
    """What can run earlier runs with what must; only what cannot has a step of its own."""
    early, late, last = conversion("a"), conversion("c"), conversion("c", B)
    found = plans(plan("a", early), plan("c", late, last), of=ROW)
    assert placed(ROW, found).steps == (
        GeneratedStep("convert", 0, (early, late)),
        GeneratedStep("convert_2", 2, (last,)),
    )


def test_names_of_steps_are_free() -> None:
    """A model of the archive may be called as a step would be."""
    found = plans(plan("a", conversion("a")), of=ROW)
    assert [step.name for step in placed(ROW, found, "convert", "convert_2").steps] == ["convert_3"]
    assert choose_free_name("forest", {"forest", "forest_3"}) == "forest_2"


def test_inline_operators_have_one_step() -> None:
    """It feeds all readers of its level, those with conversions too; others have theirs."""
    operators = (inline("i", A),)
    row = wiring(call("a", REQUEST), call("b", FromInline("i")), call("c", A), inlines=operators)
    beside, behind = conversion("c", A), conversion(ANSWER, B)
    found = plans(plan("b", merlin=True), plan("c", beside), plan(ANSWER, behind), of=row)
    assert placed(row, found).steps == (
        GeneratedStep("operators", 1, readers=("b", "c")),
        GeneratedStep("convert", 2, (behind,)),
    )


TWO_PLACES = wiring(
    call("a", FromInline("i")), call("b", A, FromInline("i")), inlines=(inline("i", REQUEST),)
)


@pytest.mark.parametrize(
    ("row", "readers", "says"),
    [
        (
            wiring(call("a", FromInline("i")), inlines=(inline("i", REQUEST, models=("m",)),)),
            ("a",),
            "runs in Merlin and calls the model m itself",
        ),
        (wiring(inlines=(inline("i", REQUEST),)), (ANSWER,), "nothing but inline operators"),
        (TWO_PLACES, ("a", "b"), "at several places between the models"),
        (
            wiring(
                call("a", FromInline("i")),
                call("a/2", FromInline("i")),
                inlines=(inline("i", REQUEST),),
            ),
            ("a",),
            "beside two calls of one model, which cannot be told apart",
        ),
    ],
    ids=["1", "2", "3", "4"],
)
def test_inline_operators_without_a_place(row: Wiring, readers: tuple[str, ...], says: str) -> None:
    """Only the executor runs these, which the remedy says."""
    found = plans(*(plan(reader, merlin=True) for reader in readers), of=row)
    with pytest.raises(
        GraphNotExpressible, match=f"{says}.*; SERVE_REWRITE=auto serves the executor"
    ) as refused:
        placed(row, found)
    assert (refused.value.operator, refused.value.columns) == ("Filter", ("c",))


def test_idle_calls_that_no_operators_step_comes_to_are_dropped() -> None:
    """Merlin's code makes every call up to where it feeds, and none behind."""
    row = wiring(
        call("a", REQUEST),
        call("b", FromInline("i")),
        call("beside", REQUEST),
        call("behind", B),
        inlines=(inline("i", A),),
        idle=("beside", "behind"),
    )
    kept = drop_idle_calls(row, plans(plan("b", merlin=True), of=row))
    assert [each.key for each in kept.calls] == ["a", "b", "beside"]


def test_idle_calls_stay_where_merlin_makes_the_answer() -> None:
    """Then it makes all calls. Without idle ones there is nothing to drop."""
    row = wiring(call("a", REQUEST), call("b", REQUEST), idle=("b",))
    assert drop_idle_calls(row, plans(plan(ANSWER, merlin=True), of=row)) is row
    assert drop_idle_calls(ROW, plans(of=ROW)) is ROW
