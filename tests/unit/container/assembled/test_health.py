"""/ping of all parts joined: 503 while nobody can be served, and 200 as soon as somebody can."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from container.constants import Constants
from tests.support import models
from tests.support.container import until
from tests.support.protocol import infer
from tests.unit.container.assembled.container_on_fake import ContainerOnFake, container_on_fake

AFTER_S = 1.0
SHORT = Constants(unhealthy_after_s=AFTER_S)
SICK, WELL = "unhealthy: /ping answers 503", "healthy: /ping answers 200"
MODES = pytest.mark.parametrize("mode", ["live", "ready"])


def changes(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """What the log says of /ping, in order."""
    return [record for record in caplog.records if record.getMessage() in (SICK, WELL)]


def ask_until_sick(endpoint: ContainerOnFake, name: str) -> None:
    """Ask for a model that cannot be loaded again, until /ping is 503."""

    def sick() -> bool:
        answer = endpoint.invoke(name, infer([1]))
        assert answer.status_code == 507, answer.text
        time.sleep(AFTER_S / 10)
        return endpoint.ping() == 503

    until(sick, "/ping is 503")


@MODES
def test_a_tritonserver_that_is_not_ready(
    mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From 26.04 on one model's dead stub makes tritonserver unready: no other model pays for it.

    Names that such a tritonserver refuses are not among those that it is given.
    """
    caplog.set_level(logging.INFO)
    knobs: dict[str, object] = {"dead_stubs": ["m1"], "refuses_names": True}
    with container_on_fake(tmp_path, knobs, SHORT, SAGEMAKER_TRITON_PING_MODE=mode) as endpoint:
        archive = models.write_archive(endpoint.model_root / "one/model", {"m": models.identity})
        assert endpoint.load("m1", archive).status_code == 200
        assert endpoint.ping() == 200
        assert endpoint.invoke("m1", infer([1])).status_code == 500
        group = 'instance_group { name: "two words & one" }'
        named = models.PythonModel(models.IDENTITY, more=group)
        steps = {"a..b": named, "x;y": models.identity, "~ü": models.identity}
        chained: dict[str, models.Writable] = {**steps, "all": models.Chain(tuple(steps))}
        archive = models.write_archive(endpoint.model_root / "two/model", chained)
        assert endpoint.load("..other.one.", archive).status_code == 200
        assert endpoint.invoke("..other.one.", infer([1])).status_code == 200
        assert endpoint.ping() == 200
    assert [record.getMessage() for record in changes(caplog)] == [WELL]


@pytest.mark.slow
@MODES
def test_no_model_comes_back(mode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """503 in both modes; a model that is loaded shows that others can be served."""
    caplog.set_level(logging.INFO)
    dead = {"status": 500, "message": "Stub process 'm1_0_0' is not healthy.", "times": 1}
    lacking = {"message": "out of memory", "code": "INTERNAL", "after": 1}
    knobs: dict[str, object] = {"infer": {"m1": dead}, "load": {"m1": lacking}}
    with container_on_fake(tmp_path, knobs, SHORT, SAGEMAKER_TRITON_PING_MODE=mode) as endpoint:
        archive = models.write_archive(endpoint.model_root / "one/model", {"m": models.identity})
        assert endpoint.load("m1", archive).status_code == 200
        ask_until_sick(endpoint, "m1")
        assert endpoint.http.get("/ping").content == b""
        assert endpoint.load("m2", archive).status_code == 200
        assert endpoint.ping() == 200
        assert endpoint.invoke("m1", infer([1])).status_code == 507
        assert endpoint.ping() == 200
    well, sick, again = changes(caplog)
    assert [record.getMessage() for record in (well, sick, again)] == [WELL, SICK, WELL]
    reason = sick.__dict__["reason"]
    assert "no model that was lost could be loaded again: no resources" in reason
    assert "out of memory" in reason
