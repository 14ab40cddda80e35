"""What tensors are called in the ensemble: nobody's name twice."""

from __future__ import annotations

from ensemble_tools.ensembles.conversions import EnsembleTensor
from ensemble_tools.ensembles.naming import name_tensors
from ensemble_tools.ensembles.ordering import order_steps
from ensemble_tools.ensembles.parts import Parts
from ensemble_tools.ensembles.producers import ANSWER, REQUEST, FromCall, FromStep
from ensemble_tools.ensembles.reads import find_reads
from tests.golden.archives import Graph, Step, column
from tests.golden.cases import predictor
from tests.unit.ensemble_tools.ensembles.small_graphs import (
    CLICK,
    USER,
    casting,
    gather,
    in_a_row,
    keeping_a_name,
)


def named(parts: Parts) -> dict[EnsembleTensor, str]:
    reads = find_reads(parts)
    return name_tensors(parts, reads, order_steps(parts, reads))


def test_request_and_answer_keep_their_names() -> None:
    """1, 2: callers know them; 3: what is between is called after the call that makes it."""
    assert named(in_a_row()) == {
        EnsembleTensor(REQUEST, "user"): "user",
        EnsembleTensor(FromCall("0_workflow"), "u"): "u.0_workflow",
        EnsembleTensor(FromCall("1_predict"), "click"): "click",
    }


def test_what_is_made_is_called_after_its_reader() -> None:
    """3: a generated step makes a tensor for one reader."""
    assert (
        named(casting())[EnsembleTensor(FromStep("convert", "0_predict"), "user")]
        == "user.to.0_predict"
    )


def test_behind_a_front_model_the_answer_has_names_of_its_own() -> None:
    """2, 3: the front model answers under the names that callers know."""
    assert named(keeping_a_name()) == {
        EnsembleTensor(REQUEST, "user"): "user",
        EnsembleTensor(FromStep("convert", "0_workflow"), "user"): "user.to.0_workflow",
        EnsembleTensor(FromCall("0_workflow"), "user"): "user.0_workflow",
        EnsembleTensor(FromCall("1_predict"), "click"): "click.1_predict",
    }


def test_a_tensor_for_the_answer() -> None:
    """3: it is made for nobody's call."""
    double = column("click", "float64")
    predict = predictor("0_p", (USER,), double, "user")
    graph = Graph()
    graph.keep(graph.call(predict, graph.select(USER)), "click")
    last = graph.nodes.pop()
    graph.nodes.append(type(last)(**{**vars(last), "output": (CLICK,)}))
    parts = gather(graph, [USER, column("unread")], predict)
    assert named(parts)[EnsembleTensor(FromStep("convert", ANSWER), "click")] == "click.to.answer"


def test_a_name_that_is_taken_gets_dots() -> None:
    """3: by a column of the request, of the answer, or by a tensor that was named before."""
    taken = (column("u.w"), column("u.w."))
    prepare = Step("w", (USER, *taken), (column("u"), *taken))
    other = Step("w.w", (USER,), (column("u"),))
    predict = predictor("p", (column("u"), *taken), CLICK, "u")
    last = predictor("q", (column("u"),), column("buy"), "u")
    graph = Graph()
    first = graph.call(prepare, graph.select(USER, *taken))
    second = graph.call(other, graph.select(USER))
    graph.concat(graph.call(predict, first), graph.call(last, second))
    names = named(gather(graph, [USER, *taken], prepare, other, predict, last))
    assert names == {
        EnsembleTensor(REQUEST, "user"): "user",
        EnsembleTensor(REQUEST, "u.w"): "u.w",
        EnsembleTensor(REQUEST, "u.w."): "u.w.",
        EnsembleTensor(FromCall("w"), "u"): "u.w..",
        EnsembleTensor(FromCall("w"), "u.w"): "u.w.w",
        EnsembleTensor(FromCall("w"), "u.w."): "u.w..w",
        EnsembleTensor(FromCall("w.w"), "u"): "u.w.w.",
        EnsembleTensor(FromCall("p"), "click"): "click",
        EnsembleTensor(FromCall("q"), "buy"): "buy",
    }
