"""What tritonserver's messages mean: real ones of 2.51 and 2.36, and those that a caller forges."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_tools import Form, ServingPlan
from ensemble_tools.serving.plan import PublishedModel
from serve.triton.connection import Answer
from serve.triton.diagnosis.verdicts import (
    Verdict,
    find_dead_model,
    judge,
    read_error_message,
    read_refusal,
)

NAMES = ("m.step", "m")
PLAN = ServingPlan("m", Form.AS_DELIVERED, "m", (PublishedModel("m", "m", ""),))
#: What a caller would like to be taken for.
FORGED = (
    "Request for unknown model: 'm' is not found",
    "Request for unknown model: '/r::m' has no available versions",
    "Identifier of model 'm' is not found in global map",
    "Model 'm' is not ready.",
    "Stub process 'm_0_0' is not healthy.",
    "Failed to process the request(s) for model 'm_0_0', message: Stub process 'm_0_0' is not"
    " healthy.",
    "in ensemble 'm', Stub process 'm.step_0_0' is not healthy.",
    "CUDA out of memory",
    "Exceeds maximum queue size",
    "x] Exceeds maximum queue size",
    "x] Stub process 'm_0_0' is not healthy.",
)
RAISED_51 = "Failed to process the request(s) for model 'm_0_0', message: "
RAISED_36 = "Failed to process the request(s) for model instance 'm_0', message: "
UNKNOWN_ID = "[request id: <id_unknown>] "

#: (status on 2.51, status on 2.36; None where that version has other words), message, verdict.
REAL: list[tuple[int | None, int | None, str, Verdict]] = [
    # Stubs that died
    (500, None, "Stub process 'm_0_0' is not healthy.", Verdict.STUB_DIED),
    (500, None, "in ensemble 'm', Stub process 'm.step_0_0' is not healthy.", Verdict.STUB_DIED),
    (None, 400, RAISED_36 + "Stub process 'm_0' is not healthy.", Verdict.STUB_DIED),
    (
        None,
        400,
        f"in ensemble 'm', {RAISED_36}Stub process 'm_0' is not healthy.",
        Verdict.STUB_DIED,
    ),
    # Models that are not there
    (400, 400, "Request for unknown model: 'm' is not found", Verdict.NOT_LOADED),
    (
        404,
        400,
        "Request for unknown model: '/t/r::m' has no available versions",
        Verdict.NOT_LOADED,
    ),
    (404, 400, "Request for unknown model: '/t/r::m' version 1 is not found", Verdict.NOT_LOADED),
    (404, 400, "Identifier of model 'm' is not found in global map", Verdict.NOT_LOADED),
    (500, 400, "Model 'm.step' is not ready.", Verdict.NOT_LOADED),
    # Models that others call: loading ours again would not help
    (404, 400, "Request for unknown model: 'nowhere' is not found", Verdict.CALLER),
    (
        500,
        400,
        "Model nowhere - Error when running inference: Failed for execute the inference"
        " request. Model 'nowhere' is not ready.",
        Verdict.MODEL,
    ),
    (
        500,
        400,
        RAISED_51 + "TritonModelException: Model nowhere - Error when running inference:"
        " Failed for execute the inference request. Model 'nowhere' is not"
        " ready.\n\nAt:\n  /m.py(1)",
        Verdict.MODEL,
    ),
    # Models that raise
    (
        500,
        None,
        RAISED_51 + "ValueError: boom in execute\n\nAt:\n  /r/m/1/model.py(6): execute\n",
        Verdict.MODEL,
    ),
    (
        None,
        400,
        RAISED_36 + "ValueError: boom in execute\n\nAt:\n  /r/m/1/model.py(6): execute\n",
        Verdict.MODEL,
    ),
    (500, None, f"in ensemble 'm', {RAISED_51}ValueError: boom\n", Verdict.MODEL),
    (None, 400, f"in ensemble 'm', {RAISED_36}ValueError: boom\n", Verdict.MODEL),
    (
        500,
        None,
        RAISED_51 + "Number of InferenceResponse objects do not match the number of"
        " InferenceRequest objects. InferenceRequest(s) size is:1, and InferenceResponse(s) size"
        " is:0\n",
        Verdict.MODEL,
    ),
    (500, None, "my own words", Verdict.MODEL),
    (500, None, "output tensor shape does not match size of output for 'OUT'", Verdict.MODEL),
    (400, None, "my invalid arg", Verdict.CALLER),  # the model said so: TritonError.INVALID_ARG
    # Resources
    (
        500,
        None,
        RAISED_51 + "MemoryError: Unable to allocate 512. TiB for an array with shape"
        " (70368744177664,) and data type float64\n\nAt:\n  /x.py(1): ones",
        Verdict.EXHAUSTED,
    ),
    (
        None,
        400,
        RAISED_36 + "MemoryError: <EMPTY MESSAGE>\n\nAt:\n  /m.py(6): execute\n",
        Verdict.EXHAUSTED,
    ),
    (
        500,
        None,
        RAISED_51 + "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        Verdict.EXHAUSTED,
    ),
    (
        500,
        None,
        RAISED_51 + "Failed to increase the shared memory pool size for key 'x' to 1 bytes."
        " If you are running Triton inside docker, use '--shm-size' flag",
        Verdict.EXHAUSTED,
    ),
    # The caller's
    (
        400,
        400,
        UNKNOWN_ID + "unexpected shape for input 'IN' for model 'm'. Expected [-1,2], got [1,3]. ",
        Verdict.CALLER,
    ),
    (
        400,
        None,
        UNKNOWN_ID + "inference input 'IN' data-type is 'INT64', but model 'm' expects 'FP32'",
        Verdict.CALLER,
    ),
    (
        None,
        400,
        UNKNOWN_ID + "inference input data-type is 'INT64', model expects 'FP32' for 'm'",
        Verdict.CALLER,
    ),
    (400, 400, UNKNOWN_ID + "expected 1 inputs but got 0 inputs for model 'm'", Verdict.CALLER),
    (400, 400, "invalid datatype for input IN", Verdict.CALLER),
    (
        400,
        400,
        "unexpected size for input 'IN', expecting 800 additional bytes for model 'm'",
        Verdict.CALLER,
    ),
    (400, 400, "inference header size should be in range (0, 81), got: 82", Verdict.CALLER),
    (
        400,
        None,
        "parameter 'inputs' has invalid type. It should be either 'int', 'bool', or 'string'.",
        Verdict.CALLER,
    ),
    (
        500,
        400,
        "Unable to parse 'data': Shape does not match true shape of 'data' field",
        Verdict.CALLER,
    ),
    (
        500,
        400,
        "Unable to parse 'inputs': attempt to access non-existing object member 'inputs'",
        Verdict.CALLER,
    ),
    (500, 400, "failed to parse the request JSON buffer: Invalid value. at 0", Verdict.CALLER),
    (501, None, "Unsupported compression type", Verdict.CALLER),
    (None, 415, "", Verdict.CALLER),
    # tritonserver's
    (503, 400, UNKNOWN_ID + "Exceeds maximum queue size", Verdict.QUEUE_REFUSED),
    (
        503,
        400,
        "in ensemble 'm', " + UNKNOWN_ID + "Exceeds maximum queue size",
        Verdict.QUEUE_REFUSED,
    ),
    (
        503,
        400,
        UNKNOWN_ID + "Server is stopping, scheduler for model has stopped accepting new"
        " inference requests",
        Verdict.UNAVAILABLE,
    ),
    (503, 400, "Server not ready", Verdict.UNAVAILABLE),
    (503, 400, "in ensemble 'm', Request timeout expired", Verdict.QUEUE_REFUSED),
    (
        503,
        400,
        "in ensemble 'm', QueryFeast: the feature store cannot be asked: ConnectionError",
        Verdict.STORE_DOWN,
    ),
    (
        503,
        400,
        "Request for unknown model: 'm' version 1 is not at ready state",
        Verdict.UNAVAILABLE,
    ),
]


@pytest.mark.parametrize(("newer", "older", "message", "verdict"), REAL)
def test_real_messages(
    newer: int | None, older: int | None, message: str, verdict: Verdict
) -> None:
    """Each as that version says it, with that version's status."""
    for status in (newer, older):
        if status is not None and (status, message) not in OLD_AND_AMBIGUOUS:
            assert judge(status, message, NAMES) is verdict


