"""What tritonserver's messages mean: real ones of 2.51 and 2.36, and those that a caller forges."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.triton.exhaustion import means_exhaustion
from serve.triton.messages import (
    Verdict,
    find_dead_model,
    find_failure_cause,
    judge,
    load_failure_reason,
    make_one_sentence,
    remove_code,
    remove_regions,
    speaks_of_values,
)

NAMES = ("m.step", "m")
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
    "message",
    [
        "CUDA out of memory. Tried to allocate 20.00 MiB",
        "can not create model 'm': memory limit set for GPU 0 has exceeded, model loading is"
        " rejected.",
        "OSError: [Errno 28] No space left on device",
        "OSError: [Errno 12] Cannot allocate memory",
        "OSError: [Errno 24] Too many open files: 'x'",
        "std::bad_alloc",
        "RuntimeError: can't start new thread",
        "[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory",
        "Unable to create shared memory region",
        "OOM when allocating tensor with shape[32,1024] and type float",
        "the worker ended (OOM)",
        "OOM",
        "Dst tensor is not initialized.",
        "Src tensor is not initialized.",
        "Reason=CNMEM_STATUS_OUT_OF_MEMORY. numdev=1",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED",
        "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
        "Internal: CUDA_OUT_OF_MEMORY",
        "OutOfMemoryException: 512 bytes",
    ],
)
def test_lacking_resources(message: str) -> None:
    """However the words are cased."""
    assert means_exhaustion(message)
    assert means_exhaustion(message.upper())
    assert not means_exhaustion("unexpected shape for input 'memory'")


@pytest.mark.parametrize(
    "message",
    [
        "KeyError: 'room'",
        "KeyError: 'Zoom'",
        "no category 'mushrooms'",
        "bigscience/BLOOM-560m is not a local folder",
        "ValueError: boom",
        "/proc/self/oom_score_adj: Permission denied",
    ],
)
def test_words_with_oom_inside(message: str) -> None:
    """Only the word by itself speaks of memory."""
    assert not means_exhaustion(message)
    assert not means_exhaustion(message.upper())


def test_tensorflows_sentence_beside_a_callers_room() -> None:
    """A caller who wrote of rooms has not written TensorFlow's sentence; OOM alone he may have."""
    said = [b'{"inputs": [{"name": "room_type"}]}']
    assert means_exhaustion("OOM when allocating tensor with shape[32,1024]", said)
    assert not means_exhaustion("the worker ended: OOM", said)


@pytest.mark.parametrize(
    "message",
    [
        "AttributeError: module 'torch.cuda' has no attribute 'OutOfMemoryError'",
        "ImportError: cannot import name 'OutOfMemoryError' from 'torch'",
        "ImportError: /lib/libgomp.so.1: cannot allocate memory in static TLS block",
        "OSError: libgomp-d22c30c5.so: cannot allocate memory in static TLS block",
        "ImportError: scipy was built without BLAS support",
        "ModuleNotFoundError: No module named 'bad_alloc'",
        "NameError: name 'OutOfMemoryError' is not defined",
        "FileNotFoundError: [Errno 2] No such file or directory: '/out of memory.txt'",
        "KeyError: 'oom'",
        "KeyError: 'Out of Memory (2019)'",
        "Error: <class 'KeyError'> - 'oom', Traceback: ['  File x']",
        "IndexError: the word OOM has no row",
    ],
)
def test_faults_of_the_model_itself(message: str) -> None:
    """Whatever names and words they are about."""
    assert not means_exhaustion(message)
    assert not means_exhaustion(f"load failed for model 'm': {STATE}Internal: {message}\n\nAt:\n x")
    assert not means_exhaustion(f"{RAISED_51}{message}\n\nAt:\n  /m.py(1): execute")


@pytest.mark.parametrize(
    "message",
    [
        "ImportError: libtorch.so: cannot open shared object file: Too many open files",
        "ImportError: libtorch_cpu.so: failed to map segment from shared object: Cannot allocate"
        " memory",
        "KeyError: 'x'\n\nDuring handling of the above exception, another exception occurred:\n\n"
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "RuntimeError: CUDA out of memory; after KeyError: 'x'",
    ],
)
def test_lacks_beside_such_faults(message: str) -> None:
    """They stay lacks."""
    assert means_exhaustion(message)


