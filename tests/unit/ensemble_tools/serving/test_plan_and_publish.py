"""What is served as delivered, what is refused, and how a plan comes to disk and goes again."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.graph_reader import read_executor_graph
from ensemble_tools.archive.repository import read_repository
from ensemble_tools.errors import (
    ArchiveError,
    ConfigIncomplete,
    EnsembleInvalid,
    GraphNotExpressible,
    IllegalName,
    PayloadBroken,
    PayloadMissing,
    RepositoryUnusable,
)
from ensemble_tools.explain.text import explain_plan
from ensemble_tools.serving.compilation import Compile
from ensemble_tools.serving.ensemble_tensors import check_ensemble
from ensemble_tools.serving.layout import write_layout
from ensemble_tools.serving.namespace import NAME_MAX, Namespace
from ensemble_tools.serving.opened_archive import read_archive
from ensemble_tools.serving.plan import (
    Choices,
    Form,
    PublishedModel,
    Rewrite,
    ServingPlan,
    plan_archive,
)
from ensemble_tools.serving.publish import MAX_DEPTH, publish, retract
from tests.support.category_files import parquet

ROOT = Path(__file__).parents[4]
TENSORS = (
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } '
    'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
)
EXPORT = Path(__file__).parents[4] / "examples/merlin/dense/repository"
PYTHON = f'backend: "python" {TENSORS}'


def add(root: Path, name: str, config: str | None = PYTHON, payload: str = "1/model.py") -> Path:
    """A model directory; a payload that ends in `/` is a directory."""
    directory = root / name
    directory.mkdir(parents=True, exist_ok=True)
    if config is not None:
        (directory / "config.pbtxt").write_text(config)
    if payload.endswith("/"):
        (directory / payload).mkdir(parents=True, exist_ok=True)
    elif payload:
        (directory / payload).parent.mkdir(parents=True)
        (directory / payload).touch()
    return root


def step(model: str, source: str, target: str) -> str:
    return (
        f'step {{ model_name: "{model}" model_version: -1 '
        f'input_map {{ key: "i" value: "{source}" }} output_map {{ key: "o" value: "{target}" }} }}'
    )


def ensemble(*steps: str) -> str:
    return f'platform: "ensemble" {TENSORS} ensemble_scheduling {{ {" ".join(steps)} }}'


#: What messages are to call the settings, as the container's do.


def planned(root: Path, *, strict: bool = True, entry: str | None = None) -> ServingPlan:
    repository = read_repository(root, entry)
    return plan_archive(repository, None, Namespace("hash"), Choices(strict=strict))


def test_the_longest_name(tmp_path: Path) -> None:
    """It is the entry model's alone: no name of a step has to be made for that."""
    name = "m" * NAME_MAX
    repository = read_repository(add(tmp_path, "entry", f'backend: "python" {TENSORS}'))
    assert plan_archive(repository, None, Namespace(name)).triton_names == (name,)
    dense = read_repository(Path(__file__).parents[4] / "examples/merlin/dense/repository")
    with pytest.raises(IllegalName, match="use a shorter name"):
        plan_archive(dense, read_executor_graph(dense), Namespace(name))


def config(model: PublishedModel) -> pb.ModelConfig:
    return text_format.Parse(model.config_text or "", pb.ModelConfig(), allow_unknown_field=True)


