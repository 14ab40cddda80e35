"""Archives of a model's file without a config: completed from the file, or told what to write."""

from __future__ import annotations

import json
import re
import shutil
import struct
import zipfile
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import (
    ConfigIncomplete,
    PayloadBroken,
    PayloadMissing,
    RepositoryUnusable,
)
from ensemble_tools.packing.layout import find_packed_tree
from ensemble_tools.serving.demand import measure_demand
from ensemble_tools.serving.namespace import Namespace
from ensemble_tools.serving.plan import Choices, ServingPlan, plan_archive
from ensemble_tools.serving.publish import publish
from tests.support.bare_models import field, onnx_graph, onnx_model, saved_model, varint

EXAMPLES = Path(__file__).parents[4] / "examples/merlin"
LIGHTGBM = EXAMPLES / "forest_lightgbm/repository/1_filtriton/1/model.txt"
XGBOOST = EXAMPLES / "forest_xgboost/repository/1_filtriton/1/xgboost.json"
TORCHS_ONNX = Path(__file__).parents[3] / "golden/bare/torch_2_13.onnx"
TORCHSCRIPT = EXAMPLES / "dense/repository/1_predictpytorchtriton/1/model.pt"
ONNX = onnx_model(
    [("x", 1, ("batch", 4)), ("ids", 7, ("batch",))], [("y", 1, ("batch", 2))], ["weight"]
)
SAVED = saved_model([("x", 1, (-1, 4))], [("y", 1, (-1, 2))])


def planned(root: Path, *, strict: bool = True) -> ServingPlan:
    return plan_archive(read_repository(root), None, Namespace("m"), Choices(strict=strict))


def served_config(root: Path) -> pb.ModelConfig:
    """The config that Triton is given of the only model."""
    (model,) = planned(root).models
    return text_format.Parse(model.config_text or "", pb.ModelConfig())


def put(root: Path, place: str, content: bytes) -> Path:
    """A file of an archive; the archive's directory."""
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return root


def tensors(config: pb.ModelConfig) -> list[tuple[str, str, list[int]]]:
    """Inputs, then outputs: name, type, dims."""
    declared = (*config.input, *config.output)
    return [(it.name, pb.DataType.Name(it.data_type), [*it.dims]) for it in declared]


ONNX_TENSORS = [
    ("x", "TYPE_FP32", [-1, 4]),
    ("ids", "TYPE_INT64", [-1]),
    ("y", "TYPE_FP32", [-1, 2]),
]
FIL = [("input__0", "TYPE_FP32", [3]), ("output__0", "TYPE_FP32", [1])]


@pytest.mark.parametrize(
    "place", ["model.onnx", "1/model.onnx", "m/model.onnx", "m/1/model.onnx", "3/model.onnx"]
)
def test_onnx_file(place: str, tmp_path: Path) -> None:
    """Wherever a bare ONNX file lies, its own tensors are served; its weights are no inputs."""
    config = served_config(put(tmp_path, place, ONNX))
    assert (config.backend, config.max_batch_size) == ("onnxruntime", 0)
    assert tensors(config) == ONNX_TENSORS
    (note,) = planned(tmp_path).notes
    assert "those that model.onnx says, and its backend is onnxruntime" in note


def test_onnx_that_torch_wrote(tmp_path: Path) -> None:
    """What torch.onnx.export (torch 2.13) writes of a network with an embedding is read right."""
    config = served_config(put(tmp_path, "model.onnx", TORCHS_ONNX.read_bytes()))
    assert tensors(config) == [*ONNX_TENSORS, ("same", "TYPE_INT64", [-1])]


def _onnx_with(location: str, where: str) -> bytes:
    """With a tensor whose values are in another file: of the graph, of a node, or deeper."""
    entry = field(1, "offset") + field(2, "0")
    tensor = field(8, "w") + field(13, entry) + field(13, field(1, "location") + field(2, location))
    constant = field(4, "Constant") + field(5, field(1, "value") + field(5, tensor))
    branch = field(4, "If") + field(5, field(1, "then_branch") + field(6, field(5, tensor)))
    inside = {
        "graph": field(5, tensor),
        "node": field(1, constant),
        "branch": field(1, branch),
        "sparse": field(15, field(1, tensor)),
    }[where]
    return ONNX + field(7, inside)  # protobuf merges a message that comes twice


