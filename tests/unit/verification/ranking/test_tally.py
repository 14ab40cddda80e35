"""Lists of two answers are laid side by side, item by item, and summed up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ensemble_tools.answers.exchange import TensorAnswer, TensorRequest
from ensemble_tools.answers.targets import Target
from tests.unit.verification.answers import answer
from verification.ranking.bounds import list_broken, parse_bound
from verification.ranking.tally import KENDALL, SAME_FIRST, SPEARMAN, Tally

NAN = math.nan


def scores(values: Any) -> TensorAnswer:
    return answer(p=np.array(values, dtype=np.float32))


def listed(ids: list[int], values: list[float] | None = None) -> TensorAnswer:
    named = {"ids": np.array(ids, dtype=np.int64)}
    return answer(**named, **({"p": np.array(values)} if values is not None else {}))


def tally(
    target: Target,
    *answers: tuple[TensorAnswer, TensorAnswer],
    requests: Sequence[TensorAnswer] = (),
) -> Tally:
    """requests: their inputs; no input for none."""
    made = Tally(target, (1, 2, 3, 10))
    for number, (old, new) in enumerate(answers, 1):
        inputs = requests[number - 1].tensors if requests else {}
        made.add(TensorRequest(f"request {number}", inputs), old, new)
    made.close()
    return made


def means(made: Tally) -> dict[str, float]:
    return {name: made.summarize(name).mean for name in made.measures}


def test_candidates() -> None:
    """Two requests by hand: the mean, the lowest, where it was, and the shift of the scores."""
    made = tally(
        Target("p"),
        (scores([4, 3, 2, 1]), scores([4, 3, 1, 2])),
        (scores([1, 2]), scores([2.5, 1])),
    )
    assert means(made) == {
        SAME_FIRST: 0.5,
        "overlap@1": 0.5,
        "overlap@2": 1.0,
        "overlap@3": pytest.approx(2 / 3),
        "overlap@10": pytest.approx(NAN, nan_ok=True),
        KENDALL: pytest.approx((2 / 3 - 1) / 2),
        SPEARMAN: pytest.approx((0.8 - 1) / 2),
    }
    assert [made.summarize(f"overlap@{k}").lists for k in (1, 2, 3, 10)] == [2, 1, 1, 0]
    kendall = made.summarize(KENDALL)
    assert (kendall.lowest, kendall.lowest_request) == (-1.0, "request 2")
    shift = made.shifts.summarize()
    assert shift is not None
    assert (shift.items, shift.largest) == (6, 1.5)
    assert shift.mean == pytest.approx(0.5 / 6)
    assert shift.quantiles[3] == 0.0


def test_a_catalogue_in_each_row() -> None:
    """[2, 3] is two lists of three items."""
    made = tally(Target("p"), (scores([[1, 2, 3], [3, 2, 1]]), scores([[1, 2, 3], [1, 2, 3]])))
    assert (made.lists, made.shortest, made.longest) == (2, 3, 3)
    assert means(made)[KENDALL] == 0.0


def test_lists_in_the_order_of_the_answer() -> None:
    """Items of one list alone rank behind the other's; scores shift where both have the item."""
    made = tally(
        Target("p", "ids"), (listed([1, 2, 3], [0.9, 0.8, 0.7]), listed([2, 1, 4], [0.9, 0.5, 0.4]))
    )
    found = means(made)
    # Of 6 pairs of the items 1, 2, 3, 4: (1, 2) is turned, and (3, 4) too.
    assert found[KENDALL] == pytest.approx((4 - 2) / 6)
    assert [found[f"overlap@{k}"] for k in (1, 2, 3, 10)] == [0, 1, 2 / 3, 2 / 3]
    shift = made.shifts.summarize()
    assert shift is not None
    assert shift.items == 2
    assert shift.largest == pytest.approx(0.4)


def test_lists_of_other_lengths() -> None:
    """Places that one archive leaves empty are no common ones."""
    made = tally(Target(None, "ids"), (listed([1, 2, 3, 4]), listed([1, 2])))
    assert means(made)["overlap@3"] == pytest.approx(2 / 3)
    assert means(made)["overlap@10"] == 0.5
    made = tally(Target(None, "ids"), (listed([1, 2]), listed([])))
    assert means(made)["overlap@2"] == means(made)[KENDALL] == 0.0
    assert tally(Target(None, "ids"), (listed([]), listed([]))).summarize("overlap@2").lists == 0


