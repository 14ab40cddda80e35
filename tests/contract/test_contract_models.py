"""Load, list, describe, invoke, unload: each call of the contract and each of its statuses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.contract.conftest import WITNESS, Archive
from tests.support import models
from tests.support.container import Container
from tests.support.protocol import complaint, infer, values
from tests.support.tritons import BOTH


@BOTH
def test_life_of_a_model(container: Container, archive: Archive) -> None:
    """A loaded model is listed with its url and invoked; an unloaded one is known to no call."""
    directory = archive(m=models.identity)
    answer = container.load("m1", directory)
    assert (answer.status_code, answer.content) == (200, b"")
    assert container.models()["m1"] == str(directory)
    described = container.http.get("/models/m1")
    assert described.json() == {"modelName": "m1", "modelUrl": str(directory)}
    assert values(container.invoke("m1", infer([1.5, -2]))) == [1.5, -2.0]

    answer = container.unload("m1")
    assert (answer.status_code, answer.content) == (200, b"")
    assert "m1" not in container.models()
    for gone in (
        container.http.get("/models/m1"),
        container.unload("m1"),
        container.invoke("m1", infer([1])),
    ):
        assert gone.status_code == 404
        assert "'m1'" in complaint(gone)


def test_load_twice(container: Container, archive: Archive) -> None:
    """A name that is taken is refused with 409, and the model that has it goes on."""
    directory = archive(m=models.adder(1))
    with container.loaded("m1", directory):
        for url in (directory, archive("other", m=models.identity)):
            answer = container.load("m1", url)
            assert answer.status_code == 409
            assert "'m1' is already loaded" in complaint(answer)
        assert values(container.invoke("m1", infer([1]))) == [2.0]


def test_one_archive_under_two_names(container: Container, archive: Archive) -> None:
    """The name is the only key: one archive can be loaded under several."""
    directory = models.sums(archive(), [1, 2])
    with container.loaded("m1", directory), container.loaded("m2", directory):
        assert values(container.invoke("m1", infer([1]))) == [4.0]
        assert values(container.invoke("m2", infer([1]))) == [4.0]


def test_equal_step_names_do_not_meet(container: Container, archive: Archive) -> None:
    """Two archives with the same step names answer their own numbers, also when one is gone."""
    first = models.sums(archive("first"), [1, 2])
    second = models.sums(archive("second"), [10, 20, 30])
    with container.loaded("second", second):
        with container.loaded("first", first):
            assert values(container.invoke("first", infer([0]))) == [3.0]
            assert values(container.invoke("second", infer([0]))) == [60.0]
        assert values(container.invoke("second", infer([0]))) == [60.0]


@pytest.mark.parametrize(
    ("name", "other"), [("a.b", "a"), ("a.b.c", "a.b"), ("v1.0", "v1"), ("..a", ".a")]
)
def test_names_with_dots(name: str, other: str, container: Container, archive: Archive) -> None:
    """A model name may hold dots, and never meets the steps of another model."""
    steps = {"b": models.adder(5), "0": models.adder(6), "b.c": models.adder(7)}
    ensemble = archive(**steps, sum=models.Chain(("b", "0", "b.c")))
    with (
        container.loaded(name, archive("single", b=models.adder(1))),
        container.loaded(other, ensemble),
    ):
        assert container.http.get(f"/models/{name}").json()["modelName"] == name
        assert values(container.invoke(name, infer([0]))) == [1.0]
        assert values(container.invoke(other, infer([0]))) == [18.0]


def test_longest_name(container: Container, archive: Archive) -> None:
    """A name as long as a directory's may be is served; one byte more is the caller's fault."""
    directory = archive(m=models.identity)
    with container.loaded("n" * 255, directory):
        assert values(container.invoke("n" * 255, infer([1]))) == [1.0]
    assert container.load("n" * 256, directory).status_code == 400


def test_target_model_picks_nothing(container: Container, archive: Archive) -> None:
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
def test_layouts(layout: Callable[[Path], None], container: Container, archive: Archive) -> None:
    """Every layout that archives are met in is served, and nothing in the archive is changed."""
    directory = archive()
    layout(directory)
    before = {path: path.stat().st_mtime_ns for path in directory.rglob("*")}
    with container.loaded("m1", directory):
        assert values(container.invoke("m1", infer([1]))) == [4.0]
    after = {p: p.stat().st_mtime_ns for p in directory.rglob("*") if "__pycache__" not in str(p)}
    assert after.keys() == before.keys()


def test_a_link_inside_the_root(container: Container, archive: Archive) -> None:
    """A url through a symbolic link is served when it ends inside the root."""
    directory = archive(m=models.identity)
    link = directory.parent / "link"
    link.symlink_to(directory)
    with container.loaded("m1", link):
        assert container.models()["m1"] == str(link)
        assert values(container.invoke("m1", infer([1]))) == [1.0]


def test_loaded_again_from_elsewhere(container: Container, archive: Archive) -> None:
    """After an unload the name is free for another archive, and the old one may be deleted."""
    old, new = archive("old", m=models.adder(1)), archive("new", m=models.adder(2))
    with container.loaded("m1", old):
        assert values(container.invoke("m1", infer([0]))) == [1.0]
    shutil.rmtree(old)
    with container.loaded("m1", new):
        assert values(container.invoke("m1", infer([0]))) == [2.0]


def test_pages(container: Container, archive: Archive) -> None:
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


def _paged(container: Container, limit: int) -> list[str]:
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
def test_bad_pages(query: dict[str, str], parameter: str, container: Container) -> None:
    """A page that cannot be meant is refused with 400, the parameter named."""
    answer = container.http.get("/models", params=query)
    assert answer.status_code == 400
    assert f"`{parameter}`" in complaint(answer)


def test_ping(container: Container) -> None:
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
def test_other_paths(method: str, path: str, status: int, container: Container) -> None:
    """What the contract does not have is a 404 or a 405 that says what it has."""
    answer = container.http.request(method, path)
    assert answer.status_code == status
    sentence = complaint(answer)
    of_a_model = re.search(r"the model '.*' is not loaded; GET /models lists what is", sentence)
    assert of_a_model or "expected a call of a multi-model endpoint: GET /ping" in sentence


def test_head_is_no_call(container: Container) -> None:
    """Though GET is one."""
    for path in ("/ping", "/models", f"/models/{WITNESS}"):
        assert container.http.head(path).status_code == 405


@BOTH
@pytest.mark.parametrize(
    ("body", "fragment"),
    [
        (infer([1], name="OTHER"), "OTHER"),
        ({"inputs": []}, ""),
        ({"instances": [[1]]}, 'such as {"inputs": [{"name": "x"'),
        ({"inputs": [{"name": "IN", "datatype": "FP64", "shape": [1], "data": [1]}]}, "FP64"),
        ({"inputs": [{"name": "IN", "datatype": "FP32", "shape": [2], "data": [1]}]}, ""),
        (b"{", ""),
        (b"no JSON", ""),
        (b"[]", "object"),
        (b"null", "object"),
        (b'{"inputs":3}', "inputs"),
        (b'{"inputs":[{}]}', ""),
        (b"\xff\xfe", ""),
    ],
)
def test_faults_of_the_caller(
    body: bytes | dict[str, object], fragment: str, container: Container
) -> None:
    """A request that the model cannot take is a 400 that says what tritonserver said."""
    answer = container.invoke(WITNESS, body)
    assert answer.status_code == 400, answer.text
    assert fragment in complaint(answer)


@BOTH
def test_a_model_that_raises(container: Container, archive: Archive) -> None:
    """A model that raises is a 500 with its own words, and stays loaded."""
    with container.loaded("m1", archive(m=models.raising)):
        for _ in range(2):
            answer = container.invoke("m1", infer([7]))
            assert answer.status_code == 500
            assert "these values are not welcome: [7.0]" in complaint(answer)


#: Raises in the way that the first value says, and answers 0 with itself.
_MOODY = """
import traceback


