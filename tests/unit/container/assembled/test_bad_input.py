"""Bad input gets a clear error and changes nothing.

The fixture `container` holds the second half: after each test the list of models and the files are
what they were, and the next good request is answered. What tritonserver alone refuses is in
tests/contract/test_contract_bad_input.py.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import models
from tests.support.container import ROOT
from tests.support.protocol import complaint, infer, values
from tests.unit.container.assembled.conftest import WITNESS, Archive
from tests.unit.container.assembled.container_on_fake import ContainerOnFake

Spoil = Callable[[Path], object]


@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"\xff", "no JSON"),
        (b"[]", "no object"),
        (b"3", "no object"),
        (b"null", "no object"),
        (b"{}", "`model_name`"),
        (b'{"model_name": "m1"}', "`url`"),
        (b'{"url": "/opt/ml/models/x/model"}', "`model_name`"),
        (b'{"model_name": 3, "url": "/x"}', "`model_name`: found int"),
        (b'{"model_name": null, "url": "/x"}', "`model_name`"),
        (b'{"model_name": "m1", "url": ["/x"]}', "`url`: found list"),
        (b'{"model_name": "m1", "url": {}}', "`url`: found dict"),
        (b'{"modelName": "m1", "url": "/x"}', "`model_name`"),
        (b"[" * 60_000, "no JSON"),
    ],
)
def test_bodies(body: bytes, fragment: str, container: ContainerOnFake) -> None:
    """A body that is no load request is refused, the field named."""
    answer = container.http.post("/models", content=body)
    assert answer.status_code == 400
    assert fragment in complaint(answer)


def test_a_body_that_is_too_large(container: ContainerOnFake) -> None:
    """What names a model is short: more than 64 KB are refused by their announcement."""
    answer = container.http.post("/models", content=b"[" * 100_000)
    assert answer.status_code == 413
    assert "found 100000 bytes, expected at most 65536" in complaint(answer)


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "/x", "a b", "n" * 5000, "a\nb", "é", "a~b", "%2e%2e", "a\0b"],
)
def test_names(name: str, container: ContainerOnFake, archive: Archive) -> None:
    """A name that is no safe path component is refused, and shown no longer than a line."""
    answer = container.load(name, archive(m=models.identity))
    assert answer.status_code == 400
    assert "model name" in complaint(answer)
    assert len(answer.content) < 600


@pytest.mark.parametrize(
    ("url", "fragment"),
    [
        ("", "url"),
        ("models/x", "absolute"),
        ("/", "outside"),
        ("/etc", "outside"),
        ("file:///etc", "absolute"),
        ("{root}", "the model root itself"),
        ("{root}/../{name}", "outside"),
        ("{root}/x/../../../etc", "outside"),
        ("{root}/nowhere/model", "no directory"),
        ("{root}/link", "outside"),
        ("{root}/file", "no directory"),
        ("{root}/\0", "absolute"),
        ("{root}/" + "n" * 5000, "url"),
    ],
)
def test_urls(url: str, fragment: str, container: ContainerOnFake, tmp_path: Path) -> None:
    """A url must name a directory inside the root, after symbolic links."""
    root = container.model_root
    models.write_archive(tmp_path / "outside", {"m": models.identity})
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "file").write_text("")
    try:
        body = {"model_name": "m1", "url": url.format(root=root, name=tmp_path.name)}
        answer = container.http.post("/models", json=body)
    finally:
        (root / "link").unlink()
        (root / "file").unlink()
    assert answer.status_code == 400
    assert fragment in complaint(answer)
    assert len(answer.content) < 1000


def _empty(directory: Path) -> None:
    directory.mkdir(parents=True)


def _only_files(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "README").write_text("no model\n")


def _with(models_: dict[str, models.Writable]) -> Spoil:
    return lambda directory: models.write_archive(directory, models_)


def _edited(name: str, edit: Callable[[Path], object], **written: models.Writable) -> Spoil:
    def spoil(directory: Path) -> None:
        models.write_archive(directory, written)
        edit(directory / name)

    return spoil


def _text(path: Path, text: str) -> None:
    path.write_text(text)


def _remove(path: Path) -> None:
    if path.is_dir():
        for inner in path.iterdir():
            _remove(inner)
        path.rmdir()
    else:
        path.unlink()


_IDENTITY = models.identity.config
_M = {"m": models.identity}
_CIRCLE = """
platform: "ensemble"
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
ensemble_scheduling {
  step { model_name: "a" model_version: -1
    input_map { key: "IN" value: "two" } output_map { key: "OUT" value: "one" } }
  step { model_name: "b" model_version: -1
    input_map { key: "IN" value: "one" } output_map { key: "OUT" value: "two" } }
  step { model_name: "a" model_version: -1
    input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } }
}
"""


@pytest.mark.parametrize(
    ("spoil", "fragments"),
    [
        pytest.param(_empty, ["nothing", "config.pbtxt"], id="empty archive"),
        pytest.param(_only_files, ["README", "config.pbtxt"], id="no model directory"),
        pytest.param(
            _edited("m/config.pbtxt", lambda p: _text(p, _IDENTITY + "\ninput [ {\n"), **_M),
            ["m/config.pbtxt:", "ModelConfig"],
            id="config does not parse",
        ),
        pytest.param(
            _edited("m/config.pbtxt", lambda p: _text(p, 'backend: "python"\ninput: 3\n'), **_M),
            ["m/config.pbtxt:2:"],
            id="config with a wrong type",
        ),
        pytest.param(
            _edited("m/config.pbtxt", lambda p: p.write_bytes(b'name: "\xff"\n'), **_M),
            ["m/config.pbtxt:1:", "UTF-8"],
            id="config is no text",
        ),
        pytest.param(
            _edited("m/config.pbtxt", _remove, **_M),
            ["m/config.pbtxt", "SERVE_AUTO_COMPLETE"],
            id="no config",
        ),
        pytest.param(
            _edited("m/config.pbtxt", lambda p: _text(p, 'backend: "python"\n'), **_M),
            ["m/config.pbtxt", "`input`"],
            id="config without tensors",
        ),
        pytest.param(
            _edited(
                "m/config.pbtxt",
                lambda p: _text(p, _IDENTITY.replace("backend:", "platform:")),
                **_M,
            ),
            ["the field `platform` is 'python'", 'expected `backend: "python"` in its place'],
            id="a backend as the platform",
        ),
        pytest.param(
            _edited(
                "m/config.pbtxt",
                lambda p: _text(p, _IDENTITY + _IDENTITY[_IDENTITY.index("input") :]),
                **_M,
            ),
            ["m/config.pbtxt: the field `input[1].name` is 'IN' a second time"],
            id="an input twice",
        ),
        pytest.param(_edited("m/1", _remove, **_M), ["m", "version directory"], id="no version"),
        pytest.param(_edited("m/1/model.py", _remove, **_M), ["m/1", "model.py"], id="no payload"),
        pytest.param(
            _with({"a": models.identity, "e": models.Chain(("a", "b"))}),
            ["e/config.pbtxt", "'b'"],
            id="missing step",
        ),
        pytest.param(
            _edited(
                "b/1", _remove, a=models.identity, b=models.identity, e=models.Chain(("a", "b"))
            ),
            ["/b", "version directory"],
            id="a step without its version",
        ),
        pytest.param(
            _with({"e": models.Chain(("e", "e"))}), ["contains itself"], id="an ensemble of itself"
        ),
        pytest.param(
            _with({"e": models.Chain(("f",)), "f": models.Chain(("e",))}),
            ["contains itself"],
            id="two ensembles of each other",
        ),
        pytest.param(
            _edited(
                "e/config.pbtxt",
                lambda p: _text(p, _CIRCLE),
                a=models.identity,
                b=models.identity,
                e=models.Chain(("a", "b")),
            ),
            ["e/config.pbtxt", "circle"],
            id="tensors in a circle",
        ),
        pytest.param(
            _with({"a": models.identity, "b": models.identity}),
            ["several models (a, b)"],
            id="two models and nothing over them",
        ),
    ],
)
def test_archives(
    spoil: Spoil, fragments: list[str], container: ContainerOnFake, archive: Archive, tmp_path: Path
) -> None:
    """An archive that cannot be served is a 400 that names the file, the field or the reason."""
    directory = container.model_root / tmp_path.name / "model"
    spoil(directory)
    answer = container.load("m1", directory)
    assert answer.status_code == 400, answer.text
    sentence = complaint(answer)
    for fragment in fragments:
        assert fragment in sentence
    assert container.http.get("/models/m1").status_code == 404
    with container.loaded("m1", archive(m=models.adder(2))):  # the name is free
        assert values(container.invoke("m1", infer([1]))) == [3.0]


class _Hostile:
    """Runs a command where it is unpickled in earnest."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[object, tuple[str]]:
        import os

        return os.system, (f"touch {self.trace}",)