def test_ids_that_name_candidates() -> None:
    """The same ids at the same places everywhere, and scores that rise once: the scores rank."""
    falling, rising = listed([7, 8, 9], [0.9, 0.5, 0.1]), listed([7, 8, 9], [0.1, 0.5, 0.9])
    made = tally(Target("p", "ids"), (falling, falling), (falling, rising))
    assert (means(made)[KENDALL], made.is_listed) == (0.0, False)
    assert made.summarize("overlap@10").lists == 0
    made = tally(Target("p", "ids"), (falling, falling))
    assert (made.is_listed, made.summarize("overlap@10").mean) == (True, 1.0)


def test_ids_of_the_request() -> None:
    """They name candidates even where all scores fall; a bound is not held by them alone."""
    falling = listed([7, 8, 9], [0.9, 0.5, 0.1])
    target, asked = Target("p", "ids"), [answer(item=np.array([[7], [8], [9]]))]
    made = tally(target, (falling, falling), requests=asked)
    assert (made.is_listed, made.summarize("overlap@10").lists) == (False, 0)
    made = tally(target, (falling, listed([8, 7, 9], [0.9, 0.5, 0.1])), requests=asked)
    assert (made.is_listed, means(made)[SAME_FIRST]) == (True, 0.0)


def test_one_id_in_each_list() -> None:
    """The best item of each user."""
    target, first, second = Target("p", "ids"), listed([7], [0.5]), listed([8], [0.5])
    made = tally(target, (first, first), (first, second))
    assert means(made)[SAME_FIRST] == 0.5
    assert (made.shortest, made.longest) == (1, 1)


def test_rows_of_several_users() -> None:
    """The rows of each user are a list: between users nothing is ranked."""
    old, new = scores([5, 1, 4, 2, 3]), scores([0.1, 0.9, 0.2, 0.95, 0.15])
    request = TensorRequest("r", answer(user=np.array([[7], [8], [7], [8], [7]])).tensors)
    made = Tally(Target("p"), (1, 2), user="user")
    made.add(request, old, new)
    made.close()
    # User 7 had 5, 4, 3 and has .1, .2, .15; user 8 had 1, 2 and has .9, .95.
    assert (made.lists, made.shortest, made.longest) == (2, 2, 3)
    assert means(made)[KENDALL] == pytest.approx((-1 / 3 + 1) / 2)
    assert means(made)[SAME_FIRST] == 0.5
    made.add(request, scores([1, 2]), scores([1, 2]))
    assert made.mismatches == [("r", "the request names 5 users of 2 scores")]
    for rows in (1, 3, 4):
        catalogue = scores(np.ones((rows, 4)))
        made = Tally(Target("p"), user="user")
        made.add(TensorRequest("r", answer(user=np.arange(rows)).tensors), catalogue, catalogue)
        assert (made.lists, made.longest, made.mismatches) == (rows, 4, [])


def test_ids_that_repeat() -> None:
    """The first place counts, and it is told."""
    made = tally(Target(None, "ids"), (listed([1, 2, 1]), listed([1, 2])))
    assert (means(made)[KENDALL], made.repeats) == (1.0, 1)


def test_an_id_that_repeats_within_the_first_places() -> None:
    """The place that it has again is no other item's: callers show [1, 1] where 2 was asked for."""
    made = tally(Target(None, "ids"), (listed([1, 1, 2]), listed([1, 2, 3])))
    figures = means(made)
    assert (figures["overlap@1"], figures["overlap@2"]) == (1.0, 0.5)
    assert figures["overlap@3"] == pytest.approx(2 / 3)


def test_rows_without_a_user() -> None:
    """Those whose user is NaN are one list, and none is left out."""
    request = TensorRequest("r", answer(user=np.array([NAN, 7, NAN, 7, NAN])).tensors)
    made = Tally(Target("p"), user="user")
    made.add(request, scores([5, 1, 4, 2, 3]), scores([5, 1, 4, 2, 3]))
    assert (made.lists, made.shortest, made.longest) == (2, 2, 3)