@pytest.mark.parametrize(
    "message",
    [
        "MemoryError: Unable to allocate 512. TiB for an array with shape (70368744177664,)",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 16.1 GiB for an array",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 562949953421312 bytes."
        " Error code 12 (Cannot allocate memory)",
        "CUDA out of memory. Tried to allocate 37252.90 GiB (GPU 0; 15.78 GiB total capacity;"
        " 1.10 GiB already allocated)",
        "ran out of memory trying to allocate 3725.29GiB (rounded to 4000000000000)",
        "ArrowMemoryError: malloc of size 1125899906842624 failed",
        "Failed to allocate memory for requested buffer of size 17179869185",
    ],
)
def test_more_than_the_machine_has(message: str) -> None:
    """Is no lack: to unload others makes no room for it. A larger machine may have it."""
    assert not means_exhaustion(message, memory=16 * 2**30)
    assert means_exhaustion(message, memory=2**60)
    assert means_exhaustion(message)
    raised = f"{RAISED_51}{message}\n\nAt:\n  /m.py(1): execute"
    assert judge(500, raised, ["m"], memory=16 * 2**30) is Verdict.MODEL


@pytest.mark.parametrize(
    "message",
    [
        "Unable to allocate 7.45 GiB for an array with shape (1000000000,)",
        "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.15 GiB total capacity)",
        "Failed to increase the shared memory pool size for key '/x' to 67108864 bytes",
        "MemoryError: std::bad_alloc",
    ],
)
def test_what_an_emptier_machine_would_give(message: str) -> None:
    """Is a lack; of numbers the one counts that was asked for."""
    assert means_exhaustion(message, memory=16 * 2**30)


PATH = "/tmp/r"
STATE = "version 1 is at UNAVAILABLE state: "
LOADS = [
    (
        f"load failed for model '{PATH}::m': {STATE}Internal: ValueError: boom\n\nAt:\n "
        " /m.py(6): i\n"
        ";\n",
        "ValueError: boom",
    ),
    (
        f"load failed for model '{PATH}::m': {STATE}Internal: ValueError: boom: version 7 is at"
        " UNAVAILABLE state: x\n\nAt:\n  /m.py(6): initialize\n;\n",
        "ValueError: boom: version 7 is at UNAVAILABLE state: x",
    ),
    (
        f"load failed for model 'm': {STATE}Internal: SyntaxError: invalid syntax"
        " (model.py, line 1);"
        "\n",
        "SyntaxError: invalid syntax (model.py, line 1)",
    ),
    (
        f"load failed for model '{PATH}::m': ensemble '{PATH}::m' depends on"
        f" '{PATH}::m.s' which has"
        f" no loaded version. Model '{PATH}::m.s' loading failed with error: {STATE}Internal:"
        " ValueError: boom\n\nAt:\n  /m.py(6): initialize\n;;\n",
        "ValueError: boom",
    ),
    (
        f"load failed for model 'm': {STATE}Internal: Stub process 'm_0_0' is not healthy.;\n",
        "Stub process 'm_0_0' is not healthy.",
    ),
    (
        f"load failed for model 'm': {STATE}Invalid argument: instance group m_0 of model"
        " m has kind"
        " KIND_GPU but no GPUs are available;\n",
        "instance group m_0 of model m has kind KIND_GPU but no GPUs are available",
    ),
    (
        "failed to load 'm', failed to poll from model repository",
        "failed to load 'm', failed to poll from model repository",
    ),
    (
        "load failed for model 'm': at least one version must be available under the"
        " version policy of"
        " model 'm'\n",
        "load failed for model 'm': at least one version must be available under the"
        " version policy of model 'm'",
    ),
    (
        f"load failed for model 'm': {STATE}Internal: TritonModelException: Traceback (most recent"
        " call last):\n  File \"m.py\", line 6\n    raise\nKeyError: 'x'\n;\n",
        "KeyError: 'x'",
    ),
    (
        f"load failed for model 'm': {STATE}Internal: ValueError: first\nsecond\n\nAt:\n "
        " x(1)\n;\n",
        "ValueError: first second",
    ),
    ("", ""),
]


@pytest.mark.parametrize(("message", "reason"), LOADS)
def test_reasons_of_failed_loads(message: str, reason: str) -> None:
    """The innermost: what the model raised, in one line, also when that looks like a message."""
    assert load_failure_reason(message) == reason


@given(st.text(max_size=300))
def test_any_reason_is_one_line(message: str) -> None:
    """And nothing in a message raises."""
    assert "\n" not in load_failure_reason(f"load failed for model 'm': {STATE}{message}")
    assert "\n" not in load_failure_reason(message)


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


