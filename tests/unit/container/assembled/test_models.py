"""Load, list, describe, unload: each call of the contract and each of its statuses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support import models
from tests.support.protocol import complaint, infer, values
from tests.unit.container.assembled.conftest import WITNESS, Archive
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake


def test_before_tritonserver_lives(tmp_path: Path) -> None:
    """As soon as something listens: /models is an empty list, /ping a 503, an invocation a 404."""
    with container_on_fake(tmp_path, {"never_live": True}) as starting:
        for _ in range(3):
            assert starting.ping() == 503
            assert starting.http.get("/models").json() == {"models": []}
        assert starting.invoke("m1", infer([1])).status_code == 404
        assert starting.http.get("/models/m1").status_code == 404
        assert starting.unload("m1").status_code == 404


def test_load_twice(container: ContainerOnFake, archive: Archive) -> None:
    """A name that is taken is refused with 409, and the model that has it goes on."""
    directory = archive(m=models.adder(1))
    with container.loaded("m1", directory):
        for url in (directory, archive("other", m=models.identity)):
            answer = container.load("m1", url)
            assert answer.status_code == 409
            assert "'m1' is already loaded" in complaint(answer)
        assert values(container.invoke("m1", infer([1]))) == [2.0]


def test_one_archive_under_two_names(container: ContainerOnFake, archive: Archive) -> None:
    """The name is the only key: one archive can be loaded under several."""
    directory = models.sums(archive(), [1, 2])
    with container.loaded("m1", directory), container.loaded("m2", directory):
        assert values(container.invoke("m1", infer([1]))) == [4.0]
        assert values(container.invoke("m2", infer([1]))) == [4.0]


@pytest.mark.parametrize(
    ("name", "other"),
    [("first", "second"), ("a.b", "a"), ("a.b.c", "a.b"), ("v1.0", "v1"), ("..a", ".a")],
)
def test_steps_of_models_do_not_meet(
    name: str, other: str, container: ContainerOnFake, archive: Archive
) -> None:
    """Neither those of equal names in two archives, also when one is gone, nor a model with dots
    in its name and a step."""
    steps = {"b": models.adder(5), "0": models.adder(6), "b.c": models.adder(7)}
    ensemble = archive(**steps, sum=models.Chain(("b", "0", "b.c")))
    with container.loaded(other, ensemble):
        with container.loaded(name, archive("single", b=models.adder(1))):
            assert container.http.get(f"/models/{name}").json()["modelName"] == name
            assert values(container.invoke(name, infer([0]))) == [1.0]
            assert values(container.invoke(other, infer([0]))) == [18.0]
        assert values(container.invoke(other, infer([0]))) == [18.0]


def test_longest_name(container: ContainerOnFake, archive: Archive) -> None:
    """A name as long as a directory's may be is served; one byte more is the caller's fault."""
    directory = archive(m=models.identity)
    with container.loaded("n" * 255, directory):
        assert values(container.invoke("n" * 255, infer([1]))) == [1.0]
    assert container.load("n" * 256, directory).status_code == 400


def test_target_model_picks_nothing(container: ContainerOnFake, archive: Archive) -> None:
    """X-Amzn-SageMaker-Target-Model is for the log alone: the path says which model is meant."""
    header = {"X-Amzn-SageMaker-Target-Model": "other.tar.gz"}
    with container.loaded("m1", archive("one", m=models.adder(1))):
        assert container.load("other.tar.gz", archive("two", m=models.adder(2))).status_code == 200
        assert values(container.invoke("m1", infer([0]), **header)) == [1.0]
        assert container.unload("other.tar.gz").status_code == 200


def _at_the_top(directory: Path) -> None:
    models.sums(directory, [1, 2])


def _single_model(directory: Path) -> None:
    models.adder(3).write(directory)


def _single_model_in_one_more(directory: Path) -> None:
    models.adder(3).write(directory / "anything")


def _one_directory_more(directory: Path) -> None:
    models.sums(directory / "anything", [1, 2])


def _with_litter(directory: Path) -> None:
    models.sums(directory, [1, 2])
    (directory / "__MACOSX").mkdir()
    (directory / ".hidden").mkdir()
    (directory / "README.md").write_text("what people leave\n")


@pytest.mark.parametrize(
    "layout",
    [_at_the_top, _single_model, _single_model_in_one_more, _one_directory_more, _with_litter],
)
def test_layouts(
    layout: Callable[[Path], None], container: ContainerOnFake, archive: Archive
) -> None:
    """Every layout that archives are met in is served, and nothing in the archive is changed."""
    directory = archive()
    layout(directory)
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    with container.loaded("m1", directory):
        assert values(container.invoke("m1", infer([1]))) == [4.0]
    after = {p: p.stat().st_mtime_ns for p in directory.rglob("*") if "__pycache__" not in str(p)}
    assert after.keys() == before.keys()


def test_a_link_inside_the_root(container: ContainerOnFake, archive: Archive) -> None:
    """A url through a symbolic link is served when it ends inside the root."""
    directory = archive(m=models.identity)
    link = directory.parent / "link"
    link.symlink_to(directory)
    with container.loaded("m1", link):
        assert container.models()["m1"] == str(link)
        assert values(container.invoke("m1", infer([1]))) == [1.0]


def test_loaded_again_from_elsewhere(container: ContainerOnFake, archive: Archive) -> None:
    """After an unload the name is free for another archive, and the old one may be deleted."""
    old, new = archive("old", m=models.adder(1)), archive("new", m=models.adder(2))
    with container.loaded("m1", old):
        assert values(container.invoke("m1", infer([0]))) == [1.0]
    shutil.rmtree(old)
    with container.loaded("m1", new):
        assert values(container.invoke("m1", infer([0]))) == [2.0]


def test_pages(container: ContainerOnFake, archive: Archive) -> None:
    """Pages of any size hold every model once, in one order; the last one has no token."""
    directory = archive(m=models.identity)
    names = ["m1", "m2", "m3", "z.1"]
    for name in names:
        assert container.load(name, directory).status_code == 200
    expected = sorted([*names, WITNESS])
    for limit in (1, 2, 5, 6, 99999999):
        assert _paged(container, limit) == expected
    first = container.http.get("/models", params={"limit": 2}).json()
    assert container.unload("m2").status_code == 200  # the token's own model goes
    rest = container.http.get("/models", params={"next_page_token": first["nextPageToken"]}).json()
    assert [model["modelName"] for model in rest["models"]] == expected[2:]
    for name in set(names) - {"m2"}:
        assert container.unload(name).status_code == 200


def _paged(container: ContainerOnFake, limit: int) -> list[str]:
    found: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = container.http.get("/models", params={"limit": limit, **token}).json()
        assert len(page["models"]) <= limit
        found += [model["modelName"] for model in page["models"]]
        if "nextPageToken" not in page:
            return found
        token = {"next_page_token": page["nextPageToken"]}


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"next_page_token": "%%%"}, "next_page_token"),
        ({"next_page_token": "/w"}, "next_page_token"),
        ({"next_page_token": "_w"}, "next_page_token"),  # base64, but no UTF-8
        ({"next_page_token": "é"}, "next_page_token"),
        ({"limit": "0"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "1.5"}, "limit"),
        ({"limit": "9" * 40}, "limit"),
    ],
)
def test_bad_pages(query: dict[str, str], parameter: str, container: ContainerOnFake) -> None:
    """A page that cannot be meant is refused with 400, the parameter named."""
    answer = container.http.get("/models", params=query)
    assert answer.status_code == 400
    assert f"`{parameter}`" in complaint(answer)


def test_ping(container: ContainerOnFake) -> None:
    """/ping is 200 with an empty body while tritonserver lives."""
    answer = container.http.get("/ping")
    assert (answer.status_code, answer.content) == (200, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/health/live", 404),
        ("POST", "/invocations", 404),
        ("GET", "/models/", 404),
        ("GET", "/models/witness/invoke", 405),
        ("POST", "/ping", 405),
        ("PUT", "/models", 405),
        ("POST", "/models/witness/v2/invoke", 404),
        ("DELETE", "/models/%2e%2e%2fwitness", 404),
        ("POST", "/models/nobody%2Fknows/invoke", 404),
        ("POST", "/models/%00/invoke", 404),
        ("GET", "/docs", 404),
    ],
)
def test_other_paths(method: str, path: str, status: int, container: ContainerOnFake) -> None:
    """What the contract does not have is a 404 or a 405 that says what it has."""
    answer = container.http.request(method, path)
    assert answer.status_code == status
    sentence = complaint(answer)
    of_a_model = re.search(r"the model '.*' is not loaded; GET /models lists what is", sentence)
    assert of_a_model or "expected a call of a multi-model endpoint: GET /ping" in sentence


def test_head_is_no_call(container: ContainerOnFake) -> None:
    """Though GET is one."""
    for path in ("/ping", "/models", f"/models/{WITNESS}"):
        assert container.http.head(path).status_code == 405


def test_unknown_fields_and_types(container: ContainerOnFake, archive: Archive) -> None:
    """POST /models reads its body whatever the Content-Type, and lets newer fields through."""
    url = str(archive(m=models.identity))
    answer = container.http.post(
        "/models",
        content=httpx.Request(
            "POST", "http://x", json={"model_name": "m1", "url": url, "newer": {"a": 1}}
        ).content,
        headers={"Content-Type": "text/plain"},
    )
    assert answer.status_code == 200, answer.text
    assert container.unload("m1").status_code == 200
