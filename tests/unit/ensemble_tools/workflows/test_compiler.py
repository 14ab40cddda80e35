"""Which workflows are compiled, and the words with which others are not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from ensemble_tools.archive.executor_graph import ExecutorGraph, Operator
from ensemble_tools.archive.model_config import TensorSpec
from ensemble_tools.workflows.compiler import compile_workflow
from ensemble_tools.workflows.errors import NotCompiled
from ensemble_tools.workflows.program import NVTABULAR, PANDAS, Program
from ensemble_tools.workflows.runtime.kept import (
    ANSWERED_LISTS,
    BESIDE,
    NUMBER,
    REQUESTS,
    KeptNode,
    TakeArray,
)
from tests.support.fitted_operators import (
    AGE,
    DRINK,
    GENRES,
    INPUTS,
    KEPT,
    TAGS,
    USER,
    compiled,
    graph,
    of_table,
    operator,
    why_not_compiled,
)
from tests.support.pickled_frames import ITEMS

LOG = operator("logop.LogOp")
OWN = Operator("mine.Recency", "Recency")


def test_steps() -> None:
    fill = operator("fill.FillMissing", fill_val=0.5, add_binary_cols=False)
    program = compiled(fill, LOG)
    assert [step.operation.name for step in program.steps] == ["fill", "log1"]
    assert program.operators == {"FillMissing": 1, "LogOp": 1}


def test_nothing_but_columns() -> None:
    assert compiled().steps == ()


@pytest.mark.parametrize(
    "unknown",
    [
        operator("lambdaop.LambdaOp", f=None),
        operator("filter.Filter", f=None),
        operator("brand_new.Operator"),
        operator("LogOp", "users_code"),
        operator("logop.LogOp", "nvtabular.ops.sub"),
        operator("clip.Clip", min_value="0", max_value=None),
        operator("clip.Clip", min_value=float("nan"), max_value=None),
        operator("clip.Clip", max_value=None),
        operator("normalize.Normalize", means={"age": 0.0}, stds={}, out_dtype=None),
        operator("normalize.Normalize", means=None, stds={"age": 1.0}, out_dtype=None),
        operator("normalize.Normalize", means={"age": 0.0}, stds={"age": None}, out_dtype=None),
        operator("rename.Rename", f=None, postfix=None, name=None),
        operator("bucketize.Bucketize", boundaries=print, use_digitize=True),
        operator("fill.FillMissing", fill_val="x", add_binary_cols=False),
        operator("hash_bucket.HashBucket", num_buckets={"age": 0}),
        operator("difference_lag.DifferenceLag", partition_cols=["gone"], shifts=[1]),
    ],
    ids=lambda unknown: f"{unknown.class_name} {list(unknown.state)}",
)
def test_what_is_not_certain_is_not_compiled(unknown: Operator) -> None:
    assert why_not_compiled(lambda: compiled(unknown))


def test_the_reason_names_operator_and_column() -> None:
    reason = why_not_compiled(lambda: compiled(operator("filter.Filter", f=None)))
    assert reason == "Filter of 'age': a function of yours decides which rows there are"


def test_lists_where_values_are_wanted() -> None:
    clip = operator("clip.Clip", min_value=0, max_value=None)
    assert "applied to lists" in why_not_compiled(lambda: compiled(clip, column=TAGS))


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        ({}, "declares no input 'age'"),
        ({"age": TensorSpec("age", "TYPE_FP16", (-1,))}, "a column of TYPE_FP16"),
        ({"age": TensorSpec("age", "TYPE_UINT64", (-1,))}, "a column of TYPE_UINT64"),
        ({"age": TensorSpec("age", "TYPE_FP64", (-1, 2, 2))}, "more than two dimensions"),
    ],
)
def test_declared_inputs(inputs: dict[str, TensorSpec], reason: str) -> None:
    with pytest.raises(NotCompiled, match=reason):
        compiled(LOG, inputs=inputs)


def test_lists_need_both_tensors() -> None:
    without = {name: tensor for name, tensor in INPUTS.items() if name != "tags__offsets"}
    with pytest.raises(NotCompiled, match="declares no input 'tags__offsets'"):
        compiled(LOG, column=TAGS, inputs=without)
    of_floats = {**INPUTS, "tags__offsets": TensorSpec("tags__offsets", "TYPE_FP32", (-1,))}
    with pytest.raises(NotCompiled, match="offsets are no whole numbers"):
        compiled(LOG, column=TAGS, inputs=of_floats)


@pytest.mark.parametrize("dtype", ["str", "datetime64[ns]", "float16", None, "decimal"])
def test_answers_of_other_types(dtype: str | None) -> None:
    made = graph(AGE, LOG)
    last = dataclasses.replace(made.nodes[-1], output=(dataclasses.replace(AGE, dtype=dtype),))
    with pytest.raises(NotCompiled, match="'age'"):
        compile_workflow(ExecutorGraph((made.nodes[0], last)), INPUTS, Path("/none"))


def test_an_answer_that_nobody_makes() -> None:
    made = graph(AGE, LOG)
    last = dataclasses.replace(made.nodes[-1], output=(AGE, dataclasses.replace(AGE, name="x")))
    with pytest.raises(NotCompiled, match="'x': the workflow does not put it out"):
        compile_workflow(ExecutorGraph((made.nodes[0], last)), INPUTS, Path("/none"))


def test_what_is_kept() -> None:
    """A step that names the node and its frame, one that takes the array, and why it is kept."""
    program = compiled(*KEPT)
    kept, array, log = program.steps
    assert kept.operation == KeptNode(
        node=(1,),
        selection=("age",),
        inputs=("age",),
        python_lists=(False,),
        others_read=(False,),
        shared_by=("",),
        columns=("age",),
        not_beside=(),
        unchanged=(),
        keeps_rows=True,
        operator="LambdaOp",
    )
    assert kept.operation.applied_to == ("age",)
    assert array.operation == TakeArray("age", NUMBER, "values")
    assert (kept.reads, array.reads, log.reads) == ((0,), kept.writes, array.writes)
    assert [(left.operator, left.reason) for left in program.kept] == [
        ("LambdaOp", "LambdaOp of 'age': it calls a function of yours")
    ]


def test_what_the_process_must_have_imported() -> None:
    """NVTabular for its own operators, and for classes of modules, which import it."""
    assert compiled(LOG).interpreter == ""
    assert compiled(*KEPT).interpreter == PANDAS
    assert compiled(*KEPT, OWN).interpreter == NVTABULAR


def test_a_kept_operator_reads_what_is_compiled() -> None:
    """Nothing that comes before it is done twice; what no compiled step reads is no array."""
    program = compiled(LOG, KEPT[0], KEPT[0], LOG)
    names = [step.operation.name for step in program.steps]
    assert names == ["log1", "kept", "kept", "take_array", "log1"]


def test_nothing_but_kept_operators() -> None:
    """They run in pandas one after the other, without merlin-core's executor between them."""
    program = compiled(KEPT[0], KEPT[0])
    assert [step.operation.name for step in program.steps] == ["kept", "kept", "take_array"]
    assert program.operators == {}


