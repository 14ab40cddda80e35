"""A failure of a workflow's function is told alike in every form, and by whose fault it can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serve.triton.diagnosis.exhaustion import means_exhaustion
from serve.triton.diagnosis.load_errors import load_failure_reason
from serve.triton.diagnosis.model_errors import (
    find_failure_cause,
    is_never_the_callers,
    make_one_sentence,
    refused_by_step,
    remove_code,
    remove_regions,
    speaks_of_values,
)
from serve.triton.diagnosis.verdicts import Verdict, judge

PACKAGES = "/venv/lib/python3.11/site-packages"
MODEL = "/work/serving/m/1/model.py"
EXECUTOR = (f"{PACKAGES}/merlin/dag/executors.py", "_run_node_transform")
UDF = (f"{PACKAGES}/merlin/dag/ops/udf.py", "transform")
FILTER = (f"{PACKAGES}/nvtabular/ops/filter.py", "transform")
CYTHON = ("pandas/_libs/tslib.pyx", "array_to_datetime")
PANDAS = (f"{PACKAGES}/pandas/core/series.py", "apply")
YOURS = ("/home/ann/etl.py", "weekday")
TORCHSCRIPT = ("code/__torch__.py", "forward")
OWN = ("/tmp/ipykernel_1/5.py", "transform")
PART = "the workflow's LambdaOp of 'ts', 'a: b' failed in weekday (etl.py:12): "
#: In front of what a model raised, in 2.51 and 2.36; and of a request without an id.
RAISED_51 = "Failed to process the request(s) for model 'm_0_0', message: "
RAISED_36 = "Failed to process the request(s) for model instance 'm_0', message: "
UNKNOWN_ID = "[request id: <id_unknown>] "


def lines(*frames: tuple[str, str]) -> list[str]:
    return [
        f'  File "{file}", line 12, in {name}\n    f("a \'secret\'")\n' for file, name in frames
    ]


def workflows(*frames: tuple[str, str], raised: str = "ValueError", text: str = "no date") -> str:
    """What Merlin's workflow step says."""
    return f"Error: <class '{raised}'> - {text}, Traceback: {lines((MODEL, 'execute'), *frames)}"


def executors(*frames: tuple[str, str], raised: str = "ValueError: no date") -> str:
    """What Merlin's executor says."""
    listed = "".join(lines((MODEL, "execute"), *frames))
    return f"Traceback (most recent call last):\n{listed}{raised}\n"


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        (
            workflows(EXECUTOR, UDF, YOURS, PANDAS),
            "the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (
            workflows(EXECUTOR, EXECUTOR, FILTER, YOURS, raised="a.b.Odd", text="x"),
            "the workflow's Filter failed in weekday (etl.py:12): Odd: x",
        ),
        (
            workflows(EXECUTOR, OWN),
            "the workflow's operator failed in transform (5.py:12): ValueError: no date",
        ),
        (
            workflows(EXECUTOR, UDF, YOURS, PANDAS, CYTHON),
            "the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (workflows(YOURS), "ValueError: no date"),
        (executors(EXECUTOR, TORCHSCRIPT), "ValueError: no date"),
        (workflows(EXECUTOR, UDF, PANDAS), "ValueError: no date"),
        (
            executors(EXECUTOR, UDF, YOURS),
            "the graph's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (
            executors(EXECUTOR, raised=f"RuntimeError: {workflows(EXECUTOR, UDF, YOURS)}"),
            "the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: no date",
        ),
        (executors(raised=f"RuntimeError: {PART}ValueError: no"), f"{PART}ValueError: no"),
        (executors(PANDAS), "ValueError: no date"),
        (f"{PART}ValueError: /home/ann/x.csv", f"{PART}ValueError: …/x.csv"),
        (
            workflows(EXECUTOR, UDF, YOURS, text="x" * 50_000),
            f"the workflow's LambdaOp failed in weekday (etl.py:12): ValueError: {'x' * 388}…",
        ),
    ],
)
def test_one_sentence_in_every_form(message: str, cause: str) -> None:
    """Which operator, in which function, at which line; no code, no path, bounded."""
    assert find_failure_cause(message) == cause
    assert find_failure_cause(f"in ensemble 'm', {message}") == cause


