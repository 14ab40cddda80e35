"""A container that keeps the multi-model contract, with knobs; a real process, no Triton.

A model is a directory with answer.json: {"answer": ..., "load_status": 200, "load_seconds": 0,
"invoke_seconds": 0, "invoke_status": 200, "mebibytes": 0 (held while loaded), "needs_alone": false
(507 on invoke beside another model), "late_507": false (a load waits load_seconds before its 507),
"unload_status": 200, "unload_seconds": 0, "dies_on_load": false, "dies_on_invoke": false (the
process kills itself in the middle)}. An invocation answers {"answer": ..., "echo": body}; with
"parts": [text, ...] it answers them chunked, "part_seconds" before each one but the first, and the
connection breaks after "breaks_after" of them.
A single-model endpoint's model is asked at /invocations. Knobs on the command line: --capacity
models until 507. In the environment: FAKE_START=dies (it says why and ends), FAKE_START=silent
(/ping is 503 for ever). What happened is at GET /fake: the calls in order, and the faults that a
platform must not make (loads at once of one model, loads of what is loaded, directories that are
not whole).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route


class _Broken(Exception):
    """Raised in mid-answer: the server closes the connection without the answer's end."""


class FakeContainer:
    """The contract's calls over a table of models."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.single_model = Path(os.environ.get("SERVE_SINGLE_MODEL_DIR", "/opt/ml/model"))
        self.models: dict[str, tuple[str, dict[str, Any]]] = {}
        self.loading: set[str] = set()
        self.most_loading = 0
        self.asked: dict[str, int] = {}
        self.calls: list[list[Any]] = []
        self.faults: list[str] = []
        self.invocations = 0

    async def ping(self, _: Request) -> Response:
        return Response(status_code=503 if os.environ.get("FAKE_START") == "silent" else 200)

    async def list_models(self, _: Request) -> Response:
        listed = [{"modelName": name, "modelUrl": url} for name, (url, _) in self.models.items()]
        return JSONResponse({"models": listed})

    async def load(self, request: Request) -> Response:
        wanted = await request.json()
        name, url = wanted["model_name"], wanted["url"]
        try:
            model = json.loads((Path(url) / "answer.json").read_text())
        except (OSError, ValueError) as error:
            self.faults.append(f"load of {name}: {error}")
            return JSONResponse({"error": f"no model at {url}"}, 400)
        self.calls.append(["load", model["answer"]])
        if name in self.models or name in self.loading:
            self.faults.append(f"{name} is loaded twice")
            return JSONResponse({"error": "already loaded"}, 409)
        late = model.get("late_507", False)
        if not late and len(self.models) + len(self.loading) >= self.capacity:
            return self._no_memory()
        self.loading.add(name)
        self.most_loading = max(self.most_loading, len(self.loading))
        await asyncio.sleep(model.get("load_seconds", 0))
        if model.get("dies_on_load"):
            _die()
        self.loading.discard(name)
        if late and len(self.models) + len(self.loading) >= self.capacity:
            return self._no_memory()
        if (status := model.get("load_status", 200)) != 200:
            return JSONResponse({"error": "the model does not load: it says so"}, status)
        # Every page is written to, so that it counts.
        model["held"] = bytearray(b"x" * (model.get("mebibytes", 0) * 2**20))
        self.models[name] = (url, model)
        return JSONResponse({})

    def _no_memory(self) -> Response:
        return JSONResponse({"error": f"no memory: {self.capacity} models fit"}, 507)

    async def unload(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.models:
            return JSONResponse({"error": "not loaded"}, 404)
        model = self.models[name][1]
        self.calls.append(["unload", model["answer"]])
        if self.asked.get(name):
            self.faults.append(f"{name} is unloaded while it is asked")
        await asyncio.sleep(model.get("unload_seconds", 0))
        if (status := model.get("unload_status", 200)) != 200:
            return JSONResponse({"error": "the model does not unload: it says so"}, status)
        self.models.pop(name, None)
        return JSONResponse({})

    async def invoke(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.models:
            return JSONResponse({"error": "not loaded"}, 404)
        model = self.models[name][1]
        if model.get("needs_alone") and len(self.models) > 1:
            return JSONResponse({"error": "no memory for this request"}, 507)
        if "parts" in model:
            headers = {"X-Amzn-SageMaker-Custom-Attributes": "seen"}
            return StreamingResponse(self._parts(name, model), headers=headers)
        self.asked[name] = self.asked.get(name, 0) + 1
        try:
            await asyncio.sleep(model.get("invoke_seconds", 0))
            if model.get("dies_on_invoke"):
                _die()
        finally:
            self.asked[name] -= 1
        if (status := model.get("invoke_status", 200)) != 200:
            return JSONResponse({"error": "the model failed: it says so"}, status)
        answer = {"answer": model["answer"], "echo": (await request.body()).decode("latin-1")}
        answer["pid"] = str(os.getpid())
        self.invocations += 1
        return JSONResponse(answer, headers={"X-Amzn-SageMaker-Custom-Attributes": "seen"})

    async def invoke_single(self, request: Request) -> Response:
        model = json.loads((self.single_model / "answer.json").read_text())
        if "parts" in model:
            return StreamingResponse(self._parts("", model))
        body = (await request.body()).decode("latin-1")
        return JSONResponse({"answer": model["answer"], "echo": body})

    async def _parts(self, name: str, model: dict[str, Any]) -> AsyncIterator[bytes]:
        self.asked[name] = self.asked.get(name, 0) + 1
        try:
            for number, part in enumerate(model["parts"]):
                await asyncio.sleep(model.get("part_seconds", 0) if number else 0)
                if number == model.get("breaks_after"):
                    raise _Broken(f"{name} breaks after {number} parts: it says so")
                yield part.encode()
            if model.get("breaks_after") == len(model["parts"]):
                raise _Broken(f"{name} breaks before its end: it says so")
        finally:
            self.asked[name] -= 1

    async def report(self, _: Request) -> Response:
        return JSONResponse(
            {
                "calls": self.calls,
                "faults": self.faults,
                "most_loading": self.most_loading,
                "pid": os.getpid(),
            }
        )

    async def metrics(self, _: Request) -> Response:
        """Prometheus' text."""
        return Response(
            "# TYPE fake_invocations counter\n"
            f'fake_invocations_total{{code="200"}} {self.invocations}\n'
            f"# TYPE fake_models gauge\nfake_models {len(self.models)}\n"
        )

    async def forget(self, _: Request) -> Response:
        """The models are gone, as after a restart that nobody noticed."""
        self.models.clear()
        return Response()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", nargs="?", help="serve, as images are started")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--capacity", type=int, default=1000)
    parser.add_argument("--goodbye", type=Path, help="written a second after the end was asked for")
    options = parser.parse_args()
    if os.environ.get("FAKE_START") == "dies":
        sys.exit("no CUDA-capable device is detected")
    fake = FakeContainer(options.capacity)
    app = Starlette(
        routes=[
            Route("/ping", fake.ping),
            Route("/models", fake.list_models),
            Route("/models", fake.load, methods=["POST"]),
            Route("/models/{name}", fake.unload, methods=["DELETE"]),
            Route("/models/{name}/invoke", fake.invoke, methods=["POST"]),
            Route("/metrics", fake.metrics),
            Route("/server/metrics", fake.metrics),
            Route("/invocations", fake.invoke_single, methods=["POST"]),
            Route("/fake", fake.report),
            Route("/fake/forget", fake.forget, methods=["POST"]),
        ]
    )
    # uvicorn raises the signal again when it has stopped for it.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.run(
        app,
        host=options.host,
        port=options.port,
        log_level="warning",
        timeout_graceful_shutdown=1,
        timeout_keep_alive=75,  # as the real one: no connection ends while a caller is slow
    )
    if options.goodbye is not None:
        time.sleep(1)
        options.goodbye.write_text("goodbye")


if __name__ == "__main__":
    main()