@pytest.mark.parametrize("where", ["graph", "node", "branch", "sparse"])
@pytest.mark.parametrize(
    ("location", "found"),
    [
        ("model.onnx.data", "which is not there"),
        ("data/w.bin", "which is not there"),
        ("", "which is not there"),
        ("../../../other/model/1/model.onnx", "not below its directory"),
        ("/etc/shadow", "not below its directory"),
        ("*/_ORT_MEM_ADDR_/*", "not below its directory"),
    ],
)
def test_weights_in_another_file(location: str, found: str, where: str, tmp_path: Path) -> None:
    """They are in the archive, below the model's directory, or the load is refused."""
    put(tmp_path, "m/1/model.onnx", _onnx_with(location, where))
    put(tmp_path, "m/1/other.bin", b"weights")
    if "_ORT" in location:
        put(tmp_path, f"m/1/{location}", b"x")
    with pytest.raises(PayloadBroken, match=found):
        served_config(tmp_path)


@pytest.mark.parametrize("location", ["model.onnx.data", "data/w.bin"])
@pytest.mark.parametrize("place", ["m/1/", "m/1/model.onnx/", ""])
def test_weights_beside_an_onnx_file(place: str, location: str, tmp_path: Path) -> None:
    put(tmp_path, f"{place}model.onnx", _onnx_with(location, "graph"))
    put(tmp_path, f"{place}{location}", b"weights")
    if place.endswith("onnx/"):
        config = 'backend: "onnxruntime" input { name: "x" data_type: TYPE_FP32 dims: 4 }'
        config += ' output { name: "y" data_type: TYPE_FP32 dims: 2 }'
        put(tmp_path, "m/config.pbtxt", config.encode())
    assert served_config(tmp_path).backend == "onnxruntime"


def test_onnx_under_another_name(tmp_path: Path) -> None:
    """The only file that may be a model is the model; what it needs lies beside it."""
    put(tmp_path, "resnet.onnx", ONNX)
    put(tmp_path, "resnet.onnx.data", b"weights")
    put(tmp_path, "README.md", b"")
    assert served_config(tmp_path).default_model_filename == "resnet.onnx"
    made = planned(tmp_path)
    (tmp_path / "serving").mkdir()
    publish(made, tmp_path / "serving")
    version = tmp_path / "serving" / made.entry / "1"
    assert (version / "resnet.onnx").read_bytes() == ONNX
    assert (version / "resnet.onnx.data").read_bytes() == b"weights"
    assert not (version / "config.pbtxt").exists()


@pytest.mark.parametrize("place", [".", "model.savedmodel", "1/model.savedmodel", "m"])
def test_saved_model(place: str, tmp_path: Path) -> None:
    """A SavedModel in its directory, or as the archive itself, is served by its signature."""
    put(tmp_path / "archive", f"{place}/saved_model.pb", SAVED)
    put(tmp_path / "archive", f"{place}/variables/variables.index", b"index")
    config = served_config(tmp_path / "archive")
    assert (config.backend, config.platform) == ("tensorflow", "tensorflow_savedmodel")
    assert tensors(config) == [("x", "TYPE_FP32", [-1, 4]), ("y", "TYPE_FP32", [-1, 2])]
    (tmp_path / "serving").mkdir()
    published = planned(tmp_path / "archive")
    publish(published, tmp_path / "serving")
    inside = tmp_path / "serving" / published.entry / "1/model.savedmodel"
    assert (inside / "saved_model.pb").read_bytes() == SAVED
    assert (inside / "variables/variables.index").read_bytes() == b"index"
    assert measure_demand(published).models[0].payload_bytes == len(SAVED) + 5


def test_tf_servings_layout(tmp_path: Path) -> None:
    """A version that is a SavedModel itself is told where Triton wants it."""
    put(tmp_path, "1/saved_model.pb", SAVED)
    with pytest.raises(PayloadMissing, match=r"put what is in 1/ into 1/model\.savedmodel/"):
        planned(tmp_path)


