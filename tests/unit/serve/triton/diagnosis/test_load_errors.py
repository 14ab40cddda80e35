"""Why a model was not loaded, as its archive's owner is told."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_tools import Form, ServingPlan
from ensemble_tools.serving.plan import PublishedModel
from ensemble_tools.serving.serving_plan import OwnCode
from serve.triton.diagnosis.load_errors import ModelsSide, describe_load_error, load_failure_reason

MODELS = ModelsSide("the Python /v/bin/python (PYTHON)", ("python", "pytorch"))
INNER = PublishedModel("m.rank", "1_rank", "", links=(("3", Path("/archive/1_rank/3")),))
PLAN = ServingPlan(
    "m",
    Form.AS_DELIVERED,
    "m",
    (INNER, PublishedModel("m.call", "call", ""), PublishedModel("m", "top", "")),
    called=("m.call",),
)


def described(reason: str, of: str = "m", plan: ServingPlan = PLAN) -> str:
    message = f"load failed for model '{of}': version 1 is at UNAVAILABLE state: {reason};"
    return describe_load_error(plan, message, MODELS)


def test_a_workflow_that_nvtabular_cannot_read() -> None:
    """One of before graph.json asks for a pickle: which one is needed is told, and why."""
    step = PublishedModel(
        "m", "0_step", "", not_compiled="Filter of 'a'", json_workflow_path="1/workflow"
    )
    reason = (
        "Internal: FileNotFoundError: [Errno 2] No such file or directory: "
        "'/w/serving/m/1/workflow/workflow.pkl'"
    )
    said = described(reason, plan=replace(PLAN, models=(step,)))
    assert (
        "0_step/1/workflow/graph.json: NVTabular must run this workflow (Filter of 'a'), and the "
        "one here knows no graph.json, which NVTabular reads from its commit 08e0633 (March 2026) "
        "on; install that one into the Python /v/bin/python (PYTHON); see"
    ) in said
    lacking = "Internal: ModuleNotFoundError: No module named 'ours'"
    said = described(lacking, plan=replace(PLAN, models=(step,)))
    assert (
        "install it into the Python /v/bin/python (PYTHON), or put it into the archive beside"
        in said
    )
    executor = replace(PLAN, form=Form.EXECUTOR)
    assert "(PYTHON), or put it into the archive beside the executor's model.py; see" in described(
        lacking, plan=executor
    )
    for told in (
        described(lacking.replace("ours", "torch"), plan=executor),
        described(lacking, "m.rank", executor),
        described(lacking),
    ):
        assert "or put it" not in told
    pickled = replace(step, json_workflow_path="")
    assert "graph.json" not in described(reason, plan=replace(PLAN, models=(pickled,)))


@pytest.mark.parametrize(
    ("of", "reason", "said"),
    [
        (
            "m.rank",
            "Internal: Stub process 'm.rank_0_0' is not healthy.",
            "the step 1_rank of the model m failed to load: its process ended while it "
            "loaded: the program ended it, or a library crashed on what the model's files hold",
        ),
        (
            "m.rank",
            "Internal: KeyError: 'age'\n\nAt:\n  /v/lib/pandas/x.py(9): get\n"
            "  /w/serving/m.rank/3/model.py(12): initialize\n",
            "KeyError: 'age' (1_rank/3/model.py, line 12); see the log",
        ),
        (
            "m.rank",
            "Internal: OSError: /w/archive-a1_b2c3d/m/in/1_rank/x.txt\n\nAt:\n"
            "  /w/serving/m.rank/3/model.py(12): initialize_there\n"
            "  /w/archive-a1_b2c3d/m/in/1_rank/3/model.py(7): initialize\n",
            "OSError: in/1_rank/x.txt (in/1_rank/3/model.py, line 7); see the log",
        ),
        (
            "m",
            "Internal: in ensemble /w/serving::m, tensor t: BOOL is inferred from model "
            "/w/serving::m.rank",
            "failed to load: in ensemble top, tensor t: BOOL is inferred from model 1_rank; see",
        ),
        ("m", "Internal: KeyError: 'age'", "the model m failed to load: KeyError: 'age'; see the"),
        (
            "m.rank",
            "Internal: ModuleNotFoundError: No module named 'pyspark'",
            "the step 1_rank of the model m failed to load: ModuleNotFoundError: No module named "
            "'pyspark'; install it into the Python /v/bin/python (PYTHON); see",
        ),
        (
            "m",
            "Internal: ModuleNotFoundError: the step 1_rank: No module named 'torch'",
            "the step 1_rank: No module named 'torch'; install it into the Python /v/bin/python "
            "(PYTHON); or build the image on nvcr.io/nvidia/merlin/merlin-pytorch:23.12, which has",
        ),
        (
            "m.call",
            "Internal: ModuleNotFoundError: No module named 'merlin.systems'",
            "'merlin.systems'; install merlin-systems and nvtabular into the Python /v/bin/python "
            "(PYTHON); or take an image with Merlin, or an export whose workflows are all compiled",
        ),
        (
            "m",
            "Internal: ModuleNotFoundError: No module named 'faiss'",
            "'faiss'; install faiss-cpu into the Python /v/bin/python (PYTHON); see",
        ),
        (
            "m.rank",
            "Internal: Refused: the step 1_rank: model 'm.rank' needs tensorflow",
            "the step 1_rank of the model m failed to load: model '1_rank' needs tensorflow; see",
        ),
        (
            "m.rank",
            "Internal: Refused: the step 1_rank: model 'm.rank' needs tensorflow, which the "
            "models' Python does not have (no): install it",
            "model '1_rank' needs tensorflow, which the models' Python does not have (no): install "
            "it; or build the image on nvcr.io/nvidia/merlin/merlin-tensorflow:23.12, which has it",
        ),
        (
            "m.rank",
            "Internal: Refused: model 'm.rank' of model_type xgboost needs xgboost, which the "
            "models' Python does not have (no); install it",
            "install it; or build the image on nvcr.io/nvidia/merlin/merlin-pytorch:23.12 or nvcr",
        ),
        (
            "m.rank",
            "Internal: SyntaxError: invalid syntax (model.py, line 7)",
            "SyntaxError: invalid syntax (1_rank/3/model.py, line 7); see",
        ),
        (
            "m.call",
            "Internal: SyntaxError: bad (other.py, line 7)",
            "the called model call of the model m failed to load: SyntaxError: bad (call/1/other.p",
        ),
        (
            "m",
            "Invalid argument: unable to find backend library for backend 'onnxruntime', try "
            "specifying runtime on the model configuration.",
            "there is no backend onnxruntime here; there are python, pytorch; use an image of",
        ),
        (
            "m",
            "Invalid argument: unable to find 'libtriton_onnxruntime.so' or 'onnxruntime/model.py' "
            "for model 'm', in /opt/tritonserver/backends/onnxruntime",
            "there is no backend onnxruntime here; there are python, pytorch; use an image of",
        ),
        (
            "m",
            "Internal: Refused: the step 1_rank: failed to load model 'm.rank': "
            "'/tmp/w/serving/m/1/steps/m.rank/3/model.pt' is no file",
            "failed to load: '1_rank/3/model.pt' is no file; see",
        ),
        ("m", "Internal: no /tmp/w/serving/m/1/x.so: y", "failed to load: no top/1/x.so: y; see"),
        (
            "m",
            "Internal: 'no' from '1.x' (/tmp/w/archive-1a2b3c4d/m/archive-5e6f7a8b/x/1/x.py)",
            "failed to load: 'no' from '1.x' (archive-5e6f7a8b/x/1/x.py); see",
        ),
        ("m", "Internal: no /opt/ml/models/m/x", "failed to load: no /opt/ml/models/m/x; see"),
        ("m", "Internal: " + "w" * 700, "w" * 600 + "…; see"),
    ],
)
def test_what_is_told(of: str, reason: str, said: str) -> None:
    """The archive's own paths, what there is, and what to do."""
    assert said in described(reason, of)


