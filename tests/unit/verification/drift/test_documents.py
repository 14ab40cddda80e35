"""Counts come from a container or from a file; what is none of both gets a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ensemble_tools.serving.features import (
    FORMAT,
    ModelFeatures,
    write_features,
)
from tests.unit.verification.drift.fake_container import fake_container
from tests.unit.verification.drift.made_counts import make_ids, make_model, make_numbers, spread
from verification.drift.documents import read_document, read_models, subtract
from verification.errors import CountsUnusable

SHOP = make_model(make_ids(unseen=2), make_numbers())
EMPTY = ModelFeatures("77aa", "empty", why_none="the archive has no NVTabular workflow")


def write(directory: Path, content: bytes) -> str:
    path = directory / "counts.json"
    path.write_bytes(content)
    return str(path)


def test_a_document_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Of one model as the route writes it, and of several, also with more in it."""
    assert read_models(write(tmp_path, write_features(SHOP)), None) == [SHOP]
    both = write_features(SHOP, EMPTY, more=[{"drift": [1]}])
    assert read_models(write(tmp_path, both), None) == [SHOP, EMPTY]


def test_a_container_is_asked_for_all_its_models() -> None:
    """Page by page; one that leaves meanwhile is left out."""
    others = [replace(SHOP, model_name=name, target_model=f"{name}.tar.gz") for name in "abcd"]
    with fake_container(*others) as container:
        container.answers["/models/c/features"] = 404, b"{}"
        models = read_models(container.url + "/", None)
    assert [model.model_name for model in models] == ["a", "b", "d"]


@pytest.mark.parametrize("name", ["3fb1", "shop"])
def test_one_model_by_either_of_its_names(name: str, tmp_path: Path) -> None:
    """The platform's, or the archive's; in a file as in a container."""
    content = write_features(EMPTY, SHOP)
    assert read_models(write(tmp_path, content), name) == [SHOP]
    with fake_container(EMPTY, SHOP) as container:
        assert read_models(container.url, name) == [SHOP]


def test_a_single_model_endpoint_has_no_list() -> None:
    """Its model is found by its name alone."""
    with fake_container(SHOP) as container:
        container.is_multi_model = False
        assert read_models(container.url, "3fb1") == [SHOP]
        with pytest.raises(CountsUnusable, match="of a single-model endpoint name the model, too"):
            read_models(container.url, None)


def test_a_name_with_signs_of_a_url() -> None:
    """It is a name, and no path of the container's."""
    shop = replace(SHOP, target_model="..?x=y#z")
    with fake_container(shop) as container:
        assert read_models(container.url, "..?x=y#z") == [shop]
        assert container.asked[0] == "/models/..%3Fx%3Dy%23z/features"


@pytest.mark.parametrize("name", ["tenants/a.tar.gz", "a.tar.gz", "tenants/a"])
def test_an_archive_is_found_in_the_list(name: str) -> None:
    """The container never heard of it as a model, and would log that it refused a request."""
    shop = replace(SHOP, target_model=name)
    with fake_container(shop, EMPTY) as container:
        assert read_models(container.url, name) == [shop]
        assert container.asked == ["/models", "/models/3fb1/features", "/models/77aa/features"]