@pytest.mark.parametrize(
    "before", ["", PART, f"RuntimeError: {PART}", "the graph's Filter failed: "]
)
@pytest.mark.parametrize(
    ("raised", "never"),
    [
        ("ModuleNotFoundError: No module named 'x'", True),
        ("ImportError: cannot import name 'x' from 'y'", True),
        ("NameError: name 'x' is not defined", True),
        ("UnboundLocalError: x", True),
        ("AttributeError: module 'pandas' has no attribute 'x'", True),
        ("AttributeError: partially initialized module 'a' has no attribute 'x'", True),
        ("SyntaxError: invalid syntax (etl.py, line 3)", True),
        ("IndentationError: unexpected indent (etl.py, line 3)", True),
        ("SyntaxError: invalid syntax (<unknown>, line 1)", False),
        ("AttributeError: 'Series' object has no attribute 'x'", False),
        ("ValueError: NameError: name 'x' is not defined", False),
        ("KeyError: 'ImportError: x'", False),
        ("MyNameError: x", False),
    ],
)
def test_what_no_request_can_bring_about(before: str, raised: str, never: bool) -> None:
    """A lacking name or module; but a function may read the request as code."""
    assert is_never_the_callers(before + raised) is never


@pytest.mark.parametrize(
    ("raised", "of_columns"),
    [
        ("ValueError: x", True),
        ("ValueError", True),
        ("ValueError:", True),
        ("ZeroDivisionError: x", True),
        ("OverflowError: x", True),
        ("ParserError: Unknown string format: x", True),
        ("OutOfBoundsDatetime: x", True),
        ("IntCastingNaNError: x", True),
        ("UnicodeDecodeError: x", True),
        ("KeyError: 'weekday'", False),
        ("TypeError: x", False),
        ("RuntimeError: x", False),
    ],
)
def test_what_a_function_fails_at(raised: str, of_columns: bool) -> None:
    """By the class of its exception; that of another model's says nothing."""
    assert speaks_of_values(PART + raised) is of_columns
    assert not speaks_of_values(raised)


@pytest.mark.parametrize(
    "message",
    [workflows(EXECUTOR, UDF, YOURS), f"{PART}ValueError: no", "NVTabular: KeyError: 'x'"],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_workflow_fails_whatever_the_status(status: int, message: str) -> None:
    """tritonserver 2.36 answers 400 to all that a model hands over."""
    assert judge(status, message, ["m"]) is Verdict.MODEL
    assert judge(status, f"in ensemble 'm', {message}", ["m"]) is Verdict.MODEL


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
    assert load_failure_reason(f"version 1 is at UNAVAILABLE state: {said}") == without
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
    assert judge(500, RAISED_51 + lacking, ["m"]) is Verdict.EXHAUSTED
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
    ("cause", "is_ours"),
    [
        ("RuntimeError: column 'x': NaN or infinity cannot become int64", True),
        ("refused by design: column 'x' has 5 rows, and column 'y' has 4", True),
        ("RuntimeError: the request has no rows: Categorify of 'x' needs one", True),
        ("QueryFeast: column 'x' is empty; at least one id is expected", True),
        ("KeyError: 'column'", False),
        ("RuntimeError: Failed to categorical encode column x", False),
    ],
)
def test_words_of_our_steps(cause: str, is_ours: bool) -> None:
    """They are the request's mistake, whoever passes them on; what Merlin says may be another's."""
    expected = cause.removeprefix("RuntimeError: ") if is_ours else None
    assert refused_by_step(cause) == expected