def _with_dates(*operators: Operator) -> ExecutorGraph:
    """The second operator makes dates."""
    made = graph(AGE, *operators)
    dates = dataclasses.replace(AGE, dtype="datetime64[ns]")
    second = dataclasses.replace(made.nodes[2], output=(dates,))
    return ExecutorGraph((*made.nodes[:2], second, *made.nodes[3:]))


def test_dates_go_from_one_function_to_the_next() -> None:
    """What numpy has no plain type for is no array; the second function's numbers are."""
    program = compile_workflow(_with_dates(LOG, KEPT[0], *KEPT), INPUTS, Path("/none"))
    names = [step.operation.name for step in program.steps]
    assert names == ["log1", "kept", "kept", "take_array", "log1"]


def test_where_a_compiled_operator_meets_dates() -> None:
    """It is kept, too, and the reason names it and the column; an answer of dates is refused."""
    program = compile_workflow(_with_dates(LOG, KEPT[0], LOG), INPUTS, Path("/none"))
    assert program.kept[1].reason == (
        "LogOp of 'age': it is applied to a column that numpy has no plain type for"
    )
    with pytest.raises(NotCompiled, match="'age': it is answered as datetime64"):
        compile_workflow(_with_dates(LOG, KEPT[0]), INPUTS, Path("/none"))