@pytest.mark.parametrize("frames", ["import x", "raise ValueError('it\\'s')"])
def test_merlins_list_of_a_traceback(frames: str) -> None:
    """Merlin's workflow step sends the places as a Python list behind the exception."""
    listed = [f'  File "/r/m/1/model.py", line 3, in execute\n    {frames}\n']
    said = f"Error: <class 'KeyError'> - 'user_id', Traceback: {listed}"
    assert make_one_sentence(said) == "Error: <class 'KeyError'> - 'user_id'"
    assert make_one_sentence(
        said + "\n\nAt:\n  /r/m/1/model.py(9): execute\n"
    ) == make_one_sentence(said)


def test_a_sentence_about_a_traceback_stays() -> None:
    """Only the list is cut; what a model says in other words is its own."""
    said = "no Traceback: [1, 2], Traceback: none"
    assert make_one_sentence(said) == said


def test_an_id_that_nobody_gave_goes() -> None:
    """One that a caller gave stays."""
    said = "in ensemble 'm', {}unexpected shape for input 'X'"
    assert make_one_sentence(said.format(UNKNOWN_ID)) == said.format("")
    assert make_one_sentence(said.format("[request id: 7] ")) == said.format("[request id: 7] ")


#: Names of regions as 2.51 and 2.36 make them, and with the slash of shm_open.
REGIONS = (
    "serve_3885_8b2a7fe7_ac366f06-fe7f-4301-b16f-347bb5e31827",
    "serve_1_0a1b2c3d_12",
    "/serve_1_0a1b2c3d_12",
)


@pytest.mark.parametrize("region", REGIONS)
def test_names_of_regions_go(region: str) -> None:
    """Wherever they stand, in a load's reason as well; the rest of the sentence stays."""
    said = f"Failed to increase the shared memory pool size for key '{region}' to 4 bytes"
    without = said.replace(region, "(a shared memory region)")
    assert remove_regions(said) == make_one_sentence(said) == without
    assert load_failure_reason(f"load failed for model 'm': {STATE}{said}") == without
    assert means_exhaustion(without)
    assert remove_regions(f"{region} {region}.") == (
        "(a shared memory region) (a shared memory region)."
    )


@pytest.mark.parametrize("said", ["serve_model", "SERVE_MODEL_ROOT", "serve_1_x_y", "serve_1_2"])
def test_other_names_stay(said: str) -> None:
    """Models and settings may begin alike."""
    assert remove_regions(said) == said


_TORCHSCRIPT = """PyTorch execute failure: The following operation failed in TorchScript.
Traceback of TorchScript, serialized code (most recent call last):
  File "code/__torch__.py", line 18, in forward
    age = torch.unsqueeze(batch["user_age"], 1)
    parts = [user, item, torch.mul(user, item), age, price]
            ~~~~~~~~~ <--- HERE
    h = torch.cat(parts, 1)

Traceback of TorchScript, original code (most recent call last):
  File "/home/somebody/train.py", line 7, in forward
        h = torch.cat(parts, 1)
            ~~~~~~~~~ <--- HERE
RuntimeError: Sizes of tensors must match except in dimension 1.
"""
_TENSORFLOW = """Graph execution error:

Detected at node 'm/e/embedding_lookup' defined at (most recent call last):
    File "/usr/lib/python3.10/runpy.py", line 196, in _run_module_as_main
      return _run_code(code, main_globals, None)
Node: 'm/e/embedding_lookup'
indices[0,0] = 99 is not in [0, 10)
\t [[{{node m/e/embedding_lookup}}]] [Op:__inference_signature_wrapper_1]"""
_PYTHON = """Traceback (most recent call last):
  File "/work/serving/m/1/model.py", line 3, in execute
    return secret(x)
ValueError: these rows
do not fit

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "/work/serving/m/1/model.py", line 5, in execute
    raise Unwelcome("go away") from error
model.Unwelcome: go away
"""
_CUSTOM = """Traceback (most recent call last):
  File "/work/serving/m/1/model.py", line 3, in execute
    self.weights: Tensor = secret(x)
NoSuchShop: shop 7 is closed
"""
_GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/work/serving/m/1/model.py", line 3, in execute
  |     raise ExceptionGroup("several", secret(x))
  | ExceptionGroup: several (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | ValueError: a
    +------------------------------------
"""
_NUMBA = """TypingError: Failed in nopython mode pipeline (step: nopython frontend)
No implementation of function add found for signature:
 >>> add(int64, unicode_type)

File "model.py", line 3:
def secret(x):
    weight = x + "a"
    ^
"""
_CPP = """CUDA error: device-side assert triggered
Exception raised from c10_cuda_check at /pytorch/c10/cuda/x.cpp:44 (most recent call first):
frame #0: c10::Error::Error(...) + 0x57 (0x7f in /usr/lib/libc10.so)"""


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (_TORCHSCRIPT, "RuntimeError: Sizes of tensors must match except in dimension 1."),
        (_TENSORFLOW, "indices[0,0] = 99 is not in [0, 10)"),
        (_PYTHON, "model.Unwelcome: go away"),
        (_PYTHON.partition("\n\n")[0], "ValueError: these rows"),
        (_CPP, "CUDA error: device-side assert triggered"),
        (
            "Error: <class 'RuntimeError'> - Failed to encode x, Traceback: ['  File \"/a/b.py\"']",
            "RuntimeError: Failed to encode x",
        ),
        ("ValueError: boom\n\nAt:\n  /models/m/1/model.py(1): execute\n", "ValueError: boom"),
        ("OSError: /models/m/1/labels.txt and https://host/a/b", None),
        ("two lines\nof plain words", "two lines of plain words"),
        (_CUSTOM, "NoSuchShop: shop 7 is closed"),
        (f"RuntimeError: it failed: {_CUSTOM}please ask again", "NoSuchShop: shop 7 is closed"),
        (_CUSTOM.partition("NoSuchShop")[0], "it did not say why in its last words; see the log"),
        (_GROUP, "ExceptionGroup: several (2 sub-exceptions)"),
        (_NUMBA, "TypingError: Failed in nopython mode pipeline (step: nopython frontend)"),
    ],
)
def test_causes_without_code(message: str, said: str | None) -> None:
    """The last reason; which model of which ensemble, code, tracebacks and paths are left out."""
    said = said or "OSError: …/labels.txt and https://host/a/b"
    for front in ("", RAISED_51, RAISED_36, f"in ensemble 'm', in ensemble 'm.i', {RAISED_51}"):
        assert find_failure_cause(front + message) == said


