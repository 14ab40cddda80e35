"""What is told of a comparison, and whether NEW may take OLD's place."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ensemble_tools.answers.exchange import Refusal, Reply, TensorAnswer, TensorRequest
from ensemble_tools.answers.targets import Target
from tests.unit.verification.answers import answer
from verification.ranking.bounds import parse_bound
from verification.ranking.tally import Tally
from verification.reports.ranking_json import to_ranking_json
from verification.reports.ranking_report import (
    ArchiveSide,
    RankingReport,
    make_asked,
    name_requests,
)
from verification.reports.ranking_text import write_ranking_lines


def scores(*values: float) -> TensorAnswer:
    return answer(p=np.array(values, dtype=np.float32))


def report(
    *replies: tuple[Reply, Reply], bounds: tuple[str, ...] = (), again: Reply | None = None
) -> RankingReport:
    """again: OLD's second answer to each request; None for its first."""
    tally, own = Tally(Target("p"), (1, 2, 3)), Tally(Target("p"), (1, 2, 3))
    asked = []
    for number, (old, new) in enumerate(replies, 1):
        request = TensorRequest(f"request {number}", {})
        asked.append(make_asked(request.title, old, new, again or old))
        if isinstance(old, TensorAnswer) and isinstance(new, TensorAnswer):
            tally.add(request, old, new)
            own.add(request, old, again if isinstance(again, TensorAnswer) else old)
    sides = (ArchiveSide("OLD", "a", "as delivered"), ArchiveSide("NEW", "b", "as delivered"))
    parsed = tuple(map(parse_bound, bounds))
    return RankingReport(*sides, tuple(asked), (tally,), (own,), (), (2,), parsed)


def printed(made: RankingReport) -> str:
    return "\n".join(write_ranking_lines(made))


def read(made: RankingReport) -> Any:
    return json.loads(to_ranking_json(made))


FALLING, TURNED = scores(3, 2, 1), scores(1, 2, 3)


def test_equal() -> None:
    """The same bits hold every bound, also one that no list is long enough for."""
    made = report((FALLING, FALLING), bounds=("overlap@10=1",))
    assert made.is_within
    assert printed(made).endswith("EQUAL: NEW's answers have the same bits as OLD's (1 request)")
    assert read(made)["targets"][0]["score_shift"]["largest"] == 0


def test_equal_but_for_what_both_refuse() -> None:
    """A request that nobody answers says nothing about answers, and breaks no bound."""
    refusals = (Refusal("no such row"), Refusal("no such row"))
    made = report((FALLING, FALLING), refusals, bounds=("overlap@10=1",))
    assert made.is_within
    assert printed(made).endswith("EQUAL: NEW's answers have the same bits as OLD's (1 request)")
    new_alone = report((FALLING, FALLING), (refusals[0], FALLING), bounds=("overlap@10=1",))
    assert not new_alone.is_within
    assert not report(refusals).is_within


def test_within() -> None:
    """Numbers differ, and no more than the bounds allow."""
    made = report((FALLING, scores(5, 3, 2)), bounds=("kendall=1", "overlap@2=1"))
    assert made.is_within
    assert printed(made).endswith("WITHIN: kendall=1, overlap@2=1")
    assert "mean +1.333, largest 2, quantiles 5 %: +1, 50 %: +1, 95 %: +1.9" in printed(made)
    without = replace(made, bounds=())
    assert without.is_within
    assert "no --at-least was given" in printed(without)


def test_a_bound_that_does_not_hold() -> None:
    """The figure and the bound are named."""
    made = report((FALLING, TURNED), (FALLING, FALLING), bounds=("same_first=0.9",))
    assert made.failures == ("p: same_first is 0.5000, and at least 0.9 is asked for",)
    assert "the first item changes in 50.00 % of 2 lists" in printed(made)
    found = read(made)
    assert (found["within"], found["failures"]) == (False, [*made.failures])
    assert found["targets"][0]["measures"]["kendall"]["lowest_request"] == "request 1"