def test_all_containers_of_a_simulator_are_asked() -> None:
    """A model of several is one model of all their counts, also by name; another fit is another."""
    seldom = make_model(make_ids(came=(2, 0)), make_numbers(times=2), name="3fb1")
    often = make_model(make_ids(came=(3, 4)), make_numbers(times=5), name="3fb1")
    both = make_model(make_ids(came=(5, 4)), make_numbers(times=7), name="3fb1")
    former = make_model(make_ids(fitted=(9,)), name="5c5c", target="former")
    later = make_model(make_ids(), name="5c5c", target="former")
    waiting = replace(EMPTY, model_name="3fb1", why_none="none of its processes has counted")
    with (
        fake_container(seldom, former) as one,
        fake_container(often, later) as two,
        fake_container(waiting) as three,
        fake_container() as simulator,
    ):
        hosts = [{"targets": [it.url.removeprefix("http://")]} for it in (one, two, three)]
        simulator.is_multi_model = False
        simulator.answers["/simulator/targets"] = 200, json.dumps(hosts).encode()
        assert read_models(f"{simulator.url}/", None) == [both, former, later]
        assert read_models(simulator.url, "shop") == [both]
        three.is_multi_model = False
        with pytest.raises(CountsUnusable, match="404, and no list of models"):
            read_models(simulator.url, None)
        for answer in (b"[]", b"<html>", b'{"targets": 1}', b"[1]", b'[{"targets": 1}]'):
            simulator.answers["/simulator/targets"] = 200, answer
            with pytest.raises(CountsUnusable, match="of a simulator whose endpoint is in service"):
                read_models(simulator.url, None)


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    """Those that are there are named."""
    path = write(tmp_path, write_features(SHOP))
    with pytest.raises(CountsUnusable, match=r"no model is called 'x'; expected one of shop$"):
        read_models(path, "x")
    with (
        fake_container() as container,
        pytest.raises(CountsUnusable, match="called 'x'; expected a loaded one: there is none"),
    ):
        read_models(container.url, "x")


