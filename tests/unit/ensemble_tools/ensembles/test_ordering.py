"""No two steps that may err run side by side."""

from __future__ import annotations

import itertools

import pytest

from ensemble_tools.ensembles.conversions import EnsembleTensor
from ensemble_tools.ensembles.ordering import Ordering, find_asked, order_steps
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.producers import REQUEST, FromCall, FromRequest, FromStep
from ensemble_tools.ensembles.reads import Reads, find_reads
from tests.golden.archives import PREDICTOR, Graph, Step, column
from tests.golden.cases import predictor, workflow
from tests.unit.ensemble_tools.ensembles.small_graphs import (
    BUY,
    CLICK,
    ITEM,
    USER,
    behind_an_operator,
    casting,
    gather,
    in_a_row,
    side_by_side,
)


def ordered(parts: Parts, *called: str) -> Ordering:
    return order_steps(parts, find_reads(parts), frozenset(called))


def what_runs_before(reads: Reads, ordering: Ordering) -> dict[str, set[str]]:
    """Every step, and all that it has to wait for, by reading or by waiting."""
    before: dict[str, set[str]] = {}
    for step in ordering.order:
        tensors = [*reads.steps.get(step, ()), *reads.calls.get(step, {}).values()]
        tensors += [ordering.waits[step]] if step in ordering.waits else []
        direct = {t.producer.step for t in tensors if not isinstance(t.producer, FromRequest)}
        before[step] = direct.union(*(before[name] for name in direct))
    return before


def test_a_row_needs_no_waiting() -> None:
    """2: what reads the last one's tensors stands behind it anyway."""
    row = ordered(in_a_row())
    assert row == Ordering(("0_workflow", "1_predict"), {})


def test_workflows_side_by_side_wait() -> None:
    """3: the second one waits for a tensor of the first, which it does not read."""
    assert ordered(side_by_side()) == Ordering(
        ("0_users", "1_items", "2_predict"),
        {"1_items": EnsembleTensor(FromCall("0_users"), "user")},
    )


def test_predictors_wait_for_nobody() -> None:
    """1: what they are asked has been through a workflow; they do not err at what callers send."""
    first, second = predictor("0_a", (USER,), CLICK, "user"), predictor("1_b", (USER,), BUY, "user")
    graph = Graph()
    one = graph.call(first, graph.select(USER))
    graph.concat(one, graph.call(second, graph.select(USER)))
    parts = gather(graph, [USER], first, second)
    assert ordered(parts) == Ordering(("0_a", "1_b"), {})


@pytest.mark.parametrize(
    "items",
    [
        Step("1_items", (ITEM,), (ITEM,), class_name=PREDICTOR),
        Step("1_items", (ITEM,), (ITEM,), dims={"item": "-1, 2"}),
        Step("1_items", (ITEM,), (ITEM,), extra='parameters { key: "sparse_max" value {} }'),
    ],
    ids=["no workflow", "no number a row", "sparse_max"],
)
def test_who_has_no_signal_does_not_wait(items: Step) -> None:
    """1: nor does anybody wait for it."""
    predict = Step("2_predict", (USER, ITEM), (CLICK,), {}, PREDICTOR, items.dims)
    users, graph = workflow("0_users", (USER,)), Graph()
    first = graph.call(users, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(items, graph.select(ITEM))))
    parts = gather(graph, [USER, ITEM], users, items, predict, shapes=items.dims)
    assert ordered(parts).waits == {}


def test_who_is_called_by_name_does_not_wait() -> None:
    """1: python models that call it know nothing of an input more."""
    assert ordered(side_by_side(), "1_items").waits == {}
    assert ordered(side_by_side(), "0_users").waits == {}


def test_who_is_called_twice_does_not_wait() -> None:
    """1: an input more would be missing in the other call."""
    step, other = workflow("0_w", (USER,)), workflow("1_w", (ITEM,))
    predict = predictor("2_p", (USER, ITEM), CLICK, "user")
    graph = Graph()
    twice = graph.call(step, graph.call(step, graph.select(USER)))
    graph.call(predict, graph.concat(twice, graph.call(other, graph.select(ITEM))))
    assert ordered(gather(graph, [USER, ITEM], step, other, predict)).waits == {}


