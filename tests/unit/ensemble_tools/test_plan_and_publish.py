"""What is served as delivered, what is refused, and how a plan comes to disk and goes again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools import __main__ as command
from ensemble_tools.errors import (
    ArchiveError,
    ConfigIncomplete,
    EnsembleInvalid,
    IllegalName,
    PayloadMissing,
)
from ensemble_tools.graph_reader import read_executor_graph
from ensemble_tools.namespace import Namespace
from ensemble_tools.plan import Form, PublishedModel, ServingPlan, plan
from ensemble_tools.publish import publish, retract
from ensemble_tools.repository import read_repository

ROOT = Path(__file__).parents[3]
TENSORS = (
    'input { name: "i" data_type: TYPE_FP32 dims: 1 } '
    'output { name: "o" data_type: TYPE_FP32 dims: 1 }'
)
PYTHON = f'backend: "python" {TENSORS}'


def add(root: Path, name: str, config: str | None = PYTHON, payload: str = "1/model.py") -> Path:
    """A model directory; a payload that ends in `/` is a directory."""
    directory = root / name
    directory.mkdir(parents=True)
    if config is not None:
        (directory / "config.pbtxt").write_text(config)
    if payload.endswith("/"):
        (directory / payload).mkdir(parents=True)
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


def planned(root: Path, *, strict: bool = True, entry: str | None = None) -> ServingPlan:
    return plan(read_repository(root, entry), None, Namespace("hash"), strict=strict)


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
    add(tmp_path, "executor_model", PYTHON, "1/ensemble/ensemble.pkl")
    made = planned(tmp_path)
    assert made.triton_names == ("hash.0_w", "hash")
    assert made.models[1].source_name == "mine"
    assert made.notes == ("executor_model is not served: the entry model mine does not use it",)


def test_unknown_field_is_kept(tmp_path: Path) -> None:
    """A field that only a newer Triton knows stays in the published text."""
    made = planned(add(tmp_path, "m", f'{PYTHON} future {{ name: "x" }}'))
    assert made.models[0].config_text == f'{PYTHON} future {{ name: "x" }}'


M = ("m", PYTHON, "1/model.py")
REFUSED: dict[str, tuple[list[tuple[str, str | None, str]], type[ArchiveError], str]] = {
    "circle": (
        [("a", ensemble(step("b", "i", "o")), ""), ("b", ensemble(step("a", "i", "o")), "")],
        EnsembleInvalid, r"a/config\.pbtxt: the ensemble contains itself \(a → b → a\)",
    ),
    "itself": (
        [("a", ensemble(step("a", "i", "o")), "")], EnsembleInvalid, "contains itself",
    ),
    "missing step": (
        [("a", ensemble(step("b", "i", "o")), "")],
        EnsembleInvalid, r"the step 'b' is not in the archive; add the model directory b/ beside",
    ),
    "circle of tensors": (
        [("e", ensemble(step("m", "x", "y"), step("m", "y", "x")), ""), M],
        EnsembleInvalid, "the steps go in a circle: m needs the tensor 'x'",
    ),
    "tensor from nowhere": (
        [("e", ensemble(step("m", "x", "o")), ""), M],
        EnsembleInvalid, "needs the tensor 'x', which no step and no input provides",
    ),
    "two producers": (
        [("e", ensemble(step("m", "i", "o"), step("m", "i", "o")), ""), M],
        EnsembleInvalid, "'o' comes from m and from m",
    ),
    "producer of an input": (
        [("e", ensemble(step("m", "i", "i")), ""), M],
        EnsembleInvalid, "'i' comes from the request and from m",
    ),
    "output from nowhere": (
        [("e", ensemble(step("m", "i", "x")), ""), M],
        EnsembleInvalid, "no step puts out the ensemble's output 'o'",
    ),
    "no steps": ([("e", f'platform: "ensemble" {TENSORS}', "")], ConfigIncomplete, "step"),
    "no config": ([("m", None, "1/model.py")], ConfigIncomplete, "SERVE_AUTO_COMPLETE"),
    "no input": ([("m", 'backend: "python"', "1/model.py")], ConfigIncomplete, "`input`"),
    "no name": ([("m", "input { data_type: TYPE_FP32 }", "1/x")], ConfigIncomplete, "input.name"),
    "no type": ([("m", 'input { name: "i" }', "1/x")], ConfigIncomplete, r"input\['i'\].data_type"),
    "no version": ([("m", PYTHON, "")], PayloadMissing, "no version directory"),
    "empty version": ([("m", PYTHON, "1/")], PayloadMissing, "m/1: expected model.py.*nothing"),
    "other payload": ([("m", PYTHON, "1/x")], PayloadMissing, "expected model.py in it, found x"),
    "no named payload": (
        [("m", f'{PYTHON} default_model_filename: "my.py"', "1/model.py")],
        PayloadMissing, "expected my.py",
    ),
    "platform's payload": (
        [("m", f'platform: "onnxruntime_onnx" {TENSORS}', "1/model.py")],
        PayloadMissing, "expected model.onnx",
    ),
}  # fmt: skip


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
    """An executor's config is needed even with auto-completion: it says what the requests hold."""
    source = ROOT / "examples/merlin/dense/repository"
    for path in source.iterdir():
        (tmp_path / path.name).mkdir()
        for entry in path.iterdir():
            if (path.name, entry.name) != ("executor_model", "config.pbtxt"):
                (tmp_path / path.name / entry.name).symlink_to(entry)
    repository = read_repository(tmp_path)
    graph = read_executor_graph(repository)
    with pytest.raises(ConfigIncomplete, match=r"executor_model/config\.pbtxt"):
        plan(repository, graph, Namespace("m"), strict=False)


