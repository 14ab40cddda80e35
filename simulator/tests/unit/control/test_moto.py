"""Passing on to moto: when it does not answer, one clear error; where buckets are named."""

from __future__ import annotations

import socket

import httpx
import pytest

from merlin_simulator.control.moto import Moto

SCOPE = "Credential=a/20260101/us-east-1/iam/aws4_request"
SIGNED = {
    "Authorization": f"AWS4-HMAC-SHA256 {SCOPE}, Signature=0",
    "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
}
JSON = {**SIGNED, "X-Amz-Target": "SageMaker.ListAlgorithms", "Content-Type": "text/json"}


async def _asked(url: str, headers: dict[str, str]) -> httpx.Response:
    moto = Moto(url, silence_s=0.2)
    transport = httpx.ASGITransport(moto)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        answer = await client.post("/", content=b"Action=ListRoles", headers=headers)
    await moto.close()
    return answer


@pytest.mark.parametrize("listens", [False, True])
async def test_moto_does_not_answer(listens: bool) -> None:
    """It is gone, and it hangs: both are told in the service's own form."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        if not listens:
            server.close()
        answer = await _asked(url, SIGNED)
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/xml"
        assert "<Code>ServiceUnavailable</Code>" in answer.text
        assert "did not answer in time" in answer.text
        told = (await _asked(url, JSON)).json()
        assert told["__type"] == "ServiceUnavailable"
        assert told["message"].startswith("ListAlgorithms: moto, which plays this service here")
