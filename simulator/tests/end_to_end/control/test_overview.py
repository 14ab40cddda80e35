"""The overview and each endpoint's data as JSON, of a control plane that runs."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.tests.support.control_plane import ControlPlane, control_plane, make_variant
from tests.support.container import until

URL = "s3://models/shop/"


@pytest.fixture(scope="module")
def http(plane: ControlPlane) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=plane.url, timeout=60, trust_env=False) as client:
        yield client


def endpoint(http: httpx.Client, name: str, **query: float) -> dict[str, Any]:
    """What the overview has of one endpoint."""
    told = http.get("/simulator/overview", params=query).json()
    (found,) = [one for one in told["endpoints"] if one["name"] == name]
    return dict(found)


def test_it_has_endpoints_variants_and_instances(plane: ControlPlane, http: httpx.Client) -> None:
    """With status, weights, counts, loaded models, requests and errors, as they happened."""
    plane.create_endpoint("seen", URL, count=2)
    for _ in range(3):
        plane.invoke("seen", "a.tar.gz")
    with contextlib.suppress(Exception):
        plane.invoke("seen", "missing.tar.gz")
    told = endpoint(http, "seen")
    assert (told["status"], told["config"], told["failure_reason"]) == ("InService", "seen", None)
    assert (told["requests"], told["errors"]) == (4, 1)
    assert (told["requests_per_minute"], told["errors_per_minute"]) == (4, 1)
    (variant,) = told["variants"]
    assert (variant["name"], variant["fleet"], variant["share"]) == ("AllTraffic", "serving", 1)
    assert (variant["in_service"], variant["desired"], variant["scaling"]) == (2, 2, None)
    assert variant["instance_type"] == "ml.c5.xlarge"
    assert [one["state"] for one in variant["instances"]] == ["in service"] * 2
    assert sum(one["loaded"] for one in variant["instances"]) == 1
    assert variant["instances"][0]["memory_limit"] == 8 * 2**30
    until(lambda: sum(point[2] for point in endpoint(http, "seen")["course"]) == 4, "its course")
    course = endpoint(http, "seen")["course"]
    assert course[-1][1] == 2
    newer = endpoint(http, "seen", since=course[-1][0])["course"]
    assert all(at > course[-1][0] for at, *_ in newer)


def test_a_moment_that_is_none_is_refused(http: httpx.Client) -> None:
    for text in ("yesterday", "nan"):
        answer = http.get("/simulator/overview", params={"since": text})
        assert answer.status_code == 400
        assert "expected seconds since the epoch" in answer.json()["message"]


def test_an_update_shows_both_fleets(plane: ControlPlane, http: httpx.Client) -> None:
    """The old one serves; the new one's instances are there, too, on the endpoint's own page."""
    plane.create_endpoint("both-fleets", URL)
    plane.create_model("silent", URL, Environment={"FAKE_START": "silent"})
    sagemaker = plane.client("sagemaker")
    sagemaker.create_endpoint_config(
        EndpointConfigName="silent", ProductionVariants=[make_variant("silent", 2)]
    )
    sagemaker.update_endpoint(EndpointName="both-fleets", EndpointConfigName="silent")

    def fleets() -> list[tuple[str, str]]:
        instances = http.get("/simulator/endpoints/both-fleets/state").json()["instances"]
        return [(one["fleet"], one["state"]) for one in instances]

    expected = [("serving", "in service"), ("coming", "starting"), ("coming", "starting")]
    until(lambda: fleets() == expected, "both fleets are there")
    told = endpoint(http, "both-fleets")
    assert (told["status"], told["pending_config"]) == ("Updating", "silent")
    assert [(one["fleet"], one["share"]) for one in told["variants"]] == [
        ("serving", 1),
        ("coming", None),
    ]
    sagemaker.delete_endpoint(EndpointName="both-fleets")


def test_a_failed_endpoint_says_why(plane: ControlPlane, http: httpx.Client) -> None:
    plane.create_endpoint("fails", URL, wait=False, Environment={"FAKE_START": "dies"})
    assert plane.settled("fails") == "Failed"
    state = http.get("/simulator/endpoints/fails/state").json()
    for told in (endpoint(http, "fails"), state):
        assert "no CUDA-capable device is detected" in told["failure_reason"]
        assert told["status"] == "Failed"
    assert (state["multi_model"], state["models"], state["instances"]) == (True, URL, [])
    assert http.get("/simulator/endpoints/fails/health").status_code == 503


def test_a_deleted_endpoint_ends_its_streams(plane: ControlPlane, http: httpx.Client) -> None:
    """Its page and its data are 404 then, with a sentence."""
    plane.create_endpoint("ends", URL)
    lines, heard = list[str](), threading.Event()

    def follow() -> None:
        with http.stream("GET", "/simulator/endpoints/ends/events") as stream:
            for line in stream.iter_lines():
                lines.append(line)
                heard.set()

    following = threading.Thread(target=follow)
    following.start()
    assert heard.wait(60)
    plane.client("sagemaker").delete_endpoint(EndpointName="ends")
    following.join(60)
    assert not following.is_alive()
    assert any('"instance_in_service"' in line for line in lines)
    for path in ("", "state", "events", "health", "targets"):
        answer = http.get(f"/simulator/endpoints/ends/{path}")
        assert answer.status_code == 404
        assert answer.text.startswith(
            "There is no endpoint ends: it was deleted, or never created."
        )


def test_an_endpoint_created_anew_is_another_one(plane: ControlPlane, http: httpx.Client) -> None:
    """Its events begin at 1 again, of another run; who followed the old one is told from the
    beginning."""
    runs = []
    for _ in range(2):
        plane.create_endpoint("again", URL)
        runs.append(http.get("/simulator/endpoints/again/state").json()["run"])
        sagemaker = plane.client("sagemaker")
        sagemaker.delete_endpoint(EndpointName="again")
        until(lambda: "again" not in plane.endpoint_names(), "it is deleted")
        sagemaker.delete_endpoint_config(EndpointConfigName="again")
        sagemaker.delete_model(ModelName="again")
    assert runs[0] != runs[1]


def test_health_and_targets_are_of_all_endpoints(plane: ControlPlane, http: httpx.Client) -> None:
    plane.create_endpoint("scraped", URL, count=2)
    answer = http.get("/simulator/health")
    assert answer.status_code == 200
    assert answer.json()["endpoints"]["InService"] >= 1
    targets = http.get("/simulator/targets").json()
    labels = [one["labels"] for one in targets if one["labels"]["endpoint_name"] == "scraped"]
    assert {one["variant_name"] for one in labels} == {"AllTraffic"}
    assert len({one["instance"] for one in labels}) == 2
    own = http.get("/simulator/endpoints/scraped/targets").json()
    assert [one for one in targets if one in own] == own
    for target in own:
        assert http.get(f"http://{target['targets'][0]}/ping").status_code == 200


def test_the_page_without_its_slash_is_found(http: httpx.Client) -> None:
    answer = http.get("/simulator/endpoints/any")
    assert answer.headers["location"] == "/simulator/endpoints/any/"


def test_streams_end_when_the_control_plane_does(tmp_path: Path) -> None:
    """It does not wait for those who follow events."""
    with (
        control_plane(tmp_path / "log") as plane,
        httpx.Client(trust_env=False, timeout=60) as client,
    ):
        plane.create_endpoint("followed", plane.put_models(tmp_path, "a.tar.gz"))
        url = f"{plane.url}/simulator/endpoints/followed/events"
        with client.stream("GET", url) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "retry: 1000"
            assert plane.stop() == 0
            assert "id: 1-" in "\n".join(lines)