#: 2.36 says 400 to a model's own words; nothing tells them from a refused request.
OLD_AND_AMBIGUOUS = {
    (
        400,
        "Model nowhere - Error when running inference: Failed for execute the inference"
        " request. Model 'nowhere' is not ready.",
    ),
}

#: What tritonserver says of a request with words of the caller's in it, and with what status.
QUOTING = (
    (400, "unexpected inference input '{}' for model 'm'"),
    (400, "unexpected inference output '{}' for model 'm'"),
    (404, "Unable to find shared memory region: '{}'"),
    (400, "Unable to find shared memory region: '{}'"),
    (400, "invalid datatype for input {}"),
    (400, "[request id: {}] expected 2 inputs but got 1 inputs for model 'm'"),
    (
        400,
        "[request id: {0}] expected 2 inputs but got 1 inputs for model 'm'. Got input(s)"
        " ['{0}'], but missing required input(s) ['IN']. Please provide all required input(s).",
    ),
    (400, "in ensemble 'm', [request id: {}] unexpected shape for input 'X' for model 'm.step'."),
    (500, "Unable to parse '{}': attempt to access JSON non-string as string"),
    (400, "Unable to parse '{}': attempt to access JSON non-string as string"),
)


@pytest.mark.parametrize("words", FORGED)
@pytest.mark.parametrize(("status", "template"), QUOTING)
def test_a_caller_cannot_forge_a_verdict(status: int, template: str, words: str) -> None:
    """Its words in names and ids never look like a lost model, a full server or lacking memory."""
    assert judge(status, template.format(words), NAMES) is Verdict.CALLER