def _grouped_dates(aggregation: str) -> Program:
    """Dates of a function, grouped by the user; a function makes numbers of them again."""
    groupby = operator(
        "groupby.Groupby",
        groupby_cols=["user"],
        sort_cols=[],
        name_sep="_",
        ascending=True,
        list_aggs={"age": [aggregation]},
        conv_aggs={},
    )
    name = f"age_{aggregation}"
    number = dataclasses.replace(AGE, name=name)
    start, log, dates, group, last = _with_dates(LOG, KEPT[0], groupby, KEPT[0]).nodes
    date = dataclasses.replace(dates.output[0], name=name)
    start = dataclasses.replace(start, inputs=("age", "user"), columns_in=(AGE, USER))
    group = dataclasses.replace(group, inputs=("age", "user"), output=(USER, date))
    last = dataclasses.replace(last, inputs=(name,), selection=(name,), output=(number,))
    made = ExecutorGraph((start, log, dates, group, last))
    return compile_workflow(made, INPUTS, Path("/none"))


@pytest.mark.parametrize("aggregation", ["first", "last", "min", "max", "count", "nunique"])
def test_groupby_of_dates_is_compiled(aggregation: str) -> None:
    """They are numbers to it; the function behind it gets dates again."""
    names = [step.operation.name for step in _grouped_dates(aggregation).steps]
    assert names == ["log1", "kept", "take_array", "group", "kept", "take_array"]


def test_lists_of_dates_are_pandas() -> None:
    """They are lists of Timestamps."""
    _, groupby, _ = _grouped_dates("list").kept
    assert groupby.reason == "Groupby of 'age': list of dates"


def test_the_reason_names_the_operator_where_nothing_is_known_of_its_columns() -> None:
    groupby = operator(
        "groupby.Groupby",
        groupby_cols=["age"],
        sort_cols=[],
        name_sep="_",
        ascending=[True],
        list_aggs={},
        conv_aggs={},
    )
    reason = why_not_compiled(lambda: compiled(groupby))
    assert reason == "Groupby of 'age': ascending is not a boolean"


SLICE = operator("list_slice.ListSlice", start=0, end=2, max_elements=2, pad=True, pad_value=0)


def test_lists_of_functions() -> None:
    """ListSlice and functions get the lists themselves; who reads all items gets an array."""
    program = compiled(KEPT[0], SLICE, operator("value_counts.ValueCount"), column=TAGS)
    assert [step.operation.name for step in program.steps] == ["kept", "kept", "take_array"]
    assert "ListSlice of 'tags': it is applied to lists that" in program.kept[1].reason
    program = compiled(SLICE, KEPT[0], SLICE, LOG, KEPT[0], column=TAGS)
    names = [step.operation.name for step in program.steps]
    assert names == ["list_slice", "kept", "kept", "take_array", "log1", "kept", "take_array"]
    taken = [step.operation for step in program.steps if isinstance(step.operation, TakeArray)]
    assert taken == [
        TakeArray("tags", NUMBER, "lists"),
        TakeArray("tags", NUMBER, ANSWERED_LISTS),
    ]


def test_operators_of_ones_own_are_kept() -> None:
    own = dataclasses.replace(KEPT[0], class_name="mine.Recency", label="Recency")
    assert compiled(own, LOG).kept[0].reason == "Recency of 'age': it is an operator of yours"
    theirs = dataclasses.replace(KEPT[0], class_name="nvtabular.ops.new.Recency")
    with pytest.raises(NotCompiled, match="this operator is not known"):
        compiled(theirs, LOG)
    files = dataclasses.replace(own, state={**own.state, "out_path": "/categories"})
    with pytest.raises(NotCompiled, match="this operator is not known"):
        compiled(files, LOG)


