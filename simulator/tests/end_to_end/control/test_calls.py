"""docs/aws-calls.md against what the control plane does: every call of the services, asked for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import httpx
import pytest
from botocore.model import ServiceModel
from botocore.session import get_session

from simulator.tests.aws_calls import SERVICES, Calls, calls_of
from simulator.tests.support.control_plane import control_plane
from tests.support.container import CALL_TIMEOUT_S

UNKNOWN = re.compile("UnknownOperationException")
#: CloudWatch's calls are checked for their members before they are refused, and clients do so, too.
REFUSED = re.compile("UnknownOperationException|Member must not be null")


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a control plane that nobody else asks."""
    with (
        control_plane(tmp_path_factory.mktemp("calls") / "log") as running,
        httpx.Client(base_url=running.url, timeout=CALL_TIMEOUT_S, trust_env=False) as client,
    ):
        yield client


def _without(
    http: httpx.Client, service: str, names: Iterable[str], words: re.Pattern[str]
) -> set[str]:
    """Of these operations, those whose answer to no members at all has none of these words."""
    model = get_session().get_service_model(service)
    return {name for name in names if not words.search(_said(http, model, name))}


def _said(http: httpx.Client, model: ServiceModel, name: str) -> str:
    """The error, or whatever else is answered."""
    scope = f"Credential=a/20260101/us-east-1/{model.signing_name}/aws4_request"
    headers = {"Authorization": f"AWS4-HMAC-SHA256 {scope}, Signature=0"}
    path = "/"
    if "targetPrefix" in model.metadata:
        headers["X-Amz-Target"] = f"{model.metadata['targetPrefix']}.{name}"
        headers["Content-Type"] = f"application/x-amz-json-{model.metadata['jsonVersion']}"
    else:
        path = re.sub(r"\{[^}]*\}", "any", model.operation_model(name).http["requestUri"])
    answer = http.post(path, content=b"{}", headers=headers)
    said = f"{answer.headers.get('x-amzn-errortype', '')} {answer.text}"
    assert "<html" not in said, said
    return said


@pytest.mark.parametrize("service", SERVICES)
def test_every_call_is_in_one_set(service: str) -> None:
    calls = calls_of(service)
    names = get_session().get_service_model(service).operation_names
    assert sorted([*calls.carried_out, *calls.motos, *calls.refused]) == sorted(names)
    assert calls.carried_out


@pytest.mark.parametrize("service", SERVICES)
def test_the_table_says_what_is_done(http: httpx.Client, service: str) -> None:
    """Whoever is refused is told so as an operation that there is not; nobody else is."""
    calls: Calls = calls_of(service)
    had = calls.carried_out | calls.motos
    assert _without(http, service, had, UNKNOWN) == had
    assert _without(http, service, calls.refused, REFUSED) == set()
