"""A sample of random NVTabular workflows, compiled; `make fuzz-workflows` runs as many as asked."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.workflows.compare import BOTH_REFUSE, EQUAL, LEFT_WHOLE, REFUSALS, difference_of
from tests.workflows.compiled import OPERATORS
from tests.workflows.exchange import VARIANTS
from tests.workflows.run import MODELS_PYTHON, ROOT, Killed, Result, again, results

pytestmark = pytest.mark.thorough

#: In turn, so that a small sample has all that is compiled.
OPERATOR_LISTS = (
    "Categorify,Categorify combo",
    "Categorify,Categorify joint",
    "Categorify,Categorify buckets",
    "Categorify,Categorify single table",
    "Categorify,Categorify of lists,ValueCount",
    "Categorify,DropLowCardinality,AddMetadata",
    "Groupby,Groupby on two",
    "Groupby,Groupby in an order",
    "Groupby,ListSlice,ListSlice filled up",
    "TargetEncoding,TargetEncoding with folds",
    "JoinGroupby,JoinGroupby on two",
    "FillMissing,FillMedian,Clip,Bucketize",
    "LogOp,Normalize,NormalizeMinMax,ReduceDtypeSize",
    "HashBucket,HashedCross,DifferenceLag",
    "Dropna,Clip,FillMedian",
)
#: Those that graph.json has a form for.
WITH_A_FORM = (
    "Categorify,Categorify joint",
    "Categorify,Categorify buckets",
    "Categorify,Categorify single table",
    "Categorify,Categorify of lists,ListSlice",
    "TargetEncoding,TargetEncoding with folds",
    "JoinGroupby",
    "FillMissing,FillMedian",
    "Clip",
    "Bucketize,AddMetadata",
    "LogOp,Normalize,NormalizeMinMax",
    "HashBucket,Rename",
    "Dropna",
    "Subgraph,LambdaOp,Clip",
)
SAVED_TWICE = (8000, 8000 + 3 * len(WITH_A_FORM))
#: What runs in pandas, between what is compiled.
WITH_FUNCTIONS = (
    "LambdaOp,LogOp,FillMissing,Clip",
    "LambdaOp,Groupby,ListSlice,Normalize",
    "Filter,LogOp",
    "Own,Clip",
    "Subgraph,LambdaOp,Groupby",
    "Subgraph,Own,Filter,LambdaOp",
)
FUNCTIONS = (9000, 9000 + 8 * len(WITH_FUNCTIONS))
SEED = 30
COUNT = 5 * len(OPERATOR_LISTS)
#: JoinExternal, of whose random tables few are such that they are compiled.
WITH_TABLES = (
    "JoinExternal",
    "JoinExternal,JoinExternal of lists,Categorify,ListSlice,Dropna",
    "JoinExternal,JoinExternal with gaps,Categorify,FillMissing,HashBucket",
)
JOINED = (7000, 7000 + 4 * len(WITH_TABLES))


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """The cases: made and answered by NVTabular, compiled, and answered by the programs.

    Made again: python -m tests.workflows --seed SEED --cases COUNT, with --operators for each list.
    """
    directory = tmp_path_factory.mktemp("random-workflows")
    seeds = range(SEED, SEED + COUNT)
    parts = results(seeds, OPERATOR_LISTS, directory, cases_at_once=COUNT)  # one import for all
    joined = results(range(*JOINED), WITH_TABLES, directory, cases_at_once=COUNT)
    return [one for part in (*parts, *joined) for one in part if isinstance(one, Result)]


@pytest.fixture(scope="module")
def without_pickles(tmp_path_factory: pytest.TempPathFactory) -> list[Result]:
    """Workflows that are saved in both formats, with --graph-json: those of graph.json."""
    directory = tmp_path_factory.mktemp("without-pickles")
    seeds, count = range(*SAVED_TWICE), SAVED_TWICE[1] - SAVED_TWICE[0]
    parts = results(seeds, WITH_A_FORM, directory, cases_at_once=count, graph_json=True)
    return [one for part in parts for one in part if isinstance(one, Result)]


def test_both_formats_are_one_workflow(without_pickles: list[Result]) -> None:
    """What is compiled as a pickle is compiled as graph.json, and answers as NVTabular's operators.

    Some are compiled as graph.json alone: NVTabular saves `cat_cache=None` as its default.
    """
    assert not [f"{one.directory}: {line}" for one in without_pickles for line in one.bad]
    by_seed: dict[int, list[Result]] = {}
    for one in without_pickles:
        by_seed.setdefault(one.seed, []).append(one)
    assert len(by_seed) >= len(WITH_A_FORM)
    for pickled, other in by_seed.values():
        assert other.directory.name.startswith("json_")
        if pickled.compiled:
            assert pickled.outcome.operators == other.outcome.operators, other.directory


def test_every_operator_with_a_form_is_compared(without_pickles: list[Result]) -> None:
    """From graph.json; selections, concatenations and Subgraphs are around them."""
    compared: Counter[str] = Counter()
    for one in without_pickles:
        if one.compared and one.directory.name.startswith("json_"):
            compared.update(one.outcome.operators)
    assert {
        *("AddMetadata", "Bucketize", "Categorify", "Clip", "Dropna", "FillMedian", "FillMissing"),
        *("HashBucket", "JoinGroupby", "ListSlice", "LogOp", "Normalize", "NormalizeMinMax"),
        *("Rename", "TargetEncoding"),
    } <= {*compared}


def test_functions_in_the_middle(tmp_path: Path) -> None:
    """A program hands functions what NVTabular does, and goes on with what they answer.

    The functions see types, rows, index and other columns, make dates and objects, and change
    columns in place (users_code.py). Some stand in Subgraphs.
    """
    seeds, count = range(*FUNCTIONS), FUNCTIONS[1] - FUNCTIONS[0]
    parts = results(seeds, WITH_FUNCTIONS, tmp_path, cases_at_once=count)
    made = [one for part in parts for one in part if isinstance(one, Result)]
    assert not [f"{one.directory}: {line}" for one in made for line in one.bad]
    kept = [one for one in made if one.outcome.kept and one.compared]
    reasons = " ".join(reason for one in kept for reason in one.outcome.kept)
    assert {"LambdaOp", "Filter", "ByValue"} <= {*re.findall(r"(\w+) of ", reasons)}
    assert len(kept) >= count / 6


def test_an_operator_that_is_not_there(tmp_path: Path) -> None:
    """Its name is told: a run that makes no case must not look like one that found nothing."""
    with pytest.raises(Killed, match="no such operators: Clp; there are"):
        list(results(range(1, 2), ["Clp,LogOp"], tmp_path))


def test_lists_that_are_changed_for_others(tmp_path: Path) -> None:
    """A Subgraph's frame is made once for all of its operators: one sees what another one has
    changed. In tables later requests see it, too, also after a function that has failed."""
    program = ["-m", "tests.workflows.changed_lists", str(tmp_path)]
    subprocess.run([MODELS_PYTHON, *program], check=True, cwd=ROOT, capture_output=True)
    made = again([*tmp_path.iterdir()])
    assert not [f"{one.directory}: {line}" for one in made for line in one.bad]
    assert len(made) == 8
    for one in made:
        assert not one.compared
        whole = {outcome for outcome in one.requests if outcome.startswith(LEFT_WHOLE)}
        assert whole
        assert {*one.requests} - whole <= {BOTH_REFUSE}


def test_answers_are_nvtabulars(cases: list[Result]) -> None:
    """Every request has NVTabular's answer, bit for bit, or neither answers it.

    What is refused although NVTabular answers is like REFUSALS says.
    """
    bad = [f"{one.directory}: {line}" for one in cases for line in one.bad]
    assert not bad, "\n".join(bad)


def test_every_compiled_operator_is_compared(cases: list[Result]) -> None:
    """An operator that is in no program of the sample, or in none that answers, proves nothing."""
    compared: Counter[str] = Counter()
    for one in cases:
        if one.compared:
            compared.update((*one.outcome.operators, *one.outcome.variants))
    assert not {*OPERATORS, *VARIANTS} - {*compared}


def test_most_requests_are_answered(cases: list[Result]) -> None:
    """Two sides that refuse prove little, and so does a compiler that does.

    Nor does a program that leaves requests to NVTabular.
    """
    assert len(cases) >= COUNT * 0.95
    assert sum(one.compiled for one in cases) >= COUNT * 0.6
    requests = sum((one.requests for one in cases), Counter[str]())
    left = sum(count for how, count in requests.items() if how.startswith(LEFT_WHOLE))
    assert left <= requests.total() * 0.05
    assert requests[EQUAL] + left >= requests.total() * 0.75


@pytest.mark.parametrize(
    "found",
    [
        {"x": np.array([1.0, 2.0], "float32")},
        {"x": np.array([-0.0, np.nan], "float32")},
        {"x": np.array([0.0, np.nan], "float64")},
        {"x": np.array([[0.0], [np.nan]], "float32")},
        {"y": np.array([0.0, np.nan], "float32")},
        {},
    ],
)
def test_differences_are_seen(found: dict[str, object]) -> None:
    """A value, the sign of a zero, a type, a shape, a name."""
    expected = {"x": np.array([0.0, np.nan], "float32")}
    assert difference_of(expected, dict(expected)) == ""
    assert difference_of(expected, found)


def test_refusals_are_bound_to_their_requests() -> None:
    """What is refused by design is of the kind that its reason names."""
    rows, none = {"x": np.zeros(2), "y": np.zeros(2)}, {"x": np.zeros(0), "y": np.zeros(0)}
    uneven = {"x": np.zeros(2), "y__values": np.zeros(9), "y__offsets": np.array([0, 9])}
    answer = {"z": np.zeros(1)}
    assert not any(holds(rows, answer) for holds in REFUSALS.values())
    assert REFUSALS["columns are of one length"](uneven, answer)
    assert REFUSALS["Dropna leaves none"](rows, none)