@pytest.mark.parametrize("place", ["model.txt", "1/model.txt", "lgbm.txt"])
def test_forest_that_is_a_regressor(place: str, tmp_path: Path) -> None:
    """A regressor's file leaves nothing open: fil is told its features and its kind."""
    config = served_config(put(tmp_path, place, LIGHTGBM.read_bytes()))
    assert (config.backend, tensors(config)) == ("fil", FIL)
    words = {key: it.string_value for key, it in config.parameters.items()}
    assert words == {"model_type": "lightgbm", "output_class": "false"}
    assert config.default_model_filename == ("lgbm.txt" if place == "lgbm.txt" else "")


@pytest.mark.parametrize("place", ["xgboost.json", "1/model.xgb"])
def test_forest_that_is_a_classifier(place: str, tmp_path: Path) -> None:
    """Whether classes or probabilities are wanted, no file says: the config to paste says both."""
    put(tmp_path, place, XGBOOST.read_bytes())
    with pytest.raises(ConfigIncomplete, match="which answers probabilities, one number") as error:
        planned(tmp_path)
    (pasted,) = re.findall("`(.*)`", str(error.value))
    assert pasted.startswith('backend: "fil" ')
    assert "SERVE_AUTO_COMPLETE" not in str(error.value)  # fil completes nothing
    (tmp_path / "config.pbtxt").write_text(pasted)
    config = served_config(tmp_path)
    assert config.parameters["predict_proba"].string_value == "true"
    assert [it.dims for it in config.input] == [[4]]
    assert config.default_model_filename == ("" if place == "xgboost.json" else "model.xgb")


@pytest.mark.parametrize(
    ("written", "width"),
    [
        ("output_class: true", 1),
        ("is_classifier: true", 1),
        ("is_classifier: false", 1),
        ("is_classifier: true predict_proba: true", 1),
        ("", None),
    ],
)
def test_forest_of_a_given_kind(written: str, width: int | None, tmp_path: Path) -> None:
    """A config that says which forest and which answer has its tensors by the file."""
    words = dict(zip(*[iter(written.replace(":", "").split())] * 2, strict=True))
    lines = [
        f'parameters {{ key: "{key}" value {{ string_value: "{word}" }} }}'
        for key, word in {"model_type": "xgboost_json", **words}.items()
    ]
    put(tmp_path, "m/1/xgboost.json", XGBOOST.read_bytes())
    text = "\n".join(['backend: "fil"  # mine', "max_batch_size: 64", *lines])
    put(tmp_path, "m/config.pbtxt", text.encode())
    if width is None:
        with pytest.raises(
            ConfigIncomplete, match=r"`input` is missing; add: `input .*dims: \[4\]"
        ):
            planned(tmp_path, strict=False)
        return
    assert (planned(tmp_path).models[0].config_text or "").startswith(text)
    assert tensors(served_config(tmp_path)) == [
        ("input__0", "TYPE_FP32", [4]),
        ("output__0", "TYPE_FP32", [width]),
    ]


def test_config_without_tensors(tmp_path: Path) -> None:
    """What an ONNX model's config leaves out is as ONNX Runtime's backend would complete it."""
    put(tmp_path, "m/1/model.onnx", ONNX)
    put(tmp_path, "m/config.pbtxt", b'backend: "onnxruntime" max_batch_size: 8')
    config = served_config(tmp_path)
    assert tensors(config) == [
        ("x", "TYPE_FP32", [4]),
        ("ids", "TYPE_INT64", [1]),
        ("y", "TYPE_FP32", [2]),
    ]
    assert config.input[1].HasField("reshape")
    put(tmp_path, "m/config.pbtxt", b'output { name: "z" data_type: TYPE_FP32 dims: [ 2 ] }')
    assert [it[0] for it in tensors(served_config(tmp_path))] == ["x", "ids", "z"]