def change(**members: Any) -> Callable[[dict[str, Any]], None]:
    """Change members of the document's first column."""
    return lambda document: document["models"][0]["workflows"]["0_transformworkflowtriton"][
        0
    ].update(members)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda it: it.clear(), "JSON of another kind; expected the JSON of GET /models/<name>"),
        (lambda it: it.update(format="merlin-sagemaker-compare"), "JSON of another kind"),
        (lambda it: it.update(version=2), "version 2; expected version 1"),
        (lambda it: it.update(models={}), "models: Input should be a valid list"),
        (lambda it: it["models"].append({}), "models.1.model_name: "),
        (change(values="many"), "models.0.workflows.0_transformworkflowtriton.0.values: "),
        (change(nulls=-1), "model 3fb1, column 'user_id': a count below 0 or above 2"),
        (change(finite=2**63), "model 3fb1, column 'user_id': a count below 0 or above 2"),
        (change(sum=float("nan")), "column 'user_id': a number that is not finite"),
        (change(fitted={"std": float("inf")}), "column 'user_id': a number that is not finite"),
        (change(buckets=spread(1, -1)), "column 'user_id': a count below 0 or above 2"),
        (change(buckets=[1, 2]), "column 'user_id': 2 buckets; expected 32, or none"),
        (change(fitted={"buckets": [1] * 33}), "column 'user_id': 33 buckets; expected 32, or"),
    ],
)
def test_a_file_that_is_no_such_document(
    spoil: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    """What was found, and where."""
    document = json.loads(write_features(SHOP))
    spoil(document)
    with pytest.raises(CountsUnusable) as refusal:
        read_document("counts.json", json.dumps(document).encode())
    assert str(refusal.value).startswith("counts.json: ")
    assert sentence in str(refusal.value)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[" * 100_000, b"<html>", b'["a"]', b"1"])
def test_a_file_that_is_no_json(content: bytes) -> None:
    with pytest.raises(CountsUnusable, match=rf'expected the JSON .*"format": "{FORMAT}"'):
        read_document("counts.json", content)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A URL without its scheme is taken for a file, so the sentence has both."""
    with pytest.raises(CountsUnusable, match=r"read \(No such file .*the container's URL"):
        read_models("127.0.0.1:8080", None)
    with pytest.raises(CountsUnusable, match=r"cannot be read \(Is a directory\)"):
        read_models(str(tmp_path), None)


def test_an_address_where_nobody_answers() -> None:
    with fake_container() as container:
        url = container.url
    for address, reason in [
        (url, "Connection refused"),
        ("s3://bucket/counts.json", "unknown scheme 's3'"),
        ("http://127.0.0.1:port", "nonnumeric port"),
    ]:
        with pytest.raises(CountsUnusable, match=f"no container answers there .*{reason}"):
            read_models(address, None)


def test_an_address_where_somebody_else_answers() -> None:
    """Another server's page, or its own JSON, is no list of models."""
    with fake_container(SHOP) as container:
        for answer in ((200, b"<html>"), (200, b'{"models": 1}'), (503, b"{}"), (200, b"[]")):
            container.answers["/models"] = answer
            with pytest.raises(CountsUnusable, match=f"answered with {answer[0]}, and no list"):
                read_models(container.url, None)
        container.answers = {"/models/3fb1/features": (200, b"<html>")}
        with pytest.raises(CountsUnusable, match="it is no JSON"):
            read_models(container.url, "3fb1")


def test_a_list_that_does_not_end() -> None:
    """A token that comes again, which would be followed for ever."""
    page = {"models": [{"modelName": "3fb1", "modelUrl": "/"}], "nextPageToken": "x" * 99}
    with fake_container(SHOP) as container:
        container.answers["/models"] = 200, json.dumps(page).encode()
        sentence = "does not end: after 2 pages nextPageToken is 'x{60}'; expected one that leads"
        with pytest.raises(CountsUnusable, match=sentence):
            read_models(container.url, None)


def test_a_container_that_cannot_answer() -> None:
    """An older one has no such path; one that is short of something says so; neither is empty."""
    with fake_container(SHOP) as container:
        container.answers["/models/3fb1/features"] = 404, b"{}"
        with pytest.raises(CountsUnusable, match=r"has 1 models, and no path /models/<name>/feat"):
            read_models(container.url, None)
        container.answers["/models/3fb1/features"] = 507, b"{}"
        for name in (None, "3fb1", "shop"):
            with pytest.raises(
                CountsUnusable, match=r"/models/3fb1/features: .* answered with 507"
            ):
                read_models(container.url, name)


def test_since_an_earlier_look() -> None:
    """What came later alone: sums, buckets and all."""
    before = make_model(make_ids(came=(10, 0)), make_numbers(numbers=(3.0,), times=5))
    now = make_model(make_ids(came=(12, 30), nulls=4), make_numbers(numbers=(3.0,), times=7))
    later = make_model(make_ids(came=(2, 30), nulls=4), make_numbers(numbers=(3.0,), times=2))
    assert subtract([now], [before]) == [replace(later, is_since=True)]


def test_since_a_look_at_another_life() -> None:
    """A model that was loaded again, or anew fitted, counts from its load; so does a new one."""
    now = make_model(make_ids(came=(12, 30)))
    for before in (
        make_model(make_ids(came=(90, 90))),
        make_model(make_ids(came=(13, 1))),
        make_model(make_ids(came=(1, 1), fitted=(5, 5))),
        make_model(make_ids(came=(1, 1)), name="other"),
        make_model(replace(make_ids(came=(1, 1)), buckets=())),
    ):
        assert subtract([now], [before]) == [now]


def test_since_a_look_at_another_container() -> None:
    """It began to count at another time, though it has counted fewer values of every column."""
    before = replace(make_model(make_ids(came=(1, 1))), began=(1.7e9,))
    now = replace(make_model(make_ids(came=(12, 30))), began=(1.8e9,))
    assert subtract([now], [before]) == [now]


def test_since_counts_of_which_one_fell() -> None:
    """All columns of a model have begun anew, not this one alone."""
    before = make_model(make_ids(nulls=5), make_numbers(times=2))
    now = make_model(make_ids(nulls=4, came=(90, 90)), make_numbers(times=9))
    assert subtract([now], [before]) == [now]


def test_since_a_look_at_models_of_one_name() -> None:
    """Two that are not fitted alike, as containers have them while an archive is replaced."""

    def make(came: int, fitted: int) -> ModelFeatures:
        return make_model(make_ids(came=(came, 0), fitted=(fitted, 1)))

    since = subtract([make(8, 1), make(9, 2)], [make(3, 1), make(7, 2)])
    assert since == [replace(it, is_since=True) for it in (make(5, 1), make(2, 2))]