class TritonPythonModel(Each):
    def answer(self, request, values):
        if values[0] == 1:
            raise KeyError("row 1")
        if values[0] == 2:
            open("/nowhere/of/mine/labels.txt")
        if values[0] == 3:
            try:
                [][int(values[0])]  # a secret comment
            except IndexError:
                raise pb_utils.TritonModelException(traceback.format_exc())
        return respond(request, values)
"""


@BOTH
def test_whose_fault_a_failure_may_be(container: Container, archive: Archive) -> None:
    """500 while a model has answered nobody; 400 where it answers others, or speaks of an index.

    One that has failed at twenty requests one after another answers nobody any more. Its caller
    sees no code and no paths; the log has them.
    """
    with container.loaded("m1", archive(m=models.PythonModel(_MOODY))):
        answer = container.invoke("m1", infer([3]))
        assert answer.status_code == 400
        said = "the model m1 failed at this request: IndexError: list index out of range"
        assert complaint(answer) == said
        answer = container.invoke("m1", infer([1]))
        assert answer.status_code == 500
        assert complaint(answer) == "the model m1 failed: KeyError: 'row 1'"
        assert values(container.invoke("m1", infer([0]))) == [0.0]
        for number, said in (
            (1, "KeyError: 'row 1'"),
            (2, "FileNotFoundError: [Errno 2] No such file or directory: '…/labels.txt'"),
            (3, "IndexError: list index out of range"),
        ):
            answer = container.invoke("m1", infer([number]))
            assert answer.status_code == 400
            expected = f"the model m1 failed at this request, and answers others: {said}"
            assert complaint(answer) == expected
        assert "a secret comment" in container.log
        statuses = [container.invoke("m1", infer([1])).status_code for _ in range(18)]
        assert statuses == [400] * 17 + [500]
        assert values(container.invoke("m1", infer([0]))) == [0.0]
        assert container.invoke("m1", infer([1])).status_code == 400


def test_unknown_fields_and_types(container: Container, archive: Archive) -> None:
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
