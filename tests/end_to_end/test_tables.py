"""Exports whose workflows hold tables, made by Merlin: served, and with Merlin's numbers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.container import ROOT, Container, running, until

PYTHON = ROOT / ".venv-merlin/bin/python"
PROGRAM = ROOT / "tests/support/tables_export.py"
#: Why something else than a program of numpy alone serves a workflow; of all others, nothing.
KEPT = {
    "join_frame": "",
    "join_dataset": "",
    "join_file": "",
    "join_dask": "",
    "join_missing": "",
    "join_words": "",
    "join_inner": "JoinExternal",
    "join_numbers": "",
    "lambda_numbers": "it calls a function of yours",
    "lambda_tuples": "it calls a function of yours",
    "lambda_set": "it calls a function of yours",
    "lambda_texts": "it calls a function of yours",
    "lambda_array": "it calls a function of yours",
    "lambda_many": "it has more than 2000000 opcodes (in LambdaOp)",
    "lambda_beside": "it calls a function of yours",
    "vocabs": "",
    "vocabs_buckets": "",
    "vocabs_copied": "",
    "vocabs_elsewhere": "its category file is not among the workflow's files",
    "relative": "",
    "counted": "",
}
#: Where something else is compiled beside a function, and where nothing is.
IN_PART = "lambda_beside"
IN_PANDAS = ("lambda_numbers", "lambda_tuples", "lambda_set", "lambda_texts", "lambda_array")
#: What NVTabular reads; the one left out is refused for its file.
UNPICKLED = {*filter(KEPT.get, KEPT)} - {"vocabs_elsewhere"}
#: What Merlin's own code serves in another test.
ORIGINAL = ("join_frame", "join_missing", "vocabs")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exports, moved away from where they were made."""
    directory = tmp_path_factory.mktemp("tables")
    command: list[str | Path] = [PYTHON, "-W", "ignore", PROGRAM, directory / "before", *KEPT]
    subprocess.run(command, check=True, capture_output=True, cwd=directory)
    return Path(shutil.move(directory / "before", directory / "after"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, made: Path) -> Iterator[Container]:
    with running(tmp_path_factory.mktemp("served"), SERVE_MODEL_ROOT=str(made)) as container:
        yield container


def check(container: Container, made: Path, name: str) -> None:
    loaded = container.load(name, made / name / "export")
    assert loaded.status_code == 200, loaded.text
    answer = container.invoke(name, json.loads((made / name / "request.json").read_text()))
    assert answer.status_code == 200, answer.text
    expected = json.loads((made / name / "expected.json").read_text())["outputs"]
    got = {output["name"]: output for output in answer.json()["outputs"]}
    assert got == {output["name"]: output for output in expected}
    assert container.unload(name).status_code == 200


@pytest.mark.parametrize("name", sorted(KEPT.keys() - {"vocabs_elsewhere"}))
def test_numbers(name: str, served: Container, made: Path) -> None:
    """They are the workflow's own, and the log says why something is not compiled."""
    check(served, made, name)

    def loads() -> list[str]:
        lines = (line for line in served.log.splitlines(keepends=True) if line.endswith("\n"))
        return [it for it in lines if "model loaded" in it and f"model_name={name} " in it]

    until(loads, "the log says so", served)
    (line,) = loads()
    assert KEPT[name] in line
    assert ("not_compiled" in line) == (bool(KEPT[name]) and name not in (IN_PART, *IN_PANDAS))


def test_columns_of_unequal_length(served: Container, made: Path) -> None:
    """A workflow that is compiled in part refuses them: NVTabular fills them up with NaN."""
    request = json.loads((made / IN_PART / "request.json").read_text())
    last = request["inputs"][-1]
    last["data"].pop()
    last["shape"] = [len(last["data"])]
    with served.loaded("uneven", made / IN_PART / "export"):
        answer = served.invoke("uneven", request)
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("refused by design: column 'price' has 4 rows")


@pytest.mark.thorough
def test_original(made: Path, tmp_path: Path) -> None:
    """Merlin's executor and NVTabular themselves find everything where it is published."""
    settings = {"SERVE_REWRITE": "executor", "SERVE_COMPILE": "off"}
    with running(tmp_path, SERVE_MODEL_ROOT=str(made), **settings) as container:
        for name in ORIGINAL:
            check(container, made, name)


def test_file_outside_of_the_archive(served: Container, made: Path) -> None:
    """It is refused with advice; where the file is, as on the machine of the export, it is read."""
    export = made / "vocabs_elsewhere/export"
    refused = served.load("far", export)
    assert refused.status_code == 400
    assert "which is not in the archive: NVTabular copies what lies under out_path" in refused.text
    was = made.parent / "before/vocabs_elsewhere/files"
    was.parent.mkdir(parents=True)
    shutil.copytree(made / "vocabs_elsewhere/files", was)
    check(served, made, "vocabs_elsewhere")


@pytest.fixture(scope="module")
def careful(tmp_path_factory: pytest.TempPathFactory, made: Path) -> Iterator[Container]:
    settings = {"SERVE_MODEL_ROOT": str(made), "SERVE_PICKLES": "off"}
    with running(tmp_path_factory.mktemp("careful"), **settings) as container:
        yield container


@pytest.mark.parametrize(
    "name",
    [
        "join_frame",
        "join_words",
        "vocabs",
        *sorted({*filter(KEPT.get, KEPT)} - {"vocabs_elsewhere"}),
    ],
)
def test_nothing_is_unpickled(name: str, made: Path, careful: Container) -> None:
    """With SERVE_PICKLES=off a workflow is compiled whole, or refused with its operator."""
    answer = careful.load("model", made / name / "export")
    if not KEPT[name]:
        assert answer.status_code == 200, answer.text
        assert careful.unload("model").status_code == 200
        return
    assert answer.status_code == 400
    reader = "(NVTabular|the model's process)"
    assert re.search(rf"workflow\.pkl: {reader} would unpickle it \(", answer.text)
    assert KEPT[name] in answer.text