#: What tritonserver says, from 2.35 to 2.69, and which base is named.
BASES = {
    "unable to find 'libtriton_tensorflow.so' for model 'm', searched: /1, /2": (
        "tensorflow",
        "nvcr.io/nvidia/merlin/merlin-tensorflow:23.12",
    ),
    "unable to find 'pytorch/model.py' for model 'm', in /opt/tritonserver/backends/pytorch": (
        "pytorch",
        "nvcr.io/nvidia/merlin/merlin-pytorch:23.12",
    ),
    "unable to find 'libtriton_tensorflow.so' or 'tensorflow/model.py' for model 'm', in /x": (
        "tensorflow",
        "nvcr.io/nvidia/merlin/merlin-tensorflow:23.12",
    ),
    "unable to find backend library for backend 'onnxruntime', try specifying runtime": (
        "onnxruntime",
        "nvcr.io/nvidia/tritonserver:25.02-py3",
    ),
    "unable to find backend library for backend 'vllm', try specifying runtime": (
        "vllm",
        "nvcr.io/nvidia/tritonserver:25.02-vllm-python-py3",
    ),
    "unable to find backend library for backend 'ours', try specifying runtime": ("ours", ""),
}


@pytest.mark.parametrize("reason", BASES)
def test_a_base_that_has_the_backend(reason: str) -> None:
    """It is named as the Dockerfile takes it; of a backend that nobody knows none is."""
    backend, base = BASES[reason]
    said = described(f"Invalid argument: {reason}")
    named = f" (BASE_IMAGE={base})" if base else ""
    assert (
        f"there is no backend {backend} here; there are python, pytorch; use an image of NVIDIA's "
        f"that has it{named}, or export the model for one of these"
    ) in said