def test_fixed_batch_is_no_batch(tmp_path: Path) -> None:
    """A model whose first size is fixed is not completed for a config that wants batches."""
    put(tmp_path, "m/1/model.onnx", onnx_model([("x", 1, (1, 4))], [("y", 1, (1, 2))]))
    put(tmp_path, "m/config.pbtxt", b'backend: "onnxruntime" max_batch_size: 8')
    with pytest.raises(ConfigIncomplete, match=r"`input` is missing; add: .*SERVE_AUTO_COMPLETE"):
        planned(tmp_path)


@pytest.mark.parametrize(
    ("name", "pasted"),
    [
        ("model.pt", r'backend: "pytorch" input { name: "user_id" .*"item_id".* "OUTPUT__0"'),
        ("model.pt2", r'backend: "pytorch" platform: "torch_aoti" input { name: "INPUT__0"'),
        ("model.plan", r'backend: "tensorrt" input { name: "INPUT" '),
        ("net.engine", r'backend: "tensorrt" .*default_model_filename: "net.engine"'),
        ("model.xml", r'backend: "openvino" '),
        ("model.graphdef", r'backend: "tensorflow" platform: "tensorflow_graphdef"'),
        ("model.onnx", r'backend: "onnxruntime" '),
        ("model.dali", r'backend: "dali" '),
        ("model.json", r'backend: "vllm" instance_group { count: 1 kind: KIND_MODEL }'),
    ],
)
@pytest.mark.parametrize("place", ["", "1/", "m/1/"])
def test_what_to_write(name: str, pasted: str, place: str, tmp_path: Path) -> None:
    """A file that does not say its tensors is refused with the config that it needs."""
    content = {"model.pt": TORCHSCRIPT.read_bytes(), "model.pt2": TORCHSCRIPT.read_bytes()}
    content["model.json"] = b'{"model": "facebook/opt"}'
    put(tmp_path, f"{place}{name}", content.get(name, b"x"))
    with pytest.raises(ConfigIncomplete, match=f"no such file; write a config.pbtxt: `{pasted}"):
        planned(tmp_path)
    completes = name not in ("model.pt", "model.pt2", "model.graphdef", "net.engine")
    if completes:  # the backend is asked
        assert planned(tmp_path, strict=False).models[0].config_text is None
    else:
        with pytest.raises(ConfigIncomplete, match=r"write a config\.pbtxt: `backend"):
            planned(tmp_path, strict=False)


def test_pasted_config_beside_the_file(tmp_path: Path) -> None:
    """A config.pbtxt beside a bare file is that model's; labels that it names are found."""
    shutil.copy(TORCHSCRIPT, tmp_path / "model.pt")
    with pytest.raises(ConfigIncomplete) as error:
        planned(tmp_path)
    (pasted,) = re.findall("`(.*)`", str(error.value))
    labelled = pasted.replace("output {", 'output { label_filename: "labels.txt"')
    (tmp_path / "config.pbtxt").write_text(labelled)
    (tmp_path / "labels.txt").write_text("no\nyes\n")
    (model,) = planned(tmp_path).models
    assert {name for name, _ in model.links} == {"1/model.pt", "1/labels.txt", "labels.txt"}


def test_several_files(tmp_path: Path) -> None:
    """Of two files that may be the model none is taken; Triton's own name decides."""
    put(tmp_path, "a.onnx", ONNX)
    put(tmp_path, "b.onnx", ONNX)
    with pytest.raises(RepositoryUnusable, match=r"2 files in it.*\(a\.onnx, b\.onnx\)"):
        planned(tmp_path)
    put(tmp_path, "model.onnx", ONNX)
    assert served_config(tmp_path).default_model_filename == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", b'{"learning_rate": "1"}'),
        ("notes.txt", b"tree of models"),
        ("model.json", b'["model"]'),
        ("model.py", b""),
        ("weights.bin", b"x"),
        ("stats.json", b'{"learner": 3}'),
        ("tokenizer.json", b'{"version": "1.0", "truncation": null}'),
        ("spiece.model", b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\2" * 9),
        ("._model.onnx", ONNX),
    ],
)
def test_files_that_are_no_models(name: str, content: bytes, tmp_path: Path) -> None:
    """A file is no model by its end alone where many others end so."""
    with pytest.raises(RepositoryUnusable, match="no model directory in it"):
        planned(put(tmp_path, name, content))


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        (
            "model.onnx",
            b"version https://git-lfs.github.com/spec/v1\noid sha256:",
            "Git LFS|pointer",
        ),
        ("model.plan", b"", "it is empty"),
        ("model.pt", b"PK\3\4", "no whole zip archive"),
    ],
)
def test_files_that_hold_nothing(name: str, content: bytes, found: str, tmp_path: Path) -> None:
    """A bare file that cannot be a model is said to be none, before any config is asked for."""
    with pytest.raises(PayloadBroken, match=found):
        planned(put(tmp_path, name, content))


