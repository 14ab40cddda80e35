"""What Merlin's executor fails on is refused, with operator, column, reason and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from ensemble_tools.errors import GraphNotServable, PayloadMissing
from tests.golden.cases import keeps_names
from tests.golden.refusals import REFUSALS


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name: str, tmp_path: Path) -> None:
    """The message names the graph's file, the operator, its columns, why, and what to do."""
    refusal = REFUSALS[name]()
    with pytest.raises(GraphNotServable) as error:
        refusal.case.plan(tmp_path)
    assert (error.value.operator, error.value.columns) == (refusal.operator, refusal.columns)
    message = str(error.value)
    assert message.startswith(str(tmp_path / "executor_model/1/ensemble/ensemble.pkl"))
    assert refusal.reason in message
    assert refusal.remedy in message


def test_untraced_model(tmp_path: Path) -> None:
    """Case 10: a predictor whose model.pt is a directory is refused with the word `trace`."""
    case = keeps_names()
    case.write(tmp_path)
    config = tmp_path / "1_predict/config.pbtxt"
    config.write_text(config.read_text().replace('backend: "python"', 'backend: "pytorch"'))
    (tmp_path / "1_predict/1/model.pt").mkdir()
    with pytest.raises(PayloadMissing, match=r"model\.pt: it is a directory.*trace the model"):
        case.planned(tmp_path)
