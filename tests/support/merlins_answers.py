"""What Merlin itself answered, beside an export: request.json and expected.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

#: The executor's own answers are float32; a sum in another order may differ in the last digits.
TOLERANCE = 1e-6


def check_numbers(export: Path, answer: dict[str, Any]) -> None:
    """An answer holds the outputs that Merlin computed offline, and no others. Else it fails."""
    expected = json.loads((export / "expected.json").read_text())["outputs"]
    got = {output["name"]: output for output in answer["outputs"]}
    assert sorted(got) == sorted(output["name"] for output in expected)
    for want in expected:
        output = got[want["name"]]
        assert (output["datatype"], output["shape"]) == (want["datatype"], want["shape"])
        assert output["data"] == pytest.approx(want["data"], rel=TOLERANCE)