@pytest.mark.parametrize("name", ["config.pbtxt.txt", "Config.pbtxt"])
def test_config_under_another_name(name: str, tmp_path: Path) -> None:
    """No config is made where one is there under another name."""
    put(tmp_path, "model.onnx", ONNX)
    put(tmp_path, name, b'backend: "onnxruntime" max_batch_size: 8')
    with pytest.raises(ConfigIncomplete, match=f"rename {name} to it"):
        planned(tmp_path)


def test_packed_bare_model(tmp_path: Path) -> None:
    """A bare model is packed below a name, and is the same model there."""
    put(tmp_path, "model.onnx", ONNX)
    assert [it.path for it in find_packed_tree(tmp_path).entries] == ["model", "model/model.onnx"]


@pytest.mark.parametrize("place", ["", "1/"])
@pytest.mark.parametrize("beside", ["._resnet.onnx", ".backup.onnx", "spiece.model", "stats.json"])
def test_files_beside_the_model(beside: str, place: str, tmp_path: Path) -> None:
    """What macOS's tar, an editor or a tokenizer leaves beside a model is no second model."""
    put(tmp_path, f"{place}resnet.onnx", ONNX)
    put(tmp_path, f"{place}{beside}", b'{"learner": 3}' * 30)
    assert served_config(tmp_path).default_model_filename == "resnet.onnx"


@pytest.mark.parametrize("name", ["model.lgb", "model.lgbm", "m.bin", "lightgbm", "m.txt"])
def test_forests_names(name: str, tmp_path: Path) -> None:
    """LightGBM's text is known by how it begins, however people call it, and on Windows, too."""
    content = LIGHTGBM.read_bytes()
    put(tmp_path, name, content.replace(b"\n", b"\r\n") if name == "m.txt" else content)
    config = served_config(tmp_path)
    assert tensors(config) == FIL
    assert config.default_model_filename == name


@pytest.mark.parametrize("mark", [b"binf", b""])
def test_xgboosts_binary_format(mark: bytes, tmp_path: Path) -> None:
    """XGBoost's old format is known by its numbers, with the mark of older releases or without."""
    content = mark + struct.pack("<fIi2i", 0.5, 3, 0, 1, 0) + bytes(112)
    with pytest.raises(ConfigIncomplete, match='string_value: "xgboost" '):
        planned(put(tmp_path, "m.model", content))


def test_onnx_that_answers_no_tensor(tmp_path: Path) -> None:
    """What skl2onnx makes of a classifier puts out maps: no config and no setting would help."""
    maps = field(2, field(4, field(1, field(5, field(1, 7)))))
    graph = onnx_graph([("x", 1, (-1, 4))], [("output_label", 7, (-1,))])
    graph += field(12, field(1, "output_probability") + maps)
    put(tmp_path, "model.onnx", field(1, 8) + field(7, graph))
    for strict in (True, False):
        with pytest.raises(ConfigIncomplete, match=r"'output_probability'.*zipmap") as error:
            planned(tmp_path, strict=strict)
        assert "SERVE_AUTO_COMPLETE" not in str(error.value)


def test_file_beside_an_empty_version(tmp_path: Path) -> None:
    """An empty version is told before any config is asked for."""
    (tmp_path / "1").mkdir()
    with pytest.raises(PayloadMissing, match="found nothing"):
        planned(put(tmp_path, "model.onnx", ONNX))


def test_several_bare_models(tmp_path: Path) -> None:
    """A folder of bare models is no archive: each of them is one."""
    put(tmp_path, "a/model.onnx", ONNX)
    put(tmp_path, "b/model.onnx", ONNX)
    with pytest.raises(RepositoryUnusable, match=r"a folder of 2 archives \(a, b\)"):
        planned(tmp_path)


