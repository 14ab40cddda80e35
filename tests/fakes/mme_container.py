"""A container that keeps the multi-model contract, with knobs; a real process, no Triton.

A model is a directory with answer.json: {"answer": ..., "load_status": 200, "load_seconds": 0,
"invoke_seconds": 0, "invoke_status": 200, "mebibytes": 0 (held while loaded), "needs_alone": false
(507 on invoke beside another model)}. An invocation answers {"answer": ..., "echo": body}.
Knobs on the command line: --capacity models until 507. What happened is at GET /fake: the calls in
order, and the faults that a platform must not make (loads at once of one model, loads of what is
loaded, directories that are not whole).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


class FakeContainer:
    """The contract's calls over a table of models."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.models: dict[str, tuple[str, dict[str, Any]]] = {}
        self.loading: set[str] = set()
        self.most_loading = 0
        self.asked: dict[str, int] = {}
        self.calls: list[list[Any]] = []
        self.faults: list[str] = []

    async def ping(self, _: Request) -> Response:
        return Response()

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
        if len(self.models) + len(self.loading) >= self.capacity:
            return JSONResponse({"error": f"no memory: {self.capacity} models fit"}, 507)
        self.loading.add(name)
        self.most_loading = max(self.most_loading, len(self.loading))
        await asyncio.sleep(model.get("load_seconds", 0))
        self.loading.discard(name)
        if (status := model.get("load_status", 200)) != 200:
            return JSONResponse({"error": "the model does not load: it says so"}, status)
        # Every page is written to, so that it counts.
        model["held"] = bytearray(b"x" * (model.get("mebibytes", 0) * 2**20))
        self.models[name] = (url, model)
        return JSONResponse({})

    async def unload(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.models:
            return JSONResponse({"error": "not loaded"}, 404)
        self.calls.append(["unload", self.models[name][1]["answer"]])
        if self.asked.get(name):
            self.faults.append(f"{name} is unloaded while it is asked")
        del self.models[name]
        return JSONResponse({})

    async def invoke(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.models:
            return JSONResponse({"error": "not loaded"}, 404)
        model = self.models[name][1]
        if model.get("needs_alone") and len(self.models) > 1:
            return JSONResponse({"error": "no memory for this request"}, 507)
        self.asked[name] = self.asked.get(name, 0) + 1
        try:
            await asyncio.sleep(model.get("invoke_seconds", 0))
        finally:
            self.asked[name] -= 1
        if (status := model.get("invoke_status", 200)) != 200:
            return JSONResponse({"error": "the model failed: it says so"}, status)
        answer = {"answer": model["answer"], "echo": (await request.body()).decode("latin-1")}
        answer["pid"] = str(os.getpid())
        return JSONResponse(answer, headers={"X-Amzn-SageMaker-Custom-Attributes": "seen"})

    async def report(self, _: Request) -> Response:
        return JSONResponse(
            {
                "calls": self.calls,
                "faults": self.faults,
                "most_loading": self.most_loading,
                "pid": os.getpid(),
            }
        )

    async def forget(self, _: Request) -> Response:
        """The models are gone, as after a restart that nobody noticed."""
        self.models.clear()
        return Response()


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--capacity", type=int, default=1000)
    options = parser.parse_args()
    fake = FakeContainer(options.capacity)
    app = Starlette(
        routes=[
            Route("/ping", fake.ping),
            Route("/models", fake.list_models),
            Route("/models", fake.load, methods=["POST"]),
            Route("/models/{name}", fake.unload, methods=["DELETE"]),
            Route("/models/{name}/invoke", fake.invoke, methods=["POST"]),
            Route("/fake", fake.report),
            Route("/fake/forget", fake.forget, methods=["POST"]),
        ]
    )
    uvicorn.run(app, port=options.port, log_level="warning", timeout_graceful_shutdown=1)


if __name__ == "__main__":
    main()
