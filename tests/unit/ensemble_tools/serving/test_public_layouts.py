"""Model repositories as the backends' own pages lay them out: which are given to the backend."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import DemandRefused, PayloadMissing
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import ServingPlan, plan_archive

TENSORS = (
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } '
    'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
)
#: Where it is described -> a config without its tensors, and what lies in the version.
PUBLIC = {
    "pytorch_backend, AOT Inductor (26.03)": (
        'backend: "pytorch" platform: "torch_aoti"',
        ("model.pt2",),
    ),
    "recsys-examples, its platform alone": ('platform: "torch_aoti"', ("model.pt2",)),
    "pytorch_backend, default_model_filename": (
        'backend: "pytorch" platform: "torch_aoti" default_model_filename: "ranker.pt2"',
        ("ranker.pt2",),
    ),
    "pytorch_backend, PyTorch 2.0": (
        'backend: "pytorch" platform: "pytorch_libtorch" runtime: "model.py"',
        ("model.py", "model.pt"),
    ),
    "core r26.05, the other name of libtorch": ('platform: "libtorch"', ("model.pt",)),
    "fil_backend, docs/model_config.md": (
        'backend: "fil" default_model_filename: "model.json" '
        'parameters { key: "model_type" value { string_value: "xgboost_json" } }',
        ("model.json",),
    ),
    "fil_backend, docs/sklearn_and_cuml.md": (
        'backend: "fil" parameters { key: "model_type" '
        'value { string_value: "treelite_checkpoint" } }',
        ("checkpoint.tl",),
    ),
    "dali_backend, README": ('backend: "dali" max_batch_size: 256', ("model.dali",)),
    "dali_backend, autoserialized": ('backend: "dali" max_batch_size: 256', ("dali.py",)),
    "vllm_backend, samples": (
        'backend: "vllm" instance_group [ { count: 1 kind: KIND_MODEL } ]',
        ("model.json",),
    ),
    "vllm_backend, multi-LoRA": ('backend: "vllm"', ("model.json", "multi_lora.json")),
    "tensorrtllm_backend, engines elsewhere": ('backend: "tensorrtllm"', ()),
    "tensorrtllm_backend, engines inside": (
        'backend: "tensorrtllm"',
        ("config.json", "rank0.engine"),
    ),
    "openvino_backend, Intermediate Representation": (
        'backend: "openvino"',
        ("model.xml", "model.bin"),
    ),
    "openvino_backend, another format": (
        'backend: "openvino" default_model_filename: "model.saved_model"',
        ("model.saved_model/",),
    ),
    "onnxruntime_backend, external weights": ('platform: "onnxruntime_onnx"', ("model.onnx/",)),
    "tutorials, Conceptual_Guide part 1": ('backend: "onnxruntime"', ("model.onnx",)),
    "tensorrt_backend, docs/multi_device.md": (
        'platform: "tensorrt_plan"',
        ("model.plan.rank0", "model.plan.rank1"),
    ),
    "backend, examples/identity": ('backend: "identity"', ()),
    "tensorflow_backend, README": ('platform: "tensorflow_savedmodel"', ("model.savedmodel/",)),
    "a platform of tomorrow": ('backend: "pytorch" platform: "executorch"', ("model.pte",)),
    "a platform of tomorrow, alone": ('platform: "jax_stablehlo"', ("model.mlir",)),
    "a file of tomorrow": ('backend: "onnxruntime"', ("model.ort2",)),
}


def lay_out(directory: Path, config: str, found: tuple[str, ...]) -> None:
    """A model directory with version 1; a name that ends in `/` is a directory's."""
    (directory / "1").mkdir(parents=True)
    (directory / "config.pbtxt").write_text(f"{config} {TENSORS}")
    for name in found:
        path = directory / "1" / name
        if name.endswith("/"):
            path.mkdir()
            continue
        with zipfile.ZipFile(path, "w") as archive:  # which is what torch writes
            archive.writestr("model/version", "3")


def planned(root: Path, config: str, found: tuple[str, ...]) -> ServingPlan:
    """How the archive of one model, m, is served."""
    lay_out(root / "m", config, found)
    return plan_archive(read_repository(root), None, Namespace("m"))


@pytest.mark.parametrize("source", PUBLIC)
def test_public_layout(source: str, tmp_path: Path) -> None:
    """What NVIDIA documents, and what a table cannot know, is given to the backend."""
    config, found = PUBLIC[source]
    (model,) = planned(tmp_path, config, found).models
    assert model.links == (("1", tmp_path / "m/1"),)


#: What is certainly not there, whatever the image: a config, its version, what is said.
LACKING = {
    "a TorchScript file for AOT Inductor": (
        'backend: "pytorch" platform: "torch_aoti"',
        ("model.pt",),
        r"expected model\.pt2 in it, found model\.pt",
    ),
    "weights alone": ('backend: "pytorch"', ("model.pth",), r"model\.pt or .* found model\.pth"),
    "another name": ('backend: "onnxruntime"', ("resnet.onnx",), r"model\.onnx.*resnet\.onnx"),
    "TF Serving's layout": (
        'platform: "tensorflow_savedmodel"',
        ("saved_model.pb",),
        r"expected model\.savedmodel/",
    ),
    "a name that is not there": (
        'backend: "openvino" default_model_filename: "net.xml"',
        ("model.xml",),
        r"expected net\.xml",
    ),
    "a pipeline of another name": ('backend: "dali"', ("pipeline.py",), r"model\.dali or dali\.py"),
    "a forest that is none": ('backend: "fil"', ("model.onnx",), r"xgboost\.json"),
    "nothing at all": ('backend: "tensorrt"', (), r"expected model\.plan in it, found nothing"),
    "nothing that tells a backend": ("", (), r"expected the model's files in it, found nothing"),
    "a program that is none": ('backend: "python"', ("model.new",), r"expected model\.py"),
}


@pytest.mark.parametrize("case", LACKING)
def test_what_is_lacking(case: str, tmp_path: Path) -> None:
    """What every release of a backend reads, and is not there, is named before Triton is asked."""
    config, found, message = LACKING[case]
    with pytest.raises(PayloadMissing, match=message):
        planned(tmp_path, config, found)


def test_backend_as_a_platform(tmp_path: Path) -> None:
    """A backend's name in the place of a platform is refused with the field that is meant."""
    with pytest.raises(DemandRefused, match='expected `backend: "python"` in its place'):
        planned(tmp_path, 'platform: "python"', ("model.py",))


@pytest.mark.parametrize(
    ("config", "found", "backend"),
    [
        ("", ("model.py",), "python"),
        ("", ("model.onnx/",), "onnxruntime"),
        ("", ("model.pt2",), "pytorch"),
        ("", ("model.pt", "model.py"), "pytorch"),
        ("", ("model.savedmodel/", "model.py"), "tensorflow"),
        ("", ("model.savedmodel",), ""),
        ('default_model_filename: "model.plan"', ("model.py",), "tensorrt"),
        ('platform: "executorch"', ("model.py",), ""),
        ('backend: "vllm"', ("model.py",), "vllm"),
    ],
)
def test_derived_backend(config: str, found: tuple[str, ...], backend: str, tmp_path: Path) -> None:
    """A config that names no backend has the one that Triton tells by the model's file."""
    lay_out(tmp_path / "m", config, found)
    model = read_repository(tmp_path).entry
    assert model.backend == backend
    assert model.python_file == ("model.py" if backend == "python" else None)
