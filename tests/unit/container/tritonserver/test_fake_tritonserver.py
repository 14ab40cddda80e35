"""The fake tritonserver does what its knobs say; the tests that use it rest on this."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tritonclient.utils import InferenceServerException

from container.tritonserver.process import TritonProcess
from tests.fakes import tritonserver as fake
from tests.unit.container.conftest import WAIT_S, Stage, fake_stage, running, until


@contextlib.asynccontextmanager
async def fake_process(
    tmp_path: Path, **knobs: Any
) -> AsyncIterator[tuple[Stage, httpx.AsyncClient, Any, TritonProcess]]:
    """A running fake with the models `m` and `e` (an ensemble of `m`), and its two clients."""
    stage = fake_stage(tmp_path, **knobs)
    (stage.repository / "m").mkdir()
    (stage.repository / "e").mkdir()
    (stage.repository / "e/config.pbtxt").write_text('step { model_name: "m" model_version: -1 }')
    process = stage.process()
    sockets = httpx.AsyncHTTPTransport(uds=str(stage.addresses.http))
    http = httpx.AsyncClient(base_url="http://tritonserver", transport=sockets, timeout=60)
    async with running(process), stage.client() as grpc, http:
        yield stage, http, grpc, process


async def states(grpc: Any) -> dict[str, tuple[str, str]]:
    index = await grpc.get_model_repository_index()
    return {model.name: (model.state, model.reason) for model in index.models}


async def test_load_infer_unload(tmp_path: Path) -> None:
    """Without knobs it behaves: an ensemble brings its steps and takes them away."""
    async with fake_process(tmp_path) as (_, http, grpc, _process):
        assert (await states(grpc))["e"] == ("", "")
        await grpc.load_model("e")
        assert (await states(grpc))["m"] == ("READY", "")
        assert (await http.get("/v2/models/m/ready")).status_code == 200
        answer = await http.post("/v2/models/e/infer", content=b'{"inputs":[]}')
        assert answer.json() == {"model_name": "e", "echo": '{"inputs":[]}'}
        await grpc.unload_model("e", unload_dependents=True)
        assert (await states(grpc))["m"] == ("UNAVAILABLE", "unloaded")
        assert (await http.post("/v2/models/e/infer", content=b"{}")).status_code == 400
    events = [event["event"] for event in fake.read_record(tmp_path / "record")]
    assert [e for e in events if e != "index"] == [
        "start",
        "load",
        "infer",
        "unload",
        "infer",
        "stop",
    ]


async def test_binary_and_generate(tmp_path: Path) -> None:
    """Header sizes go back as they came; a stream is two events."""
    async with fake_process(tmp_path) as (_, http, grpc, _process):
        await grpc.load_model("m")
        header = {"Inference-Header-Content-Length": "2"}
        answer = await http.post("/v2/models/m/infer", content=b"{}\x00\x01", headers=header)
        assert answer.content == b"{}\x00\x01"
        assert answer.headers["inference-header-content-length"] == "2"
        stream = await http.post("/v2/models/m/generate_stream", content=b"hi")
        assert stream.text.count("data: ") == 2


@pytest.mark.parametrize("code", ["INTERNAL", "UNAVAILABLE"])
async def test_a_load_that_fails_some_times(tmp_path: Path, code: str) -> None:
    """With the message and code given, and then it works."""
    message = "memory limit set for GPU 0 has exceeded, model loading is rejected."
    knobs = {"m": {"message": message, "code": code, "times": 2}}
    async with fake_process(tmp_path, load=knobs) as (_, _http, grpc, _process):
        for _ in range(2):
            with pytest.raises(InferenceServerException, match=f"{code}.*memory limit"):
                await grpc.load_model("m")
        await grpc.load_model("m")
        with pytest.raises(InferenceServerException, match="failed to poll"):
            await grpc.load_model("unknown")


async def test_a_load_that_hangs_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    """The index still answers, and the client's own timeout ends the call."""
    async with fake_process(tmp_path, load={"m": {"hang": True}}) as (_, _http, grpc, _process):
        with pytest.raises(InferenceServerException, match=r"(?i)deadline"):
            await grpc.load_model("m", client_timeout=0.3)
        await grpc.load_model("e")