def xgboost_json(objective: str, features: str = "3", classes: str = "0") -> bytes:
    """What XGBoost writes, with a name of a feature that looks like its parameters."""
    parameters = {"num_class": classes, "num_feature": features, "num_target": "1"}
    names = ['"learner_model_param":{"num_feature":"9"},"objective":{"name":"reg:x"}}}']
    learner = {"feature_names": names, "gradient_booster": {"model": {"trees": [{}]}}}
    learner |= {"learner_model_param": parameters, "objective": {"name": objective}}
    return json.dumps({"learner": learner, "version": [2, 1, 1]}, separators=(",", ":")).encode()


def ubj_text(text: str) -> bytes:
    return b"SL" + struct.pack(">q", len(text)) + text.encode()


def xgboost_ubj(objective: str) -> bytes:
    key = b"L" + struct.pack(">q", 7)
    head = b"{" + key + b"learner{" + b"L" + struct.pack(">q", 19) + b"learner_model_param{"
    rest = b"".join(
        b"L" + struct.pack(">q", len(name)) + name.encode() + ubj_text(word)
        for name, word in {"num_class": "3", "num_feature": "11", "num_target": "1"}.items()
    )
    rest += b"}L" + struct.pack(">q", 9) + b"objective{L" + struct.pack(">q", 4) + b"name"
    return head + rest + ubj_text(objective) + b"}}}"


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("xgboost.json", xgboost_json("reg:squarederror"), 3),
        ("xgboost.json", xgboost_json("rank:ndcg"), 3),
        ("xgboost.json", xgboost_json("multi:softprob", classes="5"), r"dims: \[5\].*, 5 numbers"),
        ("xgboost.json", xgboost_json("mine"), "with output_class true where it is a classifier"),
        (
            "xgboost.json",
            xgboost_json("reg:squarederror", "many"),
            r"dims: \[-1\].*features in the",
        ),
        ("xgboost.json", xgboost_json("reg:x")[:-30], "number of features in the place of -1"),
        ("xgboost.ubj", xgboost_ubj("multi:softmax"), r"dims: \[11\].*dims: \[3\].*, 3 numbers"),
        ("xgboost.ubj", xgboost_ubj("count:poisson"), 11),
        ("xgboost.model", b"binf" + bytes(100), 'string_value: "xgboost" .*number of features'),
        ("checkpoint.tl", b"\4\0", "treelite_checkpoint"),
    ],
)
def test_forests_files(name: str, content: bytes, found: int | str, tmp_path: Path) -> None:
    """Features, classes and objective come from where the library writes them, not from names."""
    put(tmp_path, name, content)
    if isinstance(found, int):
        assert [*served_config(tmp_path).input[0].dims] == [found]
        return
    with pytest.raises(ConfigIncomplete, match=found):
        planned(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        onnx_model([("x", 1, (-1, 4))], []),
        onnx_model([("x", 1, (0, 4))], [("y", 1, (1,))]),
        onnx_model([("x", 9999, (4,))], [("y", 1, (2,))]),
        onnx_model([("x", 1, (4,)), ("x", 1, (4,))], [("y", 1, (2,))]),
        ONNX[:-40],
        b"\xff" * 100,
    ],
)
def test_onnx_that_does_not_say(content: bytes, tmp_path: Path) -> None:
    """An ONNX file that is cut or says only a part is not completed from the part."""
    with pytest.raises(ConfigIncomplete, match=r'write a config\.pbtxt: `backend: "onnxruntime"'):
        planned(put(tmp_path, "model.onnx", content))


def test_weights_alone(tmp_path: Path) -> None:
    """What torch.save writes is said to be no TorchScript: no config would help."""
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\2}q\0.")
    with pytest.raises(ConfigIncomplete, match=r"is no TorchScript.* with torch\.jit\.save$"):
        planned(tmp_path)


