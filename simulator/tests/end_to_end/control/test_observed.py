"""The replay sees one endpoint of a control plane as it sees one that `up` plays."""

from __future__ import annotations

from merlin_simulator.replay.observing import Observer
from simulator.tests.support.control_plane import ControlPlane

URL = "s3://models/shop/"


async def test_one_of_many_is_observed(plane: ControlPlane) -> None:
    plane.create_endpoint("observed", URL)
    plane.create_endpoint("other", URL)
    observer = Observer(plane.url, "observed")
    await observer.begin()
    plane.invoke("other", "a.tar.gz")
    answers = [plane.invoke("observed", "a.tar.gz") for _ in range(2)]
    ids = [answer["ResponseMetadata"]["RequestId"] for answer in answers]
    assert await observer.heard_of(ids, 60)
    await observer.close()
    assert (observer.asked, observer.hits) == (2, 1)
    assert observer.looks[-1].state["endpoint_name"] == "observed"


async def test_an_endpoint_that_is_not_there(plane: ControlPlane) -> None:
    observer = Observer(plane.url, "nobody")
    assert await observer.state() is None
    assert "404" in observer.trouble
    await observer.close()