async def test_an_unload_that_takes_its_time(tmp_path: Path) -> None:
    """READY for a while after the answer, or for ever."""
    knobs = {"m": {"ready_for_s": 0.2}, "e": {"ready_for_s": -1}}
    async with fake_process(tmp_path, unload=knobs) as (_, _http, grpc, _process):
        await grpc.load_model("e")
        began = time.monotonic()
        await grpc.unload_model("m")
        await grpc.unload_model("e")
        while (await states(grpc))["m"][0] == "READY":  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # between two questions
        assert time.monotonic() - began >= 0.2
        assert (await states(grpc))["e"][0] == "READY"


async def test_inference_that_goes_wrong(tmp_path: Path) -> None:
    """A message some times; a broken, garbled, chunked or late answer."""
    sick = {"status": 500, "message": "Stub process 'm_0_0' is not healthy.", "times": 1}
    async with fake_process(tmp_path, infer={"m": sick}) as (_, http, grpc, _process):
        await grpc.load_model("m")
        first = await http.post("/v2/models/m/infer", content=b"{}")
        assert (first.status_code, first.json()["error"]) == (500, sick["message"])
        assert (await http.post("/v2/models/m/infer", content=b"{}")).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("knobs", "error"),
    [
        ({"close_mid_answer": True}, httpx.RemoteProtocolError),
        ({"garbage": True}, httpx.RemoteProtocolError),
        ({"hang": True}, httpx.ReadTimeout),
        ({"delay_s": 600}, httpx.ReadTimeout),
        ({"chunked": True}, None),
        ({"status": 503}, None),
    ],
)
async def test_answers_that_break(
    tmp_path: Path, knobs: dict[str, Any], error: type[Exception] | None
) -> None:
    """Each as a client sees it."""
    async with fake_process(tmp_path, infer={"*": knobs}) as (_, http, grpc, _process):
        await grpc.load_model("m")
        limit_s = 0.3 if error is httpx.ReadTimeout else WAIT_S
        call = http.post("/v2/models/m/infer", content=b"{}", timeout=limit_s)
        if error:
            with pytest.raises(error):
                await call
        else:
            answer = await call
            assert answer.status_code == knobs.get("status", 200)
            assert ("transfer-encoding" in answer.headers) == ("chunked" in knobs)


async def test_dying_after_some_requests(tmp_path: Path) -> None:
    """Only in its first life, by `lives`."""
    lives = [{"die_after_requests": 1}, {}]
    async with fake_process(tmp_path, lives=lives) as (_, http, grpc, process):
        await grpc.load_model("m")
        await http.post("/v2/models/m/infer", content=b"{}")
        with pytest.raises(httpx.RemoteProtocolError):
            await http.post("/v2/models/m/infer", content=b"{}")
        record = tmp_path / "record"
        await until(lambda: sum(e["event"] == "start" for e in fake.read_record(record)) == 2)
        await asyncio.wait_for(process.wait_live(), WAIT_S)
        for _ in range(3):
            await http.post("/v2/models/m/infer", content=b"{}")


def test_metrics_name_the_ready_models(tmp_path: Path) -> None:
    """In Prometheus' format."""
    played_by = fake.Fake({}, tmp_path, states={"m": ("READY", "")}, requests=3)
    assert b'nv_inference_request_success{model="m",version="1"} 3' in fake.metrics_text(played_by)


def test_arguments_are_read_as_tritonserver_reads_them() -> None:
    """Both ways of giving a value, flags without one, and the last of equal names."""
    found = fake.read_arguments(["--a=1", "--b", "2", "--c", "--a=3"])
    assert found == {"a": "3", "b": "2", "c": "true"}


def test_lives_are_counted_in_the_record(tmp_path: Path) -> None:
    """The n-th start takes the n-th knobs, and the last ones after that."""
    record = tmp_path / "record"
    words = json.dumps({"record": str(record), "lives": [{"x": 1}, {"x": 2}]})
    seen = []
    for _ in range(3):
        knobs = fake.read_knobs(words)
        seen.append(knobs["x"])
        fake.Fake(knobs, tmp_path).record("start")
    assert seen == [1, 2, 2]
