"""What `compare` refuses before a tritonserver is started, and how its exit code comes about."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.models import PythonModel, identity, write_archive
from verification.compare_command import FAILED, MISUSED, main

OTHER = PythonModel(
    identity.source,
    tensors="""
input { name: "IN" data_type: TYPE_FP32 dims: [-1] }
input { name: "age" data_type: TYPE_INT64 dims: [-1] }
output { name: "OUT" data_type: TYPE_FP32 dims: [-1] }
""",
)
IN = {"name": "IN", "datatype": "FP32", "shape": [2], "data": [1, 2]}
AGE = {"name": "age", "datatype": "INT64", "shape": [2], "data": [1, 2]}


@pytest.fixture
def archives(tmp_path: Path) -> tuple[str, str]:
    """One without and one with the input `age`."""
    models = {"old": identity, "new": OTHER}
    old, new = (write_archive(tmp_path / name, {"m": model}) for name, model in models.items())
    return str(old), str(new)


def write(directory: Path, content: Any) -> str:
    path = directory / "requests.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of stderr."""
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (
            [IN],
            "no request has the inputs of NEW ({new}): request 1 of requests.json lacks age "
            "(INT64 [-1]); both archives are asked the same",
        ),
        (
            [IN, AGE],
            "no request has the inputs of OLD ({old}): request 1 of requests.json has age, "
            "which it does not declare; both archives are asked the same",
        ),
    ],
)
def test_inputs_of_one_archive(
    inputs: list[Any],
    sentence: str,
    archives: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is started: which archive, which request, which input."""
    old, new = archives
    requests = write(tmp_path, [{"inputs": inputs}] * 2)
    assert main([old, new, "--requests", requests]) == FAILED
    assert told(capsys).startswith(f"error: {requests}: {sentence.format(old=old, new=new)}")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ([], "an empty list; expected a request of the v2 protocol"),
        ("nothing", "it is no JSON"),
        ({"instances": [1]}, "request 1: no list `inputs` in it"),
    ],
)
def test_no_request_in_the_file(
    content: Any,
    sentence: str,
    archives: tuple[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As with verify."""
    requests = write(tmp_path, content)
    assert main([*archives, "--requests", requests]) == FAILED
    assert f"error: {requests}: {sentence}" in told(capsys)


def test_no_archive(
    archives: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The path is named."""
    old, new = archives
    requests = write(tmp_path, {"inputs": [IN]})
    assert main([old, f"{new}-er", "--requests", requests]) == FAILED
    assert told(capsys) == (
        f"error: {new}-er: there is no such file or directory; "
        "expected an archive: a directory, or its .tar.gz"
    )


def test_an_input_that_names_no_user(
    archives: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The request and its inputs are named."""
    requests = write(tmp_path, {"inputs": [IN]})
    assert main([archives[0], archives[0], "--requests", requests, "--user", "who"]) == FAILED
    assert told(capsys) == (
        f"error: {requests}: request 1 of requests.json: no input 'who', as --user says; expected "
        "one of IN"
    )


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_nowhere_to_write(
    option: str, archives: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Told before anything is started."""
    requests, nowhere = write(tmp_path, {"inputs": [IN]}), tmp_path / "no/such"
    assert main([*archives, "--requests", requests, option, str(nowhere)]) == FAILED
    assert told(capsys) == (
        f"error: {nowhere}: there is no directory {tmp_path}/no; make it first: mkdir -p "
        f"{tmp_path}/no"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--at-least", "ndcg=1"), "argument --at-least: 'ndcg=1': found the measure 'ndcg'"),
        (("--at-least", "kendall=2"), "found '2', expected a number from -1 to 1"),
        (("--k", "0"), "argument --k: '0': expected numbers of places from 1"),
        (("--k", "ten"), "'ten': expected numbers of places"),
        ((), "the following arguments are required: --requests"),
    ],
)
def test_misuse(
    options: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found and what was expected, with exit code 2."""
    with pytest.raises(SystemExit) as leaving:
        main(["old", "new", *(("--requests", "x") if options else ()), *options])
    assert leaving.value.code == MISUSED
    assert sentence in capsys.readouterr().err


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """It has every measure, every exit code, and what ranks."""
    with pytest.raises(SystemExit):
        main(["--help"])
    printed = " ".join(capsys.readouterr().out.split())
    for part in ("overlap@K", "same_first", "kendall", "spearman", "3 not within", "130 after"):
        assert part in printed
    assert "one user's candidates" in printed