def test_scores_that_are_nan() -> None:
    """They have no place, so that a model that answers NaN holds no bound."""
    made = tally(Target("p"), (scores([3, 2, 1]), scores([NAN, NAN, NAN])))
    assert means(made) == {
        **dict.fromkeys((SAME_FIRST, KENDALL, SPEARMAN), 0.0),
        **{f"overlap@{k}": 0.0 for k in (1, 2, 3, 10)},
    }
    assert made.nans == (0, 3)
    assert made.shifts.summarize() is None


def test_scores_that_are_infinite_or_nearly_so() -> None:
    """They rank, and no shift is told of them."""
    old, new = (answer(p=np.array(values)) for values in ([1e308, 1.0, NAN], [-1e308, 2.0, 3.0]))
    made = tally(Target("p"), (old, new))
    shift = made.shifts.summarize()
    assert shift is not None
    assert (shift.items, shift.largest) == (1, 1.0)
    assert means(made)[SAME_FIRST] == 0.0


@pytest.mark.parametrize(
    ("target", "old", "new", "reason"),
    [
        (
            Target("p"),
            scores([1, 2, 3]),
            scores([1, 2]),
            "OLD scores 1 list of 3 items, NEW 1 list of 2 items",
        ),
        (Target("p"), scores([1, 2]), listed([1, 2]), "NEW does not answer p"),
        (
            Target(None, "ids"),
            answer(ids=np.zeros((2, 3), dtype=np.int32)),
            answer(ids=np.zeros((1, 3), dtype=np.int32)),
            "OLD lists 2 lists of 3 items, NEW 1 list of 3 items",
        ),
        (
            Target("p", "ids"),
            listed([1, 2], [1.0, 2.0]),
            listed([1, 2], [1.0]),
            "p and ids are not of one shape",
        ),
    ],
)
def test_lists_that_cannot_be_laid_side_by_side(
    target: Target, old: TensorAnswer, new: TensorAnswer, reason: str
) -> None:
    """They are told, and not counted."""
    made = tally(target, (old, new))
    assert made.mismatches == [("request 1", reason)]
    assert made.lists == 0


def test_bounds() -> None:
    """Of the mean; a measure that no list has holds no bound."""
    made = tally(Target("p"), (scores([4, 3, 2, 1]), scores([4, 3, 1, 2])))

    def broken(*texts: str) -> list[str]:
        return [*list_broken([parse_bound(text) for text in texts], [made])]

    assert broken("overlap@2=1", "overlap@3=0.66", "kendall=0.6", "same_first=1") == []
    assert broken("overlap@3=0.7") == ["p: overlap@3 is 0.6667, and at least 0.7 is asked for"]
    assert broken("same_first=1", "overlap@3=0.66667") == [
        "p: overlap@3 is 0.666667, and at least 0.66667 is asked for"
    ]
    assert broken("overlap@10=0") == [
        "p: nothing was measured for overlap@10=0: no list has more than 10 candidates"
    ]
    assert [*list_broken([parse_bound("kendall=0")], [Tally(Target("p"))])] == [
        "p: nothing was measured for kendall=0: no list could be compared"
    ]


def test_a_bound_that_is_met_exactly() -> None:
    """16, 12 and 20 of 20 places are .8 of them, whatever the sum of three floats is."""
    made = Tally(Target(None, "ids"), (20,))
    for same in (16, 12, 20):
        old, new = [*range(20)], [*range(same), *range(100, 120 - same)]
        made.add(TensorRequest("r", {}), listed(old), listed(new))
    made.close()
    assert [*list_broken([parse_bound("overlap@20=0.8")], [made])] == []
    assert [*list_broken([parse_bound("overlap@20=0.800001")], [made])] != []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ndcg@10=0.5", "found the measure 'ndcg@10', expected one of overlap@K"),
        ("overlap=0.5", "found the measure 'overlap'"),
        ("overlap@0=0.5", "found the measure 'overlap@0'"),
        ("overlap@9999999=0.5", "K from 1 to 1000000"),
        ("overlap@10", "'overlap@10': found no bound, expected a number from 0 to 1, as in "),
        ("kendall=", "found '', expected a number from -1 to 1, as in kendall=0.8"),
        ("overlap@10=1.5", "found '1.5', expected a number from 0 to 1"),
        ("kendall=nan", "found 'nan', expected a number from -1 to 1"),
        ("same_first=-0.1", "expected a number from 0 to 1"),
    ],
)
def test_bounds_that_are_none(text: str, sentence: str) -> None:
    """What was found, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        parse_bound(text)