def test_step_name_too_long(tmp_path: Path) -> None:
    """A step whose published name no directory could bear is refused."""
    add(tmp_path, "s" * 251)
    add(tmp_path, "e", ensemble(step("s" * 251, "i", "o")), payload="")
    with pytest.raises(IllegalName, match="255"):
        planned(tmp_path)


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
    """A published model is its config and links into the archive; the archive stays as it was."""
    before = files(archive)
    publish(planned(archive), serving)
    assert sorted(path.name for path in serving.iterdir()) == ["hash", "hash.m"]
    assert (serving / "hash.m/1/model.py").resolve() == (archive / "m/1/model.py").resolve()
    assert (serving / "hash.m/config.pbtxt").read_text() == PYTHON
    assert (serving / "hash/1").is_dir()
    assert files(archive) == before


def test_retract(archive: Path, serving: Path) -> None:
    """Retracting takes away what was published, twice if need be, and nothing of the archive."""
    before = files(archive)
    other = add(serving, "other")
    publish(planned(archive), serving)
    for _ in range(2):
        retract(planned(archive), serving)
        assert [path.name for path in other.iterdir()] == ["other"]
    assert files(archive) == before


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


def test_no_serving_repository(archive: Path, tmp_path: Path) -> None:
    """Without the serving repository publishing is an OSError."""
    with pytest.raises(FileNotFoundError):
        publish(planned(archive), tmp_path / "nothing")


# --- python -m ensemble_tools ---------------------------------------------------------------------


def test_explain_golden(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`explain` prints archive, graph and plan, as written down beside this test."""
    monkeypatch.chdir(ROOT)
    assert command.main(["explain", "examples/merlin/two_workflows/repository"]) == command.SERVED
    golden = Path(__file__).with_name("explain_two_workflows.txt")
    assert capsys.readouterr().out == golden.read_text()


def test_explain_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An archive that cannot be served is explained, with its reason; the exit code is 1."""
    add(tmp_path, "m", PYTHON, payload="")
    assert command.main(["explain", str(tmp_path)]) == command.REFUSED
    assert "served as    nothing\nrefused: " in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["nothing-here"], [".", "--model-name", "../x"]])
def test_explain_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot even be looked at is an error on stderr, one line, and exit code 1."""
    assert command.main(["explain", *arguments]) == command.REFUSED
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["explain"], 2), (["x"], 2)])
def test_misuse(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Misuse prints the usage and exits with 2."""
    with pytest.raises(SystemExit) as leaving:
        command.main(arguments)
    assert leaving.value.code == code
    assert "usage: python -m ensemble_tools" in capsys.readouterr().err


def test_as_a_program() -> None:
    """`python -m ensemble_tools explain --help` says what it does and what its exit codes mean."""
    done = subprocess.run(
        [sys.executable, "-m", "ensemble_tools", "explain", "--help"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "Exit codes: 0 it can be served" in done.stdout
