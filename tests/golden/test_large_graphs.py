"""Graphs of 500 operators are planned in a second; operators and types that nobody has seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import (
    ArchiveError,
    ConfigIncomplete,
    ConfigUnreadable,
    GraphNotExpressible,
    GraphNotServable,
)
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, Form, Rewrite, plan_archive
from tests.golden.archives import PREDICTOR, Graph, Step, column
from tests.golden.cases import CLICK, USER, Case, keeps_names, predictor, workflow

OPERATORS = 500
UNSEEN = "shop.operators.Novel"


def deep(operators: int) -> Case:
    """Workflows in a row, and a predictor behind them."""
    graph = Graph()
    node = graph.select(USER)
    steps = [workflow(f"{number}_w", (USER,), user="user + 1") for number in range(operators - 2)]
    for step in steps:
        node = graph.call(step, node)
    last = predictor(f"{operators}_p", (USER,), CLICK, "user * 0.5")
    graph.call(last, node)
    return Case(graph.done(), (*steps, last), (USER,))


def wide(operators: int) -> Case:
    """Workflows side by side, each on its own column, into one predictor."""
    graph, called = Graph(), []
    columns = [column(f"c{number}") for number in range((operators - 2) // 2)]
    steps = [workflow(f"{number}_w", (one,)) for number, one in enumerate(columns)]
    for step, one in zip(steps, columns, strict=True):
        called.append(graph.call(step, graph.select(one)))
    last = predictor(f"{operators}_p", columns, CLICK, "c0 * 0.5")
    graph.call(last, graph.concat(*called))
    return Case(graph.done(), (*steps, last), tuple(columns))


def joined(operators: int) -> Case:
    """Sums in a row, each of all that is before it: `a + b + ...` as people write it."""
    graph = Graph()
    columns = [column(f"c{number}") for number in range((operators - 1) // 2)]
    node = graph.select(columns[0])
    for one in columns[1:]:
        node = graph.concat(node, graph.select(one))
    last = predictor("p", columns, CLICK, "c0 * 0.5")
    graph.call(last, node)
    return Case(graph.done(), (last,), tuple(columns))


@pytest.mark.slow
@pytest.mark.parametrize("make", [deep, wide, joined])
def test_planned_in_a_second(make: Callable[[int], Case], tmp_path: Path) -> None:
    """The time is the plan's own: the archive is read before. It is the least of three tries."""
    case = make(OPERATORS)
    assert OPERATORS - 4 <= len(case.graph.nodes) <= OPERATORS
    case.write(tmp_path)
    repository = read_repository(tmp_path)
    taken = []
    for _ in range(3):
        started = time.process_time()
        made = plan_archive(repository, case.graph, Namespace("model"))
        taken.append(time.process_time() - started)
        assert made.form is Form.PURE_ENSEMBLE
        assert len(made.models) == len(case.steps) + 1
    assert min(taken) < 1.0, taken


def test_unseen_operator(tmp_path: Path) -> None:
    """A class of a user's own may call models itself: the executor runs it; the plan says why."""
    graph = Graph()
    first = workflow("0_w", (USER,))
    last = predictor("1_p", (USER,), CLICK, "user * 0.5")
    graph.call(last, graph.inline(UNSEEN, graph.call(first, graph.select(USER))))
    made = Case(graph.done(), (first, last), (USER,)).plan(tmp_path)
    assert made.form is Form.EXECUTOR
    assert made.reasons == (
        "Novel, column 'user': this inline operator may call the model 0_w by itself, which only "
        "the executor lets it do",
    )
    assert made.called == ("model.0_w", "model.1_p")


def test_unseen_operator_where_no_step_does(tmp_path: Path) -> None:
    """Where an ensemble cannot have that step the executor is served, or the refusal says why."""
    graph = Graph()
    step = workflow("0_w", (USER,))
    graph.call(step, graph.inline(UNSEEN, graph.select(USER)))
    case = Case(graph.done(), (step,), (USER,))
    made = case.plan(tmp_path)
    assert made.form is Form.EXECUTOR
    assert made.reasons[0].startswith("Novel, column 'user': this inline operator may call")
    with pytest.raises(GraphNotExpressible, match=r"Novel, column 'user': .*; "):
        plan_archive(
            read_repository(tmp_path),
            case.graph,
            Namespace("model"),
            Choices(rewrite=Rewrite.ENSEMBLE),
        )


@pytest.mark.parametrize("dtype", ["bfloat16", "decimal128", "", "x\n" * 400])
def test_unknown_data_type_in_a_schema(dtype: str, tmp_path: Path) -> None:
    """Where a schema's type says nothing to Triton, the configs' types count: they agree here."""
    keeps_names().write(tmp_path)
    graph, odd = Graph(), (column("user", dtype), column("item"))
    first = Step("0_workflow", odd, odd)
    last = Step("1_predict", odd, (CLICK,), class_name=PREDICTOR)
    graph.call(last, graph.call(first, graph.select(*odd)))
    made = plan_archive(read_repository(tmp_path), graph.done(), Namespace("model"))
    assert made.form is Form.PURE_ENSEMBLE
    assert dtype == "" or all(dtype not in (model.config_text or "") for model in made.models)


@pytest.mark.parametrize(
    ("data_type", "error", "says"),
    [
        ("TYPE_BF16", GraphNotServable, "column 'user': .* the model's config has TYPE_BF16"),
        ("99", GraphNotServable, "column 'user': .* the model's config has data type 99"),
        ("TYPE_FOO", ConfigUnreadable, "config.pbtxt:3: .* no value named TYPE_FOO"),
        ("TYPE_INVALID", ConfigIncomplete, r"`input\['user'\]\.data_type` is missing"),
    ],
)
@pytest.mark.parametrize("model", ["0_workflow", "1_predict"])
def test_unknown_data_type_in_a_config(
    model: str, data_type: str, error: type[ArchiveError], says: str, tmp_path: Path
) -> None:
    """A type that nobody sends, or that Triton does not know, is refused with the reason."""
    case = keeps_names()
    config = case.write(tmp_path) / model / "config.pbtxt"
    config.write_text(config.read_text().replace("TYPE_INT64", data_type, 1))
    with pytest.raises(error, match=says) as refused:
        case.planned(tmp_path)
    assert len(str(refused.value).splitlines()) == 1
