"""What the real tritonservers and their models printed, and what the log makes of it.

triton_lines/<version>.txt is their output as it came, but for the serving repository's path, which
is /work/serving, the widest table's columns, which are narrow, and `m.2`, which is written as it is
published now. Beside it, line for line but for those that say nothing, is what is expected: level,
source, logger, model, message. The models were `m1`, which prints and logs and raises, the ensemble
`m.2` of two steps, `bad`, which does not load, and `shop_1`; their stubs and tritonserver were
killed on the way.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from container.tritonserver.log_lines import TritonLines
from container.tritonserver.named_models import NamedModels

SAMPLES = Path(__file__).parent / "triton_lines"
SERVING = "/work/serving"
PUBLISHED = ("m1", "m=_2", "m=_2.add0", "m=_2.add1", "bad", "shop_1")
NAMES = sorted(path.stem for path in SAMPLES.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_lines(name: str, tmp_path: Path) -> None:
    """Of both versions, of both of their formats, with and without namespaces, and of a crash."""
    for model in PUBLISHED:
        (tmp_path / model).mkdir()
    lines = TritonLines(NamedModels(tmp_path).find)
    sample = (SAMPLES / f"{name}.txt").read_text().replace(SERVING, str(tmp_path))
    read = [line for raw in sample.splitlines() if (line := lines.read(raw))]
    found = [
        [
            line.level,
            line.source,
            line.logger,
            line.model,
            line.message.replace(str(tmp_path), SERVING),
        ]
        for line in read
    ]
    expected = (SAMPLES / f"{name}.jsonl").read_text().splitlines()
    assert found == [json.loads(row) for row in expected]


def test_all_samples_are_there() -> None:
    """Of the version that Merlin's image is nearest to, and of the wheel's."""
    assert {name.partition("-")[0] for name in NAMES} == {"2.36", "2.51"}
