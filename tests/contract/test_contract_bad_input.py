"""Bad archives that tritonserver refuses get a clear error and change nothing.

The fixture `container` holds the second half: after each test the list of models, the files, the
stubs and the shared memory are what they were, and the next good request is answered. What the
container refuses by itself is in tests/unit/container/assembled/test_bad_input.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.conftest import Archive
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH

Spoil = Callable[[Path], object]


def _with(models_: dict[str, models.Writable]) -> Spoil:
    return lambda directory: models.write_archive(directory, models_)


def _edited(name: str, edit: Callable[[Path], object], **written: models.Writable) -> Spoil:
    def spoil(directory: Path) -> None:
        models.write_archive(directory, written)
        edit(directory / name)

    return spoil


def _text(path: Path, text: str) -> None:
    path.write_text(text)


_IDENTITY = models.identity.config
_M = {"m": models.identity}
_CALLING_ONE = """
class TritonPythonModel(Each):
    def answer(self, request, values):
        return pb_utils.InferenceRequest(model_name="one").exec()
"""


@pytest.mark.parametrize(
    ("spoil", "fragments"),
    [
        pytest.param(
            _edited("m/config.pbtxt", lambda p: _text(p, _IDENTITY + "newer_field: 3\n"), **_M),
            ["the model m1 failed to load: m/config.pbtxt, line ", 'no field named "newer_field"'],
            id="a field that neither we nor this tritonserver know",
        ),
        pytest.param(
            _edited("m/config.pbtxt", lambda p: _text(p, _IDENTITY + "model_metrics { }\n"), **_M),
            ["m/config.pbtxt, line ", 'no field named "model_metrics" in this tritonserver'],
            id="a field that only a newer tritonserver knows",
        ),
        pytest.param(
            _edited(
                "m/config.pbtxt",
                lambda p: _text(p, _IDENTITY + "dynamic_batching { preferred_batch_size: [99] }\n"),
                **_M,
            ),
            ["the model m1 failed to load: m/config.pbtxt: dynamic batching"],
            id="what tritonserver alone refuses",
        ),
        pytest.param(
            _edited("m/config.pbtxt", lambda p: _text(p, _IDENTITY.replace("python", "nil")), **_M),
            ["nil"],
            id="unknown backend",
        ),
        pytest.param(
            _edited("m/1/model.py", lambda p: _text(p, "def broken(:\n"), **_M),
            ["SyntaxError"],
            id="code that does not parse",
        ),
        pytest.param(
            _with({"m": models.unwilling}),
            ["FileNotFoundError: no weights in /nowhere/weights.bin"],
            id="initialize raises",
        ),
        pytest.param(
            _with({"a": models.identity, "b": models.unwilling, "e": models.Chain(("a", "b"))}),
            ["step b", "no weights in /nowhere/weights.bin"],
            id="a step's initialize raises",
        ),
        pytest.param(
            _with({"top": models.PythonModel(_CALLING_ONE), "one": models.unwilling}),
            ["the called model one of the model m1 failed to load", "no weights in /nowhere/"],
            id="a called model's initialize raises",
        ),
    ],
)
def test_archives(
    spoil: Spoil, fragments: list[str], container: Container, archive: Archive, tmp_path: Path
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


@BOTH
@pytest.mark.parametrize(
    "model",
    [
        *(
            pytest.param(models.PythonModel(models.IDENTITY, backend=name), id=f"backend {name}")
            for name in ("../../x", "/tmp/x", "x", "dali", "python;id")
        ),
        *(
            pytest.param(models.PythonModel(models.IDENTITY, more), id=more[:24].strip())
            for more in (
                "max_batch_size: -5\n",
                "instance_group { kind: KIND_GPU count: 1 gpus: [ 99 ] }\n",
                "dynamic_batching { preferred_batch_size: [ 99999999 ] }\n",
                "version_policy { specific { versions: [ 9223372036854775807 ] } }\n",
                'parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/etc/passwd" } }\n',
            )
        ),
    ],
)
def test_configs_that_contradict_themselves(
    model: models.PythonModel, container: Container, archive: Archive
) -> None:
    """They cost their own load and nothing else (CVE-2025-23336), in any version.

    A backend is one of the image's own; a path to one is refused.
    """
    before = container.triton()
    answer = container.load("m1", archive(m=model))
    assert answer.status_code == 400, answer.text
    assert complaint(answer)
    assert container.triton() == before


def test_a_field_that_we_do_not_know(container: Container, archive: Archive) -> None:
    """What our protobuf does not know reaches tritonserver: its word counts, not ours."""
    directory = archive(m=models.identity)
    config = directory / "m/config.pbtxt"
    config.write_text(config.read_text() + "\nmodel_operations { }\n")
    with container.loaded("m1", directory):
        assert "model_operations" in (container.serving / "m1/config.pbtxt").read_text()
