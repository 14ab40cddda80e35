"""The multi-stage recommender in the container: nine stages, without the executor."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools import (
    Form,
    Namespace,
    Rewrite,
    plan_archive,
    read_executor_graph,
    read_repository,
)
from ensemble_tools.serving.plan import Choices
from tests.support.container import ROOT, Container, running, until

EXAMPLE = ROOT / "examples/multistage"
PYTHON = ROOT / ".venv-merlin/bin/python"
FEATURES = "executor_model/1/ensemble/feature_repo"
#: Where examples/multistage/export.py had it: Merlin's executor looks there and nowhere else.
IN_PLACE = Path("/tmp/merlin-multistage/feature_repo")
#: Writes the half of an index of a kind that is read in place.
MAPPED = """
import os, sys, faiss, numpy
index = faiss.index_factory(16, "IVF4,Flat")
vectors = numpy.random.default_rng(0).random((1000, 16), dtype="float32")
index.train(vectors)
index.add(vectors)
faiss.write_index(index, sys.argv[1])
os.truncate(sys.argv[1], os.path.getsize(sys.argv[1]) // 2)
"""
#: Sums of floats in another order than offline.
RELATIVE = 1e-5


@contextmanager
def served(directory: Path, rewrite: str) -> Iterator[Container]:
    """With the export loaded as `m`; other archives may lie wherever the tests put them."""
    settings = {
        "SERVE_MODEL_ROOT": "/",
        "SERVE_BACKEND_PYTHON": str(PYTHON),
        "SERVE_REWRITE": rewrite,
    }
    with running(directory, **settings) as container:
        answer = container.load("m", EXAMPLE / "repository")
        assert answer.status_code == 200, answer.text
        yield container


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """With the export served by one process."""
    with served(tmp_path_factory.mktemp("auto"), "auto") as container:
        yield container


@pytest.fixture(
    scope="module",
    params=["auto", "ensemble", pytest.param("executor", marks=pytest.mark.thorough)],
)
def container(
    request: pytest.FixtureRequest, joined: Container, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Container]:
    """With the export loaded: by one process, by one for each stage, and by Merlin's executor."""
    if request.param == "auto":
        yield joined
        return
    put_in_place()
    with served(tmp_path_factory.mktemp(request.param), request.param) as container:
        yield container


def put_in_place() -> None:
    """The feature repository for the executor; other tests may do the same meanwhile."""
    IN_PLACE.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=IN_PLACE.parent) as made_in, suppress(OSError):
        made = Path(made_in, "made")
        shutil.copytree(EXAMPLE / "repository" / FEATURES, made)
        made.rename(IN_PLACE)  # fails where it is there, with something in it


def read(file: str) -> Any:
    return json.loads((EXAMPLE / file).read_text())


def scores() -> dict[int, float]:
    """Each candidate of the user who is asked about."""
    ids, click = read("expected.json")["outputs"]
    return dict(zip(ids["data"], click["data"], strict=True))


def test_form() -> None:
    """Merlin is not needed."""
    repository = read_repository(EXAMPLE / "repository")
    made = plan_archive(repository, read_executor_graph(repository), Namespace("m"))
    assert made.form is Form.STEPPED_ENSEMBLE
    generated = {model.source_name for model in made.models if model.generated}
    assert generated == {*("lookup", "lookup_2", "search", "unroll", "sample", "executor_model")}
    texts = [text for model in made.models for _, text in model.files]
    assert not any("import merlin" in text or "from merlin" in text for text in texts)


def test_the_executor_looks_elsewhere() -> None:
    """What a load that fails says, or verify: Merlin does not look into the archive."""
    repository = read_repository(EXAMPLE / "repository")
    graph = read_executor_graph(repository)
    made = plan_archive(repository, graph, Namespace("m"), Choices(rewrite=Rewrite.EXECUTOR))
    assert made.doubts == (
        f"QueryFeast: Merlin's executor reads the feature repository {IN_PLACE} and no other; "
        "copy it there",
    )


def test_candidates_are_drawn_with_their_scores(container: Container) -> None:
    """Ten different ones of a hundred, likely ones more often, each with the score it has."""
    expected, request = scores(), read("request.json")
    seen: list[int] = []
    for _ in range(30):
        outputs = {it["name"]: it for it in container.invoke("m", request).json()["outputs"]}
        ids, found = outputs["ordered_ids"], outputs["ordered_scores"]
        assert (ids["datatype"], ids["shape"]) == ("INT32", [1, 10])
        assert (found["datatype"], found["shape"]) == ("FP32", [1, 10])
        assert len({*ids["data"]}) == 10
        assert found["data"] == pytest.approx([expected[it] for it in ids["data"]], rel=RELATIVE)
        seen += ids["data"]
    assert len({*seen}) > 10
    mean = sum(expected[it] for it in seen) / len(seen)
    assert mean > sum(expected.values()) / len(expected)


def test_what_does_not_fit_is_the_callers_fault(container: Container) -> None:
    request = read("request.json")
    request["inputs"][0]["datatype"] = "FP64"
    assert container.invoke("m", request).status_code == 400


def test_two_users_at_once(container: Container) -> None:
    """The ranking model fails at them: 400 with torch's last words, no line of its code."""
    request = read("request.json")
    request["inputs"][0].update(shape=[2], data=[1003, 1004])
    answer = container.invoke("m", request)
    assert answer.status_code == 400
    said = answer.json()["error"]
    assert said.startswith("the model m failed at this request")
    assert ": RuntimeError: " in said
    assert not {"Traceback", "forward", "File", "torch."} & {*said.replace(".", ". ").split()}
    assert len(said) < 300
    until(lambda: "Traceback" in container.log, "the log says why")


def test_who_is_not_in_the_store(container: Container) -> None:
    """As Merlin's executor answers: what the store lacks is NaN where it is a float."""
    request = read("request.json")
    request["inputs"][0]["data"] = [4]
    answer = container.invoke("m", request)
    assert answer.status_code == 200, answer.text
    (ids,) = (it["data"] for it in answer.json()["outputs"] if it["name"] == "ordered_ids")
    assert len(ids) == 10


def test_an_index_that_is_none(joined: Container, tmp_path: Path) -> None:
    """Refused when the archive is read, or when the step is loaded."""
    for name in ("missing", "short", "half"):
        shutil.copytree(EXAMPLE / "repository", tmp_path / name)
    index = "executor_model/1/ensemble/items.faiss"
    (tmp_path / "missing" / index).unlink()
    whole = (tmp_path / "short" / index).read_bytes()
    (tmp_path / "short" / index).write_bytes(whole[:1000])
    subprocess.run([PYTHON, "-c", MAPPED, tmp_path / "half" / index], check=True)
    for name, said in (
        ("missing", "items.faiss: there is no such file, and QueryFaiss reads it"),
        ("short", "the index items.faiss cannot be read (read error"),
        ("half", "the index items.faiss cannot be read (it has "),
    ):
        refused = joined.load(name, tmp_path / name)
        assert refused.status_code == 400
        assert said in refused.json()["error"]
    assert joined.models().keys() == {"m"}