def _truncated(pickled: bytes, trace: Path) -> bytes:
    return pickled[: len(pickled) // 2]


def _nothing(pickled: bytes, trace: Path) -> bytes:
    return b""


def _something_else(pickled: bytes, trace: Path) -> bytes:
    return pickle.dumps({"not": ["a", "graph"]})


def _hostile(pickled: bytes, trace: Path) -> bytes:
    return pickle.dumps(_Hostile(trace))


@pytest.mark.parametrize("spoil", [_truncated, _nothing, _something_else, _hostile])
def test_pickles(
    spoil: Callable[[bytes, Path], bytes],
    container: ContainerOnFake,
    archive: Archive,
    tmp_path: Path,
) -> None:
    """A graph that is no graph is refused with its file named, and nothing in it is run."""
    source = ROOT / "examples/merlin/dense/repository"
    directory = archive()
    for path in source.rglob("*"):
        if path.is_file():
            target = directory / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    trace = tmp_path / "trace"
    graph = directory / "executor_model/1/ensemble/ensemble.pkl"
    graph.write_bytes(spoil(graph.read_bytes(), trace))
    answer = container.load("m1", directory)
    assert answer.status_code == 400
    assert "ensemble.pkl" in complaint(answer)
    assert not trace.exists()


def test_invocations_with_odd_names(container: ContainerOnFake) -> None:
    """An invocation of what cannot be a model is a 404, and never another model."""
    for name in ("..", "%2e%2e", f"{WITNESS}.add0", f"{WITNESS}/versions/1", "x" * 5000):
        answer = container.http.post(f"/models/{name}/invoke", json=infer([1]))
        assert answer.status_code == 404
        complaint(answer)