@pytest.mark.parametrize("field", ["sequence_batching {}", 'runtime: "model.py"'])
def test_inputs_that_no_request_has(field: str, tmp_path: Path) -> None:
    """Where an input of the file may be a control or a state, none is declared for requests."""
    put(tmp_path, "m/1/model.onnx", ONNX)
    put(tmp_path, "m/config.pbtxt", f'backend: "onnxruntime" {field}'.encode())
    with pytest.raises(ConfigIncomplete, match="`input` is missing; add it, or set SERVE_AUTO"):
        planned(tmp_path)


def test_sagemakers_xgboost(tmp_path: Path) -> None:
    """What SageMaker's XGBoost leaves has no ending, and is known by its content."""
    put(tmp_path, "xgboost-model", xgboost_json("rank:ndcg"))
    assert served_config(tmp_path).default_model_filename == "xgboost-model"


@pytest.mark.parametrize(
    "content",
    [
        saved_model([("x", 1, (-1, 4))], [("y", 1, (-1, 2))], tag="train"),
        saved_model([("x", 1, (-1, 4))], [("y", 1, (-1, 2))], signature="predict"),
        saved_model([("x", 1, ())], [("y", 1, (-1, 2))]),
        SAVED[:-5],
    ],
)
def test_saved_model_that_does_not_say(content: bytes, tmp_path: Path) -> None:
    """Without the default signature, or with a scalar, somebody has to choose."""
    put(tmp_path, "model.savedmodel/saved_model.pb", content)
    with pytest.raises(ConfigIncomplete, match=r"tensorflow_savedmodel.*SERVE_AUTO_COMPLETE=true"):
        planned(tmp_path)


def test_weights_are_not_read(tmp_path: Path) -> None:
    """Of an ONNX file of gigabytes only what stands between its weights is read."""
    graph = onnx_graph([("x", 1, (-1, 4))], [("y", 1, (-1, 2))])
    size = 2**33
    weight = varint(5 << 3 | 2) + varint(size + 6) + varint(9 << 3 | 2) + varint(size)
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.write(varint(7 << 3 | 2) + varint(len(weight) + size + len(graph)) + weight)
        file.seek(size, 1)
        file.write(graph)
    assert tensors(served_config(tmp_path))[0] == ("x", "TYPE_FP32", [-1, 4])


@pytest.mark.parametrize(
    ("code", "named"),
    [
        (
            "forward(self: __torch__.Net,\n    user: Tensor,\n    item: Tensor) -> Tensor",
            ["user", "item"],
        ),
        ("forward(s: __torch__.Net,\n    x: Tensor) -> Tuple[Tensor, Tensor]", ["x", "OUTPUT__1"]),
        ("forward(self: __torch__.Net,\n    x: List[Tensor]) -> Tensor", ["INPUT__0"]),
        ("forward(self: __torch__.Net) -> Tensor", ["INPUT__0"]),
        ("backward(self: __torch__.Net) -> Tensor", ["INPUT__0"]),
    ],
)
def test_torchscripts_arguments(code: str, named: list[str], tmp_path: Path) -> None:
    """The config to paste names the arguments of forward, where all are tensors."""
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        archive.writestr("net/constants.pkl", b"")
        archive.writestr("net/data.pkl", b"\x80\2c__torch__\nNet\nq\0)\x81}b.")
        archive.writestr("net/code/__torch__.py", f"class Net(Module):\n  def {code}:\n    pass\n")
    with pytest.raises(ConfigIncomplete) as error:
        planned(tmp_path)
    assert all(f'name: "{name}"' in str(error.value) for name in named)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("xgboost.model", xgboost_json("reg:x"), "xgboost.model"),
        ("xgboost.json", xgboost_ubj("reg:x"), "xgboost.json"),
        ("xgboost.model", xgboost_ubj("reg:x"), "xgboost.model"),
        ("xgboost.ubj", xgboost_ubj("reg:x"), ""),
        ("xgboost.json", xgboost_json("reg:x"), ""),
    ],
)
def test_newer_format_under_an_older_name(
    name: str, content: bytes, named: str, tmp_path: Path
) -> None:
    """fil looks for the name of a format: a file that has another format's name is named."""
    put(tmp_path, name, content)
    assert served_config(tmp_path).default_model_filename == named