@given(st.text(max_size=60), st.sampled_from(FORGED), st.sampled_from(QUOTING))
def test_nor_with_anything_around_it(around: str, words: str, said: tuple[int, str]) -> None:
    """Whatever stands before and behind the forged words."""
    status, template = said
    quoted = template.replace("{0}", "{}").replace("{}", around + words + around)
    assert judge(status, quoted, NAMES) is Verdict.CALLER


@pytest.mark.parametrize("words", FORGED[:7])
@pytest.mark.parametrize("raised", [RAISED_51, RAISED_36])
def test_what_a_model_quotes_causes_no_reload(raised: str, words: str) -> None:
    """An exception that repeats its input is the model's fault and nothing more."""
    message = f"{raised}ValueError: cannot use '{words}'\n\nAt:\n  /m.py(1): execute\n"
    assert judge(500, message, NAMES) is Verdict.MODEL


@given(st.integers(100, 599), st.text(max_size=200))
def test_any_message_has_a_verdict(status: int, message: str) -> None:
    """And none that was not made for it means a lost model."""
    assert judge(status, message, NAMES) not in {Verdict.STUB_DIED, Verdict.NOT_LOADED}


@pytest.mark.parametrize(
    ("instance", "named"),
    [
        ("m.step_0_0", "m.step"),
        ("m_0", "m"),
        ("m", "m"),
        ("m_1_0_0", "m_1"),
        ("/tmp/serving::m.step_0_0", "m.step"),
        ("other_0_0", None),
    ],
)
def test_a_dead_stub_names_its_model(instance: str, named: str | None) -> None:
    """By its instance; the longest name that fits, since names may end in numbers as well."""
    message = f"in ensemble 'm', Stub process '{instance}' is not healthy."
    assert find_dead_model(message, ["m", "m_1", "m.step"]) == named


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error":"x"}', "x"),
        (b'{"error":5}', "5"),
        (b'{"no":1}', '{"no":1}'),
        (b"[]", "[]"),
        (b"", ""),
        (b"\xff text ", "\ufffd text"),
        (b"[" * 100_000, "[" * 100_000),
        (b'{"error":"\\ud800"}', "\ud800"),
    ],
)
def test_error_bodies(body: bytes, message: str) -> None:
    """Triton's form, or whatever there is."""
    assert read_error_message(body) == message


@pytest.mark.parametrize("end", ["", "\\", "\\u", "\\u12", "\\u123"])
@pytest.mark.parametrize("event", [b"", b"data: "])
def test_error_bodies_that_are_cut(event: bytes, end: str) -> None:
    """What came of the text, without half an escape."""
    body = event + b'{"error":"a \\"b\\n' + end.encode()
    refused = read_refusal(Answer(500, [], deque([body]), cut=True), PLAN)
    assert (refused.message, refused.cut) == ('a "b\n', True)
    other = read_refusal(Answer(500, [], deque([b"<html>"]), cut=True), PLAN)
    assert other.message == "<html>"
