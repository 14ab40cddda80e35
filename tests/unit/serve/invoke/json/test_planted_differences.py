"""What the comparison with tritonserver (tests/json_requests) must see is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.json_requests.compare import difference
from tests.json_requests.served import RawAnswer

#: As tritonserver writes it, and the container after it.
ANSWER = RawAnswer(
    200,
    {"content-type": "application/json"},
    b'{"model_name":"flat","model_version":"1","outputs":['
    b'{"name":"OUT_FP64","datatype":"FP64","shape":[2],"data":[0.5,0.25]},'
    b'{"name":"OUT_BYTES","datatype":"BYTES","shape":[1],"data":["a"]}]}',
)


def test_an_answer_is_its_own_like() -> None:
    assert difference(ANSWER, ANSWER) is None


@pytest.mark.parametrize(
    ("written", "planted"),
    [
        (b"0.25", b"0.25000000000000006"),
        (b"0.5", b"-0.5"),
        (b"0.5,0.25", b"0.25,0.5"),
        (b"0.25", b'"0.25"'),
        (b"0.25", b"NaN"),
        (b"[0.5,0.25]", b"[0.5]"),
        (b'"a"', b'"b"'),
        (b'FP64","shape', b'FP32","shape'),
        (b'"shape":[2]', b'"shape":[1,2]'),
        (b"OUT_BYTES", b"OUT_BITES"),
        (b'"model_version":"1"', b'"model_version":"2"'),
        (b'"model_version":"1",', b""),
        (b'"data"', b'"parameters":{"x":1},"data"'),
        (b'{"name":"OUT_BYTES"', b'{"name":"OUT_BYTES","name":"OUT_BYTES"'),
    ],
)
def test_planted_differences_are_seen(written: bytes, planted: bytes) -> None:
    """A value, a type, a shape or a name that is not tritonserver's is a difference."""
    assert ANSWER.body.count(written)
    changed = replace(ANSWER, body=ANSWER.body.replace(written, planted, 1))
    assert difference(ANSWER, changed) is not None


def test_another_content_type_is_seen() -> None:
    typed = replace(ANSWER, headers={"content-type": "application/octet-stream"})
    assert difference(ANSWER, typed) is not None
