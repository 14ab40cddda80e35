"""`request`: what it writes without running anything, and what it refuses in a sentence."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ensemble_tools.answers.exchange import TensorRequest, decode
from ensemble_tools.answers.tensors import Tensor, encode_strings
from tests.support.captures import make_record, write_capture
from verification.request_command import REFUSED, WRITTEN, main
from verification.requests.request_bodies import make_binary, make_json

ROOT = Path(__file__).parents[3]
DENSE = ROOT / "examples/merlin/dense/repository"


def model(directory: Path, config: str) -> Path:
    (directory / "m/1").mkdir(parents=True)
    (directory / "m/1/model.py").touch()
    (directory / "m/config.pbtxt").write_text(f'backend: "python"\n{config}')
    return directory


@pytest.mark.slow
def test_to_a_file_whole_or_not_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Made again it is the same; the line says its Content-Type."""
    bodies = []
    for name in ("a.json", "b.json"):
        assert main([str(DENSE), "-o", str(tmp_path / name)]) == WRITTEN
        bodies.append((tmp_path / name).read_bytes())
    assert bodies[0] == bodies[1]
    assert "Content-Type: application/json" in capsys.readouterr().out
    assert main([str(DENSE), "-o", str(tmp_path)]) == REFUSED


def test_rows_are_those_that_a_batch_may_have(tmp_path: Path) -> None:
    """As many as asked for, up to max_batch_size; a fixed first size is kept."""
    tensor = 'input { name: "x" data_type: TYPE_FP32 dims: [%s] }'
    for config, shape in (
        (f"max_batch_size: 2\n{tensor % 3}", [2, 3]),
        (tensor % "7, 2", [7, 2]),
        (tensor % "-1, -1", [6, 4]),
    ):
        archive = model(tmp_path / str(len(config)), config)
        assert main([str(archive), "--rows", "6", "-o", str(tmp_path / "r.json")]) == WRITTEN
        (found,) = json.loads((tmp_path / "r.json").read_text())["inputs"]
        assert found["shape"] == shape
        assert len(found["data"]) == np.prod(shape)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("", "it declares no inputs, of which a request could be made"),
        ('input { name: "x" data_type: TYPE_FP16 dims: [1] }', "which JSON cannot carry"),
        ('input { name: "x" data_type: TYPE_BF16 dims: [1] }', "no requests can be generated"),
        ('input { name: "x" data_type: TYPE_FP32 dims: [9999999, 99] }', "at most 67108864 are"),
        (
            'input { name: "x" data_type: TYPE_FP32 dims: [1] }\n'
            'output { name: "y" data_type: TYPE_FP16 dims: [1] }',
            "the tensor 'y' is of FP16",
        ),
    ],
)
def test_what_cannot_be_made(
    config: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, exit code 1, and no file."""
    archive = model(tmp_path / "source", config)
    assert main([str(archive), "-o", str(tmp_path / "r.json")]) == REFUSED
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "r.json").exists()


def test_packed_archives_name_themselves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the call, and in what is refused."""
    packed = tmp_path / "shop.tar.gz"
    subprocess.run(["tar", "-C", DENSE, "-czf", packed, "."], check=True)
    assert main([str(packed), "-o", str(tmp_path / "r.json"), "--curl", "--boto3"]) == WRITTEN
    said = capsys.readouterr().out
    assert "http://localhost:8080/models/shop/invoke" in said
    assert 'TargetModel="shop.tar.gz"' in said
    packed.write_bytes(b"no tar")
    assert main([str(packed)]) == REFUSED
    assert capsys.readouterr().err.startswith(f"error: {packed}: it is no archive")


@pytest.mark.slow
def test_names_that_a_container_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the archive's own name the call has one; a name that is asked for is taken or refused."""
    archive = Path(shutil.copytree(DENSE, tmp_path / "my shop (é)"))
    arguments = [str(archive), "-o", str(tmp_path / "r.json")]
    assert main([*arguments, "--curl"]) == WRITTEN
    assert "/models/my_shop____/invoke" in capsys.readouterr().out
    (tmp_path / "r.json").unlink()
    for name in ("my shop", "a/b", ".."):
        assert main([*arguments, "--curl", "--model-name", name]) == REFUSED
        assert f"the model name {name!r} cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "r.json").exists()
    assert main([*arguments, "--boto3", "--model-name", "my shop"]) == WRITTEN
    assert 'TargetModel="my shop.tar.gz"' in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["--rows", "0", "x"], [str(DENSE), "--curl"], [str(DENSE), "--boto3"]]
)
def test_misuse(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "python -m ensemble_tools request: error: " in capsys.readouterr().err


def test_a_request_that_was_captured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first with the archive's inputs, in the form that is asked for, whichever it came in."""
    archive = model(tmp_path / "source", 'input { name: "x" data_type: TYPE_FP32 dims: [-1] }')
    other, ours = (
        TensorRequest("r", {name: Tensor("FP32", np.array([0.5, 2], np.float32))})
        for name in ("other", "x")
    )
    sent = make_binary(ours)
    records = [make_record(make_json(other).content), make_record(sent.content, sent.content_type)]
    file = write_capture(tmp_path, records)
    output = tmp_path / "r.json"
    assert main([str(archive), "--requests", str(tmp_path), "-o", str(output)]) == WRITTEN
    assert output.read_bytes() == make_json(ours).content
    assert main([str(archive), "--requests", str(file), "--binary", "-o", str(output)]) == WRITTEN
    assert output.read_bytes() == sent.content
    file.write_text(f"{json.dumps(records[0])}\n")
    assert main([str(archive), "--requests", str(file), "-o", str(output)]) == REFUSED
    assert capsys.readouterr().err == (
        f"error: {file}: no request has the inputs of {archive}: line 1 of {file.name} lacks x "
        "(FP32 [-1]); give requests of this archive\n"
    )


def test_bodies_hold_the_same_values() -> None:
    """Floats have the shortest digits that are read as the same number; texts are UTF-8."""
    tensors = {
        "f": Tensor("FP32", np.array([0.1, 1e30, -0.0], np.float32)),
        "t": Tensor("BYTES", encode_strings(["é".encode(), b'"'])),
        "b": Tensor("BOOL", np.array([True, False])),
        "u": Tensor("UINT64", np.array([2**64 - 1], np.uint64)),
    }
    written = make_json(TensorRequest("r", tensors))
    inputs = json.loads(written.content)["inputs"]
    data = {one["name"]: one["data"] for one in inputs}
    assert data == {"f": [0.1, 1e30, -0.0], "t": ["é", '"'], "b": [True, False], "u": [2**64 - 1]}
    assert written.content_type == "application/json"
    binary = make_binary(TensorRequest("r", tensors))
    size = int(binary.content_type.rpartition("=")[2])
    head = binary.content[:size].replace(b'"inputs"', b'"outputs"')
    found = decode(head + binary.content[size:], len(head))
    assert {name: str(tensor) for name, tensor in found.items()} == {
        name: str(tensor) for name, tensor in tensors.items()
    }
    assert binary.content[size:][:4] == struct.pack("<f", 0.1)