def test_refusals() -> None:
    """Who refuses what, and whether it matters."""
    refusal = Refusal("in m: no such row")
    made = report((FALLING, refusal), (refusal, FALLING), (refusal, refusal), (FALLING, FALLING))
    assert made.failures == ("NEW refuses what OLD answers (request 1): in m: no such row",)
    text = printed(made)
    assert "requests  4: 1 answered by both, 1 of them with the same bits" in text
    assert "refused by OLD alone: 1: request 2\n    OLD: in m: no such row" in text
    assert "refused by both: 1: request 3\n    OLD: in m: no such row\n    NEW: in m:" in text
    assert report((refusal, FALLING), (FALLING, FALLING)).is_within
    nothing = report((refusal, refusal), bounds=("kendall=0",))
    assert nothing.failures == (
        "no request is answered by both, of 1",
        "both refuse request 1: OLD: in m: no such row; NEW: in m: no such row",
    )
    assert "\np: " not in printed(nothing)


@pytest.mark.parametrize(
    ("new", "failures"),
    [
        (answer(), ("p: OLD answers FP32 [3], NEW does not answer it (request 1 and 1 more)",)),
        (
            answer(p=np.array([3.0, 2, 1])),
            ("p: OLD answers FP32 [3], NEW FP64 [3] (request 1 and 1 more)",),
        ),
        (
            answer(p=np.array([[3], [2], [1]], dtype=np.float32)),
            ("p: OLD answers FP32 [3], NEW FP32 [3, 1] (request 1 and 1 more)",),
        ),
        (answer(p=np.array([3, 2, 1], dtype=np.float32), q=np.array([1.0])), ()),
    ],
)
def test_outputs_of_another_form(new: TensorAnswer, failures: tuple[str, ...]) -> None:
    """A caller that reads OLD's answers must be able to read NEW's; further outputs are told."""
    made = report((FALLING, new), (FALLING, new))
    assert made.failures[: len(failures)] == failures
    assert bool(failures) is not made.is_within
    if not failures:
        assert "output q: NEW alone answers it, FP64 [1] (request 1 and 1 more)" in printed(made)
    assert len(read(made)["outputs"]) == 1


def test_lists_of_other_rows() -> None:
    """They cannot be laid side by side, and so NEW may not take OLD's place."""
    made = report((FALLING, scores(2, 1)))
    assert made.failures == ("p: OLD scores 1 list of 3 items, NEW 1 list of 2 items (request 1)",)


def test_chance() -> None:
    """OLD that differs from itself is told, with the figures of its own two answers."""
    made = report((FALLING, FALLING), again=TURNED)
    text = printed(made)
    assert "OLD answers otherwise when it is asked again (request 1)" in text
    assert "kendall     1.0000  -1.0000    1.0000" in text
    assert read(made)["targets"][0]["old_again"]["kendall"]["mean"] == -1
    assert "again" not in printed(report((FALLING, FALLING)))


def test_nan() -> None:
    """How many scores are NaN is told of each archive; JSON has no word for such a figure."""
    made = report((FALLING, scores(float("nan"), 2, 1)))
    assert "NEW scores 1 item NaN: it has no place" in printed(made)
    assert read(made)["targets"][0]["nan_scores"] == {"old": 0, "new": 1}
    assert read(report((scores(1), scores(2))))["targets"][0]["measures"]["kendall"]["mean"] is None


def test_words_of_an_archive() -> None:
    """What a terminal would obey is shown escaped."""
    made = report((FALLING, Refusal("\x1b[2J")))
    assert "\x1b" not in printed(made)


def test_names_of_requests() -> None:
    """The first, and how many more; a request counts once."""
    assert name_requests(["a"]) == "a"
    assert name_requests(["a", "a", "b", "c"]) == "a and 2 more"