def test_what_a_function_sees_is_what_it_is_given() -> None:
    """A function of a column: that column; of a frame, or an operator of yours: the whole frame."""
    alone = operator("udf.UDF", "merlin.dag.ops", f=None, _param_count=1)
    beside = operator("udf.UDF", "merlin.dag.ops", f=None, _param_count=2)
    own = dataclasses.replace(alone, class_name="mine.Operator", label="Operator")
    fill = operator("fill.FillMissing", fill_val=0.5, add_binary_cols=True)
    seen = []
    for function in (alone, beside, own):
        steps = compiled(fill, function, LOG).steps
        seen += [step.operation.inputs for step in steps if isinstance(step.operation, KeptNode)]
    assert seen == [("age",), ("age", "age_filled"), ("age", "age_filled")]


def test_a_column_that_comes_again_stands_behind_the_others() -> None:
    """As merlin-core's executor merges frames; a function of a frame can see it."""
    beside = operator("udf.UDF", "merlin.dag.ops", f=None, _param_count=2)
    start, again, function, last = graph(AGE, KEPT[0], beside, LOG).nodes
    names = ("age", "user")
    start = dataclasses.replace(start, inputs=names, columns_in=(AGE, USER), selection=names)
    function = dataclasses.replace(function, upstream=(0, 1))
    made = ExecutorGraph((start, again, function, last))
    _, kept = _kept(compile_workflow(made, INPUTS, Path("/none")))
    assert kept.inputs == ("user", "age")


def test_who_else_reads_the_objects_of_a_function() -> None:
    """NVTabular makes them for each reader: what one changes in place, the others do not see.

    One reader alone is given the objects as they are, such as generators and rows that share them.
    """
    in_line = graph(AGE, KEPT[0], KEPT[0], KEPT[0], LOG)
    assert _others_read(in_line) == [False, False, False]
    first, second, third, last = in_line.nodes[1:]
    beside = dataclasses.replace(third, upstream=(first.number,))
    last = dataclasses.replace(last, upstream=(second.number, third.number))
    both = ExecutorGraph((in_line.nodes[0], first, second, beside, last))
    assert _others_read(both) == [False, True, True]


def _subgraph(*operators: Operator) -> Operator:
    inner = graph(AGE, *operators)
    return Operator("merlin.dag.ops.subgraph.Subgraph", "Subgraph", subgraph=inner)


def test_functions_inside_of_subgraphs() -> None:
    """They are kept at their paths; a Subgraph's frame is one for all of its operators."""
    inner = _subgraph(KEPT[0], LOG, KEPT[0])
    program = compiled(KEPT[0], _subgraph(inner, KEPT[0]), KEPT[0])
    assert [(kept.node, kept.shared_by) for kept in _kept(program)] == [
        ((1,), ("",)),
        ((2, 1, 1), (BESIDE,)),
        ((2, 1, 3), ("",)),
        ((2, 2), ("",)),
        ((3,), ("",)),
    ]
    assert program.operators == {"LogOp": 1}


def test_the_last_operator_of_a_subgraph_at_the_end_may_leave_no_rows() -> None:
    """Two Subgraphs may have one graph: the first one's operators are not the last."""
    twice = _subgraph(KEPT[0], _subgraph(operator("filter.Filter", f=None)))
    program = compiled(twice, twice)
    last = [step.is_last for step in program.steps if isinstance(step.operation, KeptNode)]
    assert last == [False, False, False, True]


def _own(*behind: Operator) -> ExecutorGraph:
    """An operator of one's own, and what comes behind it."""
    return graph(AGE, OWN, *behind)


def _not_beside(made: ExecutorGraph) -> tuple[str, ...] | None:
    return _kept(compile_workflow(made, INPUTS, Path("/none")))[0].not_beside


def test_what_nobody_reads_may_stand_beside_the_columns_of_the_schema() -> None:
    """An operator of one's own puts out its whole frame, and others read it by names."""
    assert _not_beside(_own(LOG)) == ()
    alone = operator("udf.UDF", "merlin.dag.ops", f=None, _param_count=1)
    assert _not_beside(_own(LOG, alone)) == ()


