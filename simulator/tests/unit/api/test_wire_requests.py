"""What a container is told of a request's target model."""

from __future__ import annotations

import pytest

from merlin_simulator.api.wire import STREAM_FIELDS, WHOLE_FIELDS, Field, accept
from merlin_simulator.errors import InvalidRequest
from simulator.tests.end_to_end.runtime_server import FakeEndpoint

FIELDS = pytest.mark.parametrize("fields", [WHOLE_FIELDS, STREAM_FIELDS], ids=["whole", "stream"])
NAME = "x-amzn-sagemaker-target-model"


@FIELDS
@pytest.mark.parametrize("named", ["a/m.tar.gz", "/a/m.tar.gz"])
def test_the_container_is_told_the_target_model_that_is_loaded(
    named: str, fields: dict[str, Field]
) -> None:
    """One leading slash is taken off in both places, so that loads and invocations agree."""
    accepted = accept(fields, [(NAME, named)], FakeEndpoint(), "r")
    assert accepted.target_model == "a/m.tar.gz"
    assert accepted.headers["X-Amzn-SageMaker-Target-Model"] == "a/m.tar.gz"


@FIELDS
def test_on_the_wire_a_target_model_is_ascii(fields: dict[str, Field]) -> None:
    """check_target_model takes other scripts; a header of the API does not."""
    with pytest.raises(InvalidRequest, match="printable ASCII"):
        accept(fields, [(NAME, "Straße.tar.gz")], FakeEndpoint(), "r")
