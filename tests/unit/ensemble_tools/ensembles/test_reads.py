"""Who reads what, and whether a model must stand in front."""

from __future__ import annotations

from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.ensembles.conversions import EnsembleTensor
from ensemble_tools.ensembles.producers import ANSWER, REQUEST, FromCall, FromStep
from ensemble_tools.ensembles.reads import find_reads
from tests.golden.archives import FOREST, Graph, Step, column
from tests.golden.cases import predictor, workflow
from tests.unit.ensemble_tools.ensembles.small_graphs import (
    CLICK,
    ITEM,
    USER,
    behind_an_operator,
    casting,
    gather,
    in_a_row,
    keeping_a_name,
)

ANY = (-1,)
REQUESTED = EnsembleTensor(REQUEST, "user")


def test_a_row_of_calls() -> None:
    """Each call reads what the one before it puts out; the answer is the last one's."""
    prepared, clicked = (
        EnsembleTensor(FromCall("0_workflow"), "u"),
        EnsembleTensor(FromCall("1_predict"), "click"),
    )
    reads = find_reads(in_a_row())
    assert reads.calls == {"0_workflow": {"user": REQUESTED}, "1_predict": {"u": prepared}}
    assert reads.answer == {"click": clicked}
    assert (reads.steps, reads.outputs, reads.inner, reads.front) == ({}, {}, (), None)
    assert (reads.entering, reads.leaving) == ((REQUESTED,), (clicked,))
    assert reads.specs == {
        REQUESTED: TensorSpec("user", "TYPE_INT64", ANY),
        prepared: TensorSpec("u", "TYPE_INT64", ANY),
        clicked: TensorSpec("click", "TYPE_FP32", ANY),
    }


def test_a_generated_step_makes_each_tensor_for_one_reader() -> None:
    """It reads the request in the call's place; its tensor has the type that is required."""
    made = EnsembleTensor(FromStep("convert", "0_predict"), "user")
    reads = find_reads(casting())
    assert reads.steps == {"convert": (REQUESTED,)}
    assert reads.outputs == {"convert": (made,)}
    assert reads.calls == {"0_predict": {"user": made}}
    assert [step.name for step in reads.inner] == ["convert"]
    assert reads.front is None
    assert reads.specs[REQUESTED].data_type == "TYPE_INT32"
    assert reads.specs[made] == TensorSpec("user", "TYPE_INT64", ANY)
    assert reads.entering == (REQUESTED,)


def test_a_name_of_the_request_in_the_answer() -> None:
    """In an ensemble a name is one tensor: a model stands in front, and converts at both ends."""
    reads = find_reads(keeping_a_name())
    assert reads.front is not None
    assert reads.front.reasons == (
        "the answer, column 'user': it has the name of a column of the request, and in an ensemble "
        "a name is one tensor",
    )
    assert [step.name for step in reads.front.before] == ["convert"]
    assert (reads.front.behind, reads.inner) == ((), ())
    # The front model's steps are outside: what they make comes in, what they read goes out.
    assert reads.entering == (EnsembleTensor(FromStep("convert", "0_workflow"), "user"),)
    assert reads.leaving == (
        EnsembleTensor(FromCall("1_predict"), "click"),
        EnsembleTensor(FromCall("0_workflow"), "user"),
    )


def test_a_column_that_comes_back_as_it_came() -> None:
    """Under the request's own name it is the request's tensor, and no reason for a front model."""
    predict = predictor("0_p", (USER, ITEM), CLICK, "user")
    graph = Graph()
    graph.concat(graph.call(predict, graph.select(USER, ITEM)), graph.select(USER))
    reads = find_reads(gather(graph, [USER, ITEM], predict))
    assert reads.answer["user"] == REQUESTED
    assert reads.front is None
    assert reads.leaving == (EnsembleTensor(FromCall("0_p"), "click"),)


def test_a_column_that_nobody_reads() -> None:
    """Triton's ensembles do not allow it; a step of a front model would count as a reader."""
    predict = predictor("0_p", (USER,), CLICK, "user")
    graph = Graph()
    graph.call(predict, graph.select(USER))
    reads = find_reads(gather(graph, [USER, ITEM], predict))
    assert reads.front is not None
    assert reads.front.reasons == (
        "the request, column 'item': no step reads it, and Triton's ensembles do not allow that",
    )
    assert reads.entering == (REQUESTED,)


def test_conversions_at_the_far_end_are_the_front_models() -> None:
    """What is between calls stays inside the ensemble."""
    double = column("click", "float64")
    prepare = Step("0_w", (USER,), (column("user", "int32"),))
    predict = predictor("1_p", (USER,), double, "user")
    graph = Graph()
    graph.call(predict, graph.call(prepare, graph.select(USER)))
    graph.keep(graph.nodes[-1], "click")
    last = graph.nodes.pop()
    output = tuple(column(spec.name, "float32") for spec in last.output)
    graph.nodes.append(type(last)(**{**vars(last), "output": output}))
    reads = find_reads(gather(graph, [USER, ITEM], prepare, predict))
    assert reads.front is not None
    assert [step.name for step in reads.inner] == ["convert"]
    assert [step.name for step in reads.front.behind] == ["convert_2"]
    assert reads.answer == {"click": EnsembleTensor(FromStep("convert_2", ANSWER), "click")}
    assert reads.leaving == (EnsembleTensor(FromCall("1_p"), "click"),)


def test_merlins_step_reads_all_that_there_is() -> None:
    """It runs the graph up to its readers, with the request and what calls before it answered."""
    reads = find_reads(behind_an_operator())
    prepared = EnsembleTensor(FromCall("0_workflow"), "user")
    assert reads.steps == {"operators": (REQUESTED, prepared)}
    assert reads.outputs == {
        "operators": (EnsembleTensor(FromStep("operators", "1_predict"), "user"),)
    }


def test_a_forests_output_is_what_its_backend_makes() -> None:
    """Without the last size of one that its config declares."""
    outputs, shapes = (column("output__0", "float32"),), {"input__0": "-1, 1", "output__0": "-1, 1"}
    trees = Step("1_f", (column("input__0", "float32"),), outputs, {}, FOREST, shapes)
    prepare, graph = workflow("0_w", (USER,)), Graph()
    graph.call(trees, graph.call(prepare, graph.select(USER)))
    reads = find_reads(gather(graph, [USER], prepare, trees))
    assert reads.calls["1_f"] == {"user": EnsembleTensor(FromCall("0_w"), "user")}
    assert reads.specs[EnsembleTensor(FromCall("1_f"), "output__0")].dims == (-1,)