def files(root: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(root)): (
            str(path.readlink()) if path.is_symlink() else path.read_bytes()
        )
        if path.is_symlink()
        else path.read_bytes()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def followed(root: Path) -> dict[str, bytes | bool]:
    """What is below, where links lead."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else path.is_dir()
        for path in root.rglob("*")
    }


def test_single_model(tmp_path: Path) -> None:
    """A single model is served as delivered under the model name."""
    made = planned(add(tmp_path, "mine", f'name: "mine" {PYTHON}'))
    assert (made.form, made.triton_names) == (Form.AS_DELIVERED, ("hash",))
    assert config(made.models[0]).name == "hash"
    assert made.source_names == {"hash": "mine"}


def test_ensemble_of_ensembles(tmp_path: Path) -> None:
    """Ensembles keep their wiring; names are spaced, steps come first, versions are made."""
    add(tmp_path, "a")
    add(tmp_path, "inner", ensemble(step("a", "i", "o")), payload="")
    add(tmp_path, "outer", ensemble(step("inner", "i", "x"), step("a", "x", "o")), payload="")
    made = planned(tmp_path)
    assert made.triton_names == ("hash.a", "hash.inner", "hash")
    outer = config(made.models[2]).ensemble_scheduling.step
    assert [(one.model_name, dict(one.input_map)) for one in outer] == [
        ("hash.inner", {"i": "i"}),
        ("hash.a", {"i": "x"}),
    ]
    assert [model.empty_versions for model in made.models] == [(), (1,), (1,)]


def test_users_ensemble_beside_an_executor(tmp_path: Path) -> None:
    """Case 11: the user's own ensemble is served; the executor is left out, and that is said."""
    add(tmp_path, "0_w")
    add(tmp_path, "mine", ensemble(step("0_w", "i", "o")))
    merlin = f'platform: "merlin_executor" {PYTHON}'
    add(tmp_path, "executor_model", merlin, "1/ensemble/ensemble.pkl")
    made = planned(tmp_path)
    assert made.triton_names == ("hash.0_w", "hash")
    assert made.models[1].source_name == "mine"
    assert made.notes == ("executor_model is not served: the entry model mine does not use it",)


def test_unknown_field_is_kept(tmp_path: Path) -> None:
    """A field that only a newer Triton knows stays in the published text, and is doubted."""
    made = planned(add(tmp_path, "m", f'{PYTHON}\nfuture {{ name: "x" }}'))
    assert made.models[0].config_text == f'{PYTHON}\nfuture {{ name: "x" }}'
    assert made.doubts == (
        "m/config.pbtxt has a field that this container does not know "
        '(line 2: no field named "future"); it is passed on as it is',
    )
    assert f"note: {made.doubts[0]}" in list(explain_plan(made))
    assert planned(add(tmp_path / "known", "m")).doubts == ()