def test_a_signal_is_one_number_a_row() -> None:
    """The first of the outputs whose shape is sure, and no string."""
    wide = Step(
        "0_users",
        (USER,),
        (column("pair"), column("name"), USER),
        dims={"pair": "-1, 2"},
        types={"name": "TYPE_STRING"},
    )
    assert ordered(side_by_side(wide)).waits == {
        "1_items": EnsembleTensor(FromCall("0_users"), "user")
    }


def test_generated_steps_wait_too() -> None:
    """They meet what callers send: a conversion runs before what could run beside it."""
    users, items = workflow("0_users", (USER,)), workflow("1_items", (ITEM,))
    predict = predictor("2_predict", (USER, ITEM), CLICK, "user / item")
    graph = Graph()
    first = graph.call(users, graph.select(USER))
    graph.call(predict, graph.concat(first, graph.call(items, graph.select(ITEM))))
    parts = gather(graph, [USER, column("item", "int32")], users, items, predict)
    made = EnsembleTensor(FromStep("convert", "1_items"), "item")
    assert ordered(parts) == Ordering(
        ("0_users", "convert", "1_items", "2_predict"),
        {"convert": EnsembleTensor(FromCall("0_users"), "user")},
    )
    assert find_reads(parts).calls["1_items"] == {"item": made}


def test_steps_with_a_signal_come_first() -> None:
    """Among those that are ready: a predictor beside workflows is behind them all."""
    beside = predictor("0_beside", (USER,), BUY, "user")
    users, items = workflow("1_users", (USER,)), workflow("2_items", (ITEM,))
    graph = Graph()
    bought = graph.call(beside, graph.select(USER))
    both = graph.concat(graph.call(users, graph.select(USER)), bought)
    graph.concat(both, graph.call(items, graph.select(ITEM)))
    parts = gather(graph, [USER, ITEM], beside, users, items)
    assert ordered(parts).order == ("1_users", "2_items", "0_beside")


@pytest.mark.parametrize("count", [3, 7])
def test_however_many_they_run_one_after_the_other(count: int) -> None:
    """Of any two workflows one stands behind the other."""
    columns = [column(f"c{number}") for number in range(count)]
    steps = [workflow(f"{number}_w", (each,)) for number, each in enumerate(columns)]
    predict = predictor("p", columns, CLICK, "c0")
    graph = Graph()
    called = [
        graph.call(step, graph.select(each)) for step, each in zip(steps, columns, strict=True)
    ]
    graph.call(predict, graph.concat(*called))
    parts = gather(graph, columns, *steps, predict)
    ordering = ordered(parts)
    before = what_runs_before(find_reads(parts), ordering)
    for one, other in itertools.combinations([step.name for step in steps], 2):
        assert one in before[other] or other in before[one]
    assert len(ordering.waits) == count - 1


def test_what_is_asked_of_each_step() -> None:
    """By name: what others read, what leaves the ensemble, and what is waited for."""
    parts = side_by_side(Step("0_users", (USER,), (column("z"), USER, column("unread"))))
    reads = find_reads(parts)
    ordering = order_steps(parts, reads)
    assert ordering.waits["1_items"] == EnsembleTensor(FromCall("0_users"), "z")
    assert find_asked(reads, ordering) == {
        "0_users": [EnsembleTensor(FromCall("0_users"), name) for name in ("user", "z")],
        "1_items": [EnsembleTensor(FromCall("1_items"), "item")],
        "2_predict": [EnsembleTensor(FromCall("2_predict"), "click")],
    }


def test_merlins_step_stands_between_the_calls() -> None:
    """It reads the request and what is before it, so that nothing has to wait."""
    assert ordered(behind_an_operator()) == Ordering(("0_workflow", "operators", "1_predict"), {})
    assert ordered(casting()) == Ordering(("convert", "0_predict"), {})
    assert find_reads(casting()).steps["convert"] == (EnsembleTensor(REQUEST, "user"),)