def test_nothing_may_stand_beside_where_a_function_sees_the_frame() -> None:
    """Through operators that pass on what they are given, and not through others."""
    beside = operator("udf.UDF", "merlin.dag.ops", f=None, _param_count=2)
    clip = operator("clip.Clip", min_value=0, max_value=None)
    for seeing in (beside, OWN, operator("filter.Filter", f=None)):
        assert _not_beside(_own(seeing, LOG)) is None
        assert _not_beside(_own(LOG, seeing)) is None
        assert _not_beside(_own(clip, seeing)) == ()


def test_nothing_else_may_stand_in_the_place_of_anothers_column() -> None:
    """Of columns with one name merlin-core takes the last; the request's only if nobody has it.

    What the operator was given itself may stand there, if it is unchanged.
    """
    start, own, log = _own(LOG).nodes
    names = ("age", "user")
    start = dataclasses.replace(start, inputs=names, columns_in=(AGE, USER), selection=names)
    changed = dataclasses.replace(log, upstream=(0,), inputs=names, selection=("user",))
    join = Operator("merlin.dag.ops.concat_columns.ConcatColumns", "ConcatColumns")
    joined = dataclasses.replace(log, number=3, operator=join, inputs=names, selection=names)
    seen = {}
    for upstream in ((0, 1), (1, 0), (1,), (2, 1), (1, 2)):
        last = dataclasses.replace(joined, upstream=upstream)
        made = compile_workflow(ExecutorGraph((start, own, changed, last)), INPUTS, Path("/none"))
        seen[upstream] = (_kept(made)[0].not_beside, _kept(made)[0].unchanged)
    assert seen == {
        (0, 1): ((), ("user",)),
        (1, 0): ((), ()),
        (1,): ((), ("user",)),
        (2, 1): (("user",), ()),
        (1, 2): ((), ()),
    }


@pytest.mark.parametrize(
    ("behind", "family"),
    [
        ((), NUMBER),
        ((LOG,), NUMBER),
        ((operator("fill.FillMissing", fill_val=1, add_binary_cols=True), LOG), NUMBER),
        ((operator("bucketize.Bucketize", boundaries={"age": [1]}, use_digitize=True),), NUMBER),
        ((operator("clip.Clip", min_value=0, max_value=None), LOG), "float"),
        ((operator("dropna.Dropna"), operator("clip.Clip", min_value=0, max_value=9)), "float"),
        ((operator("dropna.Dropna"), LOG), NUMBER),
    ],
    ids=lambda behind: behind if isinstance(behind, str) else "-".join(one.label for one in behind),
)
def test_numbers_of_either_kind(behind: tuple[Operator, ...], family: str) -> None:
    """Missing values make floats of whole numbers; where no step depends on it, both are taken."""
    steps = compiled(LOG, KEPT[0], *behind).steps
    taken = [step.operation for step in steps if isinstance(step.operation, TakeArray)]
    assert [operation.family for operation in taken] == [family]


def _others_read(made: ExecutorGraph) -> list[bool]:
    kept = _kept(compile_workflow(made, INPUTS, Path("/none")))
    return [shared for operation in kept for shared in operation.others_read]


def _kept(program: Program) -> list[KeptNode]:
    return [step.operation for step in program.steps if isinstance(step.operation, KeptNode)]


def test_texts_of_functions_may_be_missing() -> None:
    """An operator that is not compiled for missing ones leaves such requests to NVTabular."""
    for value, filling in (("none", "fill_texts"), (0, "none_left")):
        fill = operator("fill.FillMissing", fill_val=value, add_binary_cols=False)
        program = compiled(KEPT[0], fill, column=DRINK)
        assert [step.operation.name for step in program.steps] == ["kept", "take_array", filling]


def test_a_function_may_pass_on_the_lists_of_a_table() -> None:
    """Who changes one in place changes the table, whoever has handed it over."""
    nodes = _kept(of_table(ITEMS, (GENRES,), KEPT[0], KEPT[0], KEPT[0]))
    assert [node.shared_by[-1] for node in nodes] == [REQUESTS] * 3