@pytest.mark.parametrize("code", [_TORCHSCRIPT, _PYTHON, _CUSTOM, _GROUP])
def test_no_message_shows_code(code: str) -> None:
    """Nor one that is no failure of a model's: a lack of memory, what is wrong with a request."""
    said = remove_code(f"{UNKNOWN_ID}{RAISED_51}{code}")
    assert not any(word in said for word in ("secret", "torch.cat", "File", "/work", "Traceback"))
    lacking = _TORCHSCRIPT.replace("Sizes of tensors", "CUDA out of memory; sizes")
    assert judge(500, RAISED_51 + lacking, NAMES) is Verdict.EXHAUSTED
    assert remove_code(RAISED_51 + lacking).startswith("RuntimeError: CUDA out of memory")


def test_a_cause_that_was_cut_off() -> None:
    """Where the reason is not among the first 64 KB no line of code takes its place."""
    cut = _TORCHSCRIPT.partition("RuntimeError")[0] + "h = torch.cat(pa… (cut after 64 KB)"
    assert find_failure_cause(cut, cut=True) == "it did not say why in its last words; see the log"


@given(st.text(), st.booleans())
def test_causes_are_one_line(message: str, cut: bool) -> None:
    """Whatever a model says."""
    assert len(find_failure_cause(message, cut=cut).splitlines()) <= 1


@pytest.mark.parametrize(
    ("cause", "of_values"),
    [
        ("IndexError: index out of range in self", True),
        ("RuntimeError: The size of tensor a (400) must match the size of tensor b (200)", True),
        ("indices[0,0] = 99 is not in [0, 10)", True),
        ("ValueError: could not convert string to float: 'x'", True),
        ("RuntimeError: the weights are gone", False),
        ("KeyError: 'resized'", False),
    ],
)
def test_causes_that_speak_of_values(cause: str, of_values: bool) -> None:
    """Indices, sizes and shapes come of the request, most often; a word that has one in it not."""
    assert speaks_of_values(cause) is of_values


@pytest.mark.parametrize(
    "words", ["blas gemm", "importerror: ", "could not create cublas", "allocate 1,", "oom gemm"]
)
def test_what_a_model_writes_is_looked_through_at_once(words: str) -> None:
    """Whatever it repeats: the event loop waits meanwhile."""
    started = time.thread_time()
    means_exhaustion("blas " + words.replace(" ", "") * 6000, memory=2**30)
    means_exhaustion(words * 6000, memory=2**30)
    assert time.thread_time() - started < 0.5