def test_a_config_that_triton_cannot_read() -> None:
    """What was passed on without being understood is the reason."""
    plan = replace(PLAN, doubts=("top/config.pbtxt has a field",))
    message = "failed to load 'm', failed to poll from model repository"
    assert describe_load_error(plan, message, MODELS) == (
        "the model m failed to load: Triton cannot read its config: top/config.pbtxt has a field"
    )
    assert "poll" in describe_load_error(PLAN, message, MODELS)
    assert described("boom", plan=plan).endswith(
        "boom; top/config.pbtxt has a field; see the log of the container for more"
    )


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        (
            "unexpected platform 'x' for m",
            "top/config.pbtxt: unexpected platform 'x'",
        ),
        (
            '2:14: Message type "inference.ModelConfig" has no field named "max_batchsize".',
            'top/config.pbtxt, line 2: no field named "max_batchsize"; did you mean '
            "max_batch_size?",
        ),
        (
            '3:1: Message type "inference.ModelConfig" has no field named "model_metrics".',
            'top/config.pbtxt, line 3: no field named "model_metrics" in this tritonserver; take '
            "it out, or serve it with a tritonserver that has it",
        ),
        (
            "unexpected 'platform' and 'backend' pair, got:torch_aoti, pytorch",
            "top/config.pbtxt: the platform torch_aoti is none of pytorch in this tritonserver; "
            "NVIDIA's images from 26.03 on have it",
        ),
        (
            "unexpected 'platform' and 'backend' pair, got:torch_aoti, python",
            "top/config.pbtxt: the platform torch_aoti is none of python in this tritonserver; "
            "take it out, or serve it with a tritonserver that has it",
        ),
        (
            "9:1: Expected identifier, got: }",
            "top/config.pbtxt, line 9: Expected identifier, got: }",
        ),
    ],
)
def test_what_tritonservers_log_says_of_a_config(printed: str, said: str) -> None:
    """The file, the line and the field, in the archive's own names."""
    models = replace(MODELS, unread=lambda name: printed if name == "m" else "")
    message = "failed to load 'm', failed to poll from model repository"
    found = describe_load_error(PLAN, message, models)
    assert found == f"the model m failed to load: {said}"


@pytest.mark.parametrize(("wanted", "meant"), [("Python", "python"), ("torch", "pytorch")])
def test_a_backend_by_another_name(wanted: str, meant: str) -> None:
    """Where the image has what was meant, no other image is needed."""
    lacking = f"Internal: unable to find backend library for backend '{wanted}', try it"
    assert (
        f"there is no backend {wanted} here; there are python, pytorch; write `backend: "
        f'"{meant}"`; see the log'
    ) in described(lacking)


def test_a_backend_by_another_name_that_is_not_here() -> None:
    lacking = "Internal: unable to find backend library for backend 'onnx', try it"
    assert "no backend onnx here (did you mean onnxruntime?); there are" in described(lacking)


@pytest.mark.parametrize("prefix", ["", "/w/serving::"])
def test_a_version_that_is_not_served(prefix: str) -> None:
    """The step, the version, and what to write; in a namespace or not."""
    message = (
        f"load failed for model '{prefix}m': ensemble '{prefix}m' depends on '{prefix}m.rank' "
        "whose required version 3 is not loaded."
    )
    assert describe_load_error(PLAN, message, MODELS) == (
        "the step 1_rank of the model m failed to load: ensemble 'top' depends on '1_rank' whose "
        "version 3 is not served (the latest alone is, unless its version_policy says otherwise): "
        "write `model_version: -1` into the step for the latest one; see the log of the container "
        "for more"
    )


def test_a_line_of_the_generated_file_is_none_of_the_archives() -> None:
    """What runs a model's file is not its file."""
    own = OwnCode(("1/model.py",), Path("/a"), PurePosixPath("top"), {})
    plan = replace(PLAN, models=(PublishedModel("m", "top", "", own_code=own),), called=())
    calls = "\n\nAt:\n  /w/serving/m/1/model.py(124): run\n"
    said = described(f"Internal: SyntaxError: bad (model.py, line 7){calls}", plan=plan)
    assert "SyntaxError: bad (top/1/model.py, line 7); see" in said


def test_what_a_model_says_takes_no_time() -> None:
    """However it looks: it is the event loop's time."""
    began = time.thread_time()
    for said in (
        "/serving" * 8000,
        "/archive-12345678/m" * 8000,
        "(" * 64_000,
        "a::" * 20_000,
        "::" * 20_000,
        "a.py, line 1" * 5000,
    ):
        assert described(f"Internal: ValueError: {said}")
    assert time.thread_time() - began < 0.1


@pytest.mark.parametrize("name", ["a\\d", "\\g<9>", "it's"])
def test_names_of_any_kind(name: str) -> None:
    """A directory's name is no pattern."""
    plan = replace(PLAN, models=(PublishedModel("m", name, ""),), called=())
    said = described("Internal: SyntaxError: bad (model.py, line 7) /w/serving/m/1/x", plan=plan)
    assert f"SyntaxError: bad ({name}/1/model.py, line 7) {name}/1/x; see" in said


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