M = ("m", PYTHON, "1/model.py")
REFUSED: dict[str, tuple[list[tuple[str, str | None, str]], type[ArchiveError], str]] = {
    "circle": (
        [("a", ensemble(step("b", "i", "o")), ""), ("b", ensemble(step("a", "i", "o")), "")],
        EnsembleInvalid,
        r"a/config\.pbtxt: the ensemble contains itself \(a → b → a\)",
    ),
    "itself": (
        [("a", ensemble(step("a", "i", "o")), "")],
        EnsembleInvalid,
        "contains itself",
    ),
    "missing step": (
        [("a", ensemble(step("b", "i", "o")), "")],
        EnsembleInvalid,
        r"the step 'b' is not in the archive; add the model directory b/ beside",
    ),
    "circle of tensors": (
        [("e", ensemble(step("m", "x", "y"), step("m", "y", "x")), ""), M],
        EnsembleInvalid,
        "the steps go in a circle: m needs the tensor 'x'",
    ),
    "tensor from nowhere": (
        [("e", ensemble(step("m", "x", "o")), ""), M],
        EnsembleInvalid,
        "needs the tensor 'x', which no step and no input provides",
    ),
    "two producers": (
        [("e", ensemble(step("m", "i", "o"), step("m", "i", "o")), ""), M],
        EnsembleInvalid,
        "'o' comes from m and from m",
    ),
    "producer of an input": (
        [("e", ensemble(step("m", "i", "i")), ""), M],
        EnsembleInvalid,
        "'i' comes from the request and from m",
    ),
    "output from nowhere": (
        [("e", ensemble(step("m", "i", "x")), ""), M],
        EnsembleInvalid,
        "no step puts out the ensemble's output 'o'",
    ),
    "no steps": ([("e", f'platform: "ensemble" {TENSORS}', "")], ConfigIncomplete, "step"),
    "no config": ([("m", None, "1/model.py")], ConfigIncomplete, "SERVE_AUTO_COMPLETE"),
    "no input": ([("m", 'backend: "python"', "1/model.py")], ConfigIncomplete, "`input`"),
    "no name": ([("m", "input { data_type: TYPE_FP32 }", "1/x")], ConfigIncomplete, "input.name"),
    "no type": ([("m", 'input { name: "i" }', "1/x")], ConfigIncomplete, r"input\['i'\].data_type"),
    "no such version": (
        [("m", f"{PYTHON} version_policy {{ specific {{ versions: [1, 3] }} }}", "1/model.py")],
        PayloadMissing,
        "version_policy names 3, and the version directories are 1; add",
    ),
    "no version by policy": (
        [("m", f"{PYTHON} version_policy {{ specific {{ }} }}", "1/model.py")],
        PayloadMissing,
        "version_policy names no version",
    ),
    "no version": ([("m", PYTHON, "")], PayloadMissing, "no version directory"),
    "odd versions": (
        [("m", PYTHON, "01/model.py"), ("m", None, "-1/"), ("m", None, "v1/")],
        PayloadMissing,
        r"no version directory in it \(found -1/, 01/, v1/\).*a number from 1 on",
    ),
    "empty version": ([("m", PYTHON, "1/")], PayloadMissing, "m/1: expected model.py.*nothing"),
    "other payload": ([("m", PYTHON, "1/x")], PayloadMissing, "expected model.py in it, found x"),
    "no named payload": (
        [("m", f'{PYTHON} default_model_filename: "my.py"', "1/model.py")],
        PayloadMissing,
        "expected my.py",
    ),
    "platform's payload": (
        [("m", f'platform: "onnxruntime_onnx" {TENSORS}', "1/model.py")],
        PayloadMissing,
        "expected model.onnx",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str, tmp_path: Path) -> None:
    """What Triton could not load, or would answer nothing with, is refused by file and remedy."""
    models, error, message = REFUSED[case]
    for name, text, payload in models:
        add(tmp_path, name, text, payload)
    with pytest.raises(error, match=message) as refusal:
        planned(tmp_path)
    assert str(refusal.value).startswith(str(tmp_path / models[0][0]))


def test_auto_completion(tmp_path: Path) -> None:
    """With auto-completion a config may lack what the backend can say, and be missing."""
    assert planned(add(tmp_path / "one", "m", None), strict=False).models[0].config_text is None
    assert planned(add(tmp_path / "two", "m", 'backend: "python"'), strict=False).models


def test_executor_without_config(tmp_path: Path) -> None:
    """Without its config an executor is not known as one, and the refusal says what it lacks."""
    source = ROOT / "examples/merlin/dense/repository"
    for path in source.iterdir():
        (tmp_path / path.name).mkdir()
        for entry in path.iterdir():
            if (path.name, entry.name) != ("executor_model", "config.pbtxt"):
                copy = shutil.copytree if entry.is_dir() else shutil.copy
                copy(entry, tmp_path / path.name / entry.name)
    with pytest.raises(RepositoryUnusable, match=r"executor_model holds .*merlin_executor"):
        read_repository(tmp_path)


def test_step_name_too_long(tmp_path: Path) -> None:
    """A step whose published name no directory could bear is refused."""
    add(tmp_path, "s" * 251)
    add(tmp_path, "e", ensemble(step("s" * 251, "i", "o")), payload="")
    with pytest.raises(IllegalName, match="255"):
        planned(tmp_path)


def test_payload_of_the_served_version(tmp_path: Path) -> None:
    """What is looked for in a version is looked for in the one that the policy serves."""
    add(tmp_path, "m", f"{PYTHON} version_policy {{ specific {{ versions: 1 }} }}")
    (tmp_path / "m/2").mkdir()
    assert planned(tmp_path).triton_names == ("hash",)


@pytest.mark.parametrize("strict", [True, False])
def test_remedy_of_an_ensemble(strict: bool, tmp_path: Path) -> None:
    """What auto-completion does not help is not sent there: ensembles, executors' children."""
    add(tmp_path / "one", "m")
    add(tmp_path / "one", "e", ensemble(step("m", "i", "o")).replace("data_type: TYPE_FP32", ""))
    with pytest.raises(ConfigIncomplete, match="; declare it"):
        planned(tmp_path / "one", strict=strict)
    root = own_executor(tmp_path, "")
    config_path = root / "1_predictpytorchtriton/config.pbtxt"
    config_path.write_text(re.sub("data_type: .*", "", config_path.read_text()))
    repository = read_repository(root)
    with pytest.raises(ConfigIncomplete, match="; export the model again, or declare it"):
        plan_archive(
            repository, read_executor_graph(repository), Namespace("m"), Choices(strict=strict)
        )


@pytest.mark.slow
def test_long_chain_of_ensembles(tmp_path: Path) -> None:
    """Ensembles in ensembles, however many, are planned; a long circle is named in one line."""
    add(tmp_path, "s0")
    for number in range(1, 1_500):
        add(tmp_path, f"s{number}", ensemble(step(f"s{number - 1}", "i", "o")), payload="")
    assert len(planned(tmp_path).models) == 1_500
    (tmp_path / "s0/config.pbtxt").write_text(ensemble(step("s1499", "i", "o")))
    with pytest.raises(EnsembleInvalid, match="contains itself") as refusal:
        planned(tmp_path)
    assert len(str(refusal.value)) < 1_000


@pytest.mark.slow
def test_many_steps(tmp_path: Path) -> None:
    """An ensemble of ten thousand steps, in any order, takes no longer than its text is long."""
    count = 10_000
    names = ["i", *(f"t{number}" for number in range(1, count)), "o"]
    steps = [step("m", names[n], names[n + 1]) for n in reversed(range(count))]
    add(add(tmp_path, "m"), "e", ensemble(*steps), payload="")
    model = read_repository(tmp_path).entry
    assert model.config is not None
    assert len(model.config.steps) == count
    started = time.process_time()
    check_ensemble(model)
    assert time.process_time() - started < 1.0


def own_executor(tmp_path: Path, change: str) -> Path:
    """The dense example with another executor model.py."""
    root = tmp_path / "archive"
    shutil.copytree(ROOT / "examples/merlin/dense/repository", root)
    path = root / "executor_model/1/model.py"
    path.write_text(path.read_text() + change)
    return root


@pytest.mark.parametrize("change", ["\nx = 1\n", "\nthis is no python\n", "\0", "#" * 10**5])
def test_changed_executor(change: str, tmp_path: Path) -> None:
    """An executor with a model.py of its own is served as it is: an ensemble would lose it."""
    repository = read_repository(own_executor(tmp_path, change))
    graph = read_executor_graph(repository)
    made = plan_archive(repository, graph, Namespace("h"))
    assert made.form is Form.EXECUTOR
    assert "model.py is not the one that merlin-systems exports" in made.reasons[0]
    assert made.called == ("h.0_transformworkflowtriton", "h.1_predictpytorchtriton")
    with pytest.raises(GraphNotExpressible, match=r"model\.py is not the one that merlin-systems"):
        plan_archive(repository, graph, Namespace("h"), Choices(rewrite=Rewrite.ENSEMBLE))


def test_same_executor(tmp_path: Path) -> None:
    """Comments and docstrings are no change of an executor's model.py."""
    root = own_executor(tmp_path, "\n# comment\n")
    path = root / "executor_model/1/model.py"
    path.write_text('"""Another docstring."""\n' + path.read_text())
    assert read_executor_graph(read_repository(root)) is not None


def test_ensemble_as_an_executors_child(tmp_path: Path) -> None:
    """A child that is an ensemble itself is published with all of its steps."""
    root = own_executor(tmp_path, "")
    child = root / "1_predictpytorchtriton"
    text = (child / "config.pbtxt").read_text()
    child.rename(root / "real")
    (root / "real/config.pbtxt").write_text(text.replace("1_predictpytorchtriton", "real"))
    message = text_format.Parse(text, pb.ModelConfig())
    real = pb.ModelEnsembling.Step(model_name="real", model_version=-1)
    real.input_map.update({tensor.name: tensor.name for tensor in message.input})
    real.output_map.update({tensor.name: tensor.name for tensor in message.output})
    for field in ("backend", "instance_group", "parameters"):
        message.ClearField(field)
    message.platform = "ensemble"
    message.ensemble_scheduling.step.append(real)
    child.mkdir()
    (child / "config.pbtxt").write_text(text_format.MessageToString(message))
    repository = read_repository(root)
    made = plan_archive(repository, read_executor_graph(repository), Namespace("h"))
    assert made.form is Form.PURE_ENSEMBLE
    assert set(made.triton_names) == {
        "h.0_transformworkflowtriton",
        "h.real",
        "h.1_predictpytorchtriton",
        "h",
    }


# --- publish and retract --------------------------------------------------------------------------


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    root = add(tmp_path / "archive", "m")
    (root / "m" / "broken").symlink_to("nowhere")
    (root / "m" / "circle").symlink_to("circle")
    return add(root, "e", ensemble(step("m", "i", "o")), payload="")


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    (tmp_path / "serving").mkdir()
    return tmp_path / "serving"


def test_publish(archive: Path, serving: Path) -> None:
    """A published model is its config and links to its archive, which stays as it was."""
    before = files(archive)
    publish(planned(archive), serving)
    assert sorted(path.name for path in serving.iterdir()) == ["hash", "hash.m"]
    copied = serving / "hash/.archive/hash/m/1/model.py"
    assert copied.resolve() == (archive / "m/1/model.py").resolve()
    assert (serving / "hash.m/config.pbtxt").read_text() == PYTHON
    assert (serving / "hash/1").is_dir()
    assert files(archive) == before


@pytest.mark.parametrize("label", ["labels.txt", "text/deep/labels.txt"])
@pytest.mark.parametrize("backend", ["python", "onnxruntime"])
def test_labels(label: str, backend: str, tmp_path: Path, serving: Path) -> None:
    """tritonserver from 26.02 on follows links, and takes no labels outside of the directory."""
    written = PYTHON.replace("output {", f'output {{ label_filename: "{label}"').replace(
        "python", backend
    )
    payload = {"python": "1/model.py", "onnxruntime": "1/model.onnx"}[backend]
    model = add(tmp_path / "archive", "m", written, payload) / "m"
    (model / payload).write_text("not read")
    (model / label).parent.mkdir(parents=True, exist_ok=True)
    (model / label).write_text("no\nyes\n")
    (model / label).with_name("beside.txt").write_text("as it is")
    before = files(tmp_path / "archive")
    plan = planned(tmp_path / "archive")
    publish(plan, serving)
    published = serving / plan.entry
    place = published / label
    assert place.resolve().is_relative_to(published.resolve())
    assert place.read_text() == "no\nyes\n"
    assert place.with_name("beside.txt").read_text() == "as it is"
    retract(plan, serving)
    assert files(tmp_path / "archive") == before


@pytest.mark.parametrize("label", [".", "./", "none.txt", "1", "1/none.txt"])
def test_labels_that_are_none(label: str, tmp_path: Path, serving: Path) -> None:
    """tritonserver says what is wrong with them."""
    written = PYTHON.replace("output {", f'output {{ label_filename: "{label}"')
    plan = planned(add(tmp_path / "archive", "m", written))
    publish(plan, serving)
    assert (serving / plan.entry / "1/model.py").is_file()


def test_retract(archive: Path, serving: Path) -> None:
    """Retracting takes away what was published, twice if need be, and nothing of the archive."""
    before = files(archive)
    other = add(serving, "other")
    publish(planned(archive), serving)
    for _ in range(2):
        retract(planned(archive), serving)
        assert [path.name for path in other.iterdir()] == ["other"]
    assert files(archive) == before


def test_layout(archive: Path, serving: Path) -> None:
    """What an archive's own Python finds is the archive: its files, its links, its directories."""
    (archive / "common/inner").mkdir(parents=True)
    (archive / "common/inner/words.txt").write_text("words")
    (archive / "common/to_inner").symlink_to("inner")
    (archive / "m/1/words").symlink_to("../../common/to_inner/words.txt")
    (archive / "m/1/around").symlink_to(f"../../../{archive.name}/common")
    (archive / "m/1/absolute").symlink_to(archive.resolve() / "common")
    (archive / "m/1/nowhere").symlink_to("nothing")
    before = files(archive)
    publish(planned(archive), serving)
    copy = (serving / "hash/.archive/hash").resolve()
    assert not copy.is_relative_to(serving)
    assert followed(copy) == followed(archive)
    for link in ("words", "around", "absolute"):
        assert (copy / "m/1" / link).is_symlink()
    assert (copy / "m/1/around").resolve() == copy / "common"
    assert (copy / "m/1/absolute/..").resolve() == copy
    (copy / "common/inner/made.txt").write_text("")
    assert files(archive) == before
    retract(planned(archive), serving)
    assert not copy.exists()
    assert [*serving.parent.glob("archive-*")] == []


@pytest.mark.parametrize("entry", ["m", "e"])
def test_a_name_of_ours(entry: str, archive: Path, serving: Path) -> None:
    """An archive may have it, too: it is found where the archive has it."""
    (archive / entry / ".archive").symlink_to(archive / "m/1/model.py")
    before = files(archive)
    published = plan_archive(read_repository(archive, entry), None, Namespace("hash"))
    publish(published, serving)
    copied = serving / "hash/.archive/hash" / entry / ".archive"
    assert copied.resolve() == (archive / "m/1/model.py").resolve()
    retract(published, serving)
    assert [*serving.parent.glob("archive-*")] == []
    assert files(archive) == before


def test_a_layout_that_cannot_be_linked_to(archive: Path, tmp_path: Path) -> None:
    """Nothing of it is left."""
    entry = tmp_path / "work/serving/.staging-1/hash"
    entry.mkdir(parents=True)
    (entry / ".archive").touch()
    with pytest.raises(FileExistsError):
        write_layout(archive, entry)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["serving"]


def test_what_lies_beside_is_told(archive: Path) -> None:
    """And for whom it is there."""
    assert planned(archive).notes == ()
    (archive / "common").mkdir()
    (archive / "words.txt").touch()
    assert planned(archive).notes == (
        "beside the models there is common/, words.txt: it is there for m, at "
        'args["model_repository"]/../common/',
    )
    (archive / "m/config.pbtxt").write_text(f'platform: "onnxruntime_onnx" {TENSORS}')
    (archive / "m/1/model.onnx").write_bytes(b"a graph")
    (note,) = planned(archive).notes
    assert note.endswith("no Python model of the archive's own is served that could read it")


@pytest.mark.parametrize("taken", ["hash", "hash.m"])
def test_name_taken(taken: str, archive: Path, serving: Path) -> None:
    """A name that is in use stays its owner's, and nothing of the plan is left."""
    (serving / taken).mkdir()
    (serving / taken / "config.pbtxt").write_text("theirs")
    with pytest.raises(FileExistsError, match=taken):
        publish(planned(archive), serving)
    assert files(serving) == {f"{taken}/config.pbtxt": b"theirs"}
    assert [path.name for path in serving.iterdir()] == [taken]


@pytest.mark.parametrize("name", ["no/such/place", "\0", "x" * 300])
def test_write_error(name: str, archive: Path, serving: Path) -> None:
    """Whatever goes wrong while it is written, nothing is left in the serving repository."""
    good = planned(archive)
    broken = PublishedModel(name, "broken", "text")
    for models in ((*good.models, broken), (broken, *good.models)):
        with pytest.raises((OSError, ValueError)):
            publish(ServingPlan("hash", Form.AS_DELIVERED, "hash", models), serving)
        assert list(serving.iterdir()) == []


def test_never_half_of_a_model(archive: Path, serving: Path) -> None:
    """A model that could not be moved whole takes the ones before it away again."""
    made = planned(archive)
    twice = ServingPlan("hash", made.form, made.entry, (*made.models, made.models[0]))
    with pytest.raises(OSError, match=r"hash\.m"):
        publish(twice, serving)
    assert list(serving.iterdir()) == []


def test_version_that_is_a_link(tmp_path: Path, serving: Path) -> None:
    """What a python stub writes beside a model does not come into the archive through a link."""
    root = add(tmp_path / "archive", "m", payload="code/package/model.py")
    (root / "m/1").symlink_to("code/package")
    (root / "m/code/package/again").symlink_to("..")
    publish(ServingPlan("h", Form.AS_DELIVERED, "h", (everything(root / "m"),)), serving)
    (serving / "h/1/__pycache__").mkdir()
    assert not (serving / "h/1").is_symlink()
    assert (serving / "h/1/model.py").samefile(root / "m/code/package/model.py")
    assert not (root / "m/code/package/__pycache__").exists()


def everything(directory: Path) -> PublishedModel:
    return PublishedModel(
        "h", "m", "", tuple((p.name, p) for p in directory.iterdir() if p.name != "config.pbtxt")
    )


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A model with directories 1,500 deep; removed here, since pytest's own removal recurses."""
    model = add(tmp_path / "deep", "m") / "m"
    place = os.open(model, os.O_RDONLY)
    for _ in range(1_500):
        os.mkdir("d", dir_fd=place)
        inside = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = inside
    os.close(place)
    yield model
    subprocess.run(["rm", "-rf", model], check=True)


def test_directories_too_deep(deep: Path, serving: Path) -> None:
    """Directories in directories without end are an OSError, and nothing is left."""
    with pytest.raises(OSError, match=f"more than {MAX_DEPTH} deep"):
        publish(ServingPlan("h", Form.AS_DELIVERED, "h", (everything(deep),)), serving)
    assert list(serving.iterdir()) == []


@pytest.mark.slow
def test_links_that_multiply(tmp_path: Path, serving: Path) -> None:
    """A few links to directories with links cannot make files without end; nothing is left."""
    wide = add(tmp_path / "wide", "m") / "m"
    for number in range(40):
        (wide / f"x{number}").mkdir()
        for name in ("a", "b"):
            (wide / f"x{number}" / name).symlink_to(f"../x{number + 1}")
    with pytest.raises(OSError, match="lead to more than"):
        publish(ServingPlan("h", Form.AS_DELIVERED, "h", (everything(wide),)), serving)
    assert list(serving.iterdir()) == []


def test_no_serving_repository(archive: Path, tmp_path: Path) -> None:
    """Without the serving repository publishing is an OSError."""
    with pytest.raises(FileNotFoundError):
        publish(planned(archive), tmp_path / "nothing")


def test_category_file_of_a_workflow_that_nvtabular_serves(tmp_path: Path, serving: Path) -> None:
    """A file that stands for many times its size is refused, though nothing of ours reads it."""
    root = Path(shutil.copytree(EXPORT, tmp_path / "export"))
    place = root / "0_transformworkflowtriton/1/workflow/categories/unique.item_id.parquet"
    parquet(place, item_id=np.zeros(5_000_000, np.int64))
    repository = read_repository(root)
    graph = read_executor_graph(repository)
    delivered = plan_archive(repository, graph, Namespace("model"))
    with pytest.raises(PayloadBroken, match=r"unique\.item_id\.parquet: has 5000000 rows in"):
        publish(delivered, serving)
    assert not [*serving.iterdir()]
    for workflows in Compile:
        archive = read_archive(root, "model", workflows=workflows)
        assert "has 5000000 rows in" in str(archive.refusal)


@pytest.mark.parametrize("name", ["model.pt", "other.bin"])
def test_torchscript_that_unpacks_to_gigabytes(tmp_path: Path, name: str) -> None:
    """Torch takes as much memory as an entry is said to have, so the load is refused."""
    named = "" if name == "model.pt" else f'default_model_filename: "{name}"'
    root = add(tmp_path / "archive", "m", f'backend: "pytorch" {named} {TENSORS}', payload="")
    path = root / "m/1" / name
    path.parent.mkdir(exist_ok=True)
    zeros = bytes(2**20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("model/data.pkl", zeros)
    planned(root)
    content = path.read_bytes()
    entry = content.rindex(b"PK\1\2") + 24
    size = struct.pack("<I", 2**31)
    path.write_bytes(content[:entry] + size + content[entry + 4 :])
    found = rf"{name}: has \d+ bytes that unpack to 2147483648; save it with torch\.jit\.save"
    with pytest.raises(PayloadBroken, match=found):
        planned(root)


@pytest.mark.parametrize("name", ["model.pt", "other.bin"])
@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_torchscript_that_was_cut(tmp_path: Path, name: str, kept: float) -> None:
    """A zip archive without its end is one that torch does not load, and is refused before."""
    named = "" if name == "model.pt" else f'default_model_filename: "{name}"'
    root = add(tmp_path / "archive", "m", f'backend: "pytorch" {named} {TENSORS}', payload="")
    path = root / "m/1" / name
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", bytes(1000))
    planned(root)
    path.write_bytes(path.read_bytes()[: int(kept * path.stat().st_size)])
    found = r"no whole zip archive; .*torch\.jit\.save" if kept else "it is empty"
    with pytest.raises(PayloadBroken, match=f"{name}: .*{found}"):
        planned(root)
    config = root / "m/config.pbtxt"
    config.write_text(f'{config.read_text()}\nruntime: "model.py"')
    planned(root)  # weights that a program of the model's own reads
    config.write_text(config.read_text().replace('runtime: "model.py"', ""))
    (root / "m/1/model.py").touch()
    planned(root)


@pytest.mark.parametrize(
    ("config", "payload", "refused"),
    [
        ('platform: "onnxruntime_onnx"', "1/model.onnx", True),
        ('backend: "onnxruntime" default_model_filename: "m.onnx"', "1/m.onnx", True),
        ('platform: "tensorrt_plan"', "1/model.plan", True),
        ('backend: "fil"', "1/checkpoint.tl", True),
        ('backend: "python"', "1/model.py", False),
        ('backend: "ours" default_model_filename: "any"', "1/any", False),
    ],
)
def test_a_file_that_is_empty(tmp_path: Path, config: str, payload: str, refused: bool) -> None:
    """Triton's backends load nothing from it; a program may be without text, and a backend of the
    image's own knows what it reads.
    """
    root = add(tmp_path, "m", f"{config} {TENSORS}", payload)
    if not refused:
        planned(root)
        return
    with pytest.raises(PayloadBroken, match="it is empty; put the model's file there"):
        planned(root)
    (root / "m" / payload).write_bytes(b"\0")
    planned(root)


def test_backend_that_is_none_of_tritons(tmp_path: Path) -> None:
    """An image may have backends of its own: a note says what is needed, and what may be meant."""
    root = add(tmp_path / "misspelt", "m", f'backend: "pyton" {TENSORS}', payload="1/any")
    assert planned(root).notes == (
        "m/config.pbtxt: backend 'pyton' (did you mean python?) is none of Triton's: the image "
        "must have it",
    )
    root = add(tmp_path / "own", "m", f'backend: "ours" {TENSORS}', payload="1/any")
    assert planned(root).notes == (
        "m/config.pbtxt: backend 'ours' is none of Triton's: the image must have it",
    )
