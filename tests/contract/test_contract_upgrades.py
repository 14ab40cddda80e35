"""Real clients that ask for HTTP/2 with every request: Java's, and `curl --http2`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contract.conftest import WITNESS
from tests.support.container import Container
from tests.support.http_clients import curl_http2, java
from tests.support.protocol import infer


@pytest.mark.thorough
async def test_clients_that_ask_for_an_upgrade(container: Container, tmp_path: Path) -> None:
    """Their bodies are the requests' own, however large; none runs as a request of its own."""
    url = f"http://127.0.0.1:{container.port}/models/{WITNESS}/invoke"
    hidden = f"DELETE /models/{WITNESS} HTTP/1.1\r\nHost: x\r\n\r\n"
    bodies = [json.dumps(infer([1])), hidden, json.dumps(infer([0.5] * 20_000)), hidden]
    for said in (await java(tmp_path, url, *bodies), await curl_http2(url, *bodies)):
        versions, statuses, texts = zip(*(line.split(" ", 2) for line in said), strict=True)
        assert set(versions) <= {"HTTP_1_1", "1.1"}
        assert statuses == ("200", "400", "200", "400")
        sums = [json.loads(texts[place])["outputs"][0]["data"] for place in (0, 2)]
        assert sums == [[4.0], [3.5] * 20_000]
        assert "no JSON" in texts[1]
    assert WITNESS in container.models()
