"""The container's parts as the container joins them, in this process, on a fake tritonserver.

What is refused before tritonserver is asked, and what is answered without it, needs no process.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from container.assembly import Container
from container.constants import Constants
from container.settings.reading import Settings, read_settings
from container.telemetry.outside_counts import OutsideCounts
from container.tritonserver.runtime import ModelsPython
from serve.triton.access import TritonAccess
from tests.fakes import tritonserver as fake
from tests.support.container import START_TIMEOUT_S, Endpoint, Snapshot, until
from tests.unit.container.conftest import Stage, fake_stage
from tests.unit.serve.fake_in_loop import FakeInLoop

BACKENDS = ("onnxruntime", "python", "pytorch")


@dataclass
class ContainerOnFake(Endpoint):
    """The endpoint, and what its tritonserver was asked."""

    repository: Path
    record: Path

    @property
    def serving(self) -> Path:
        """Its serving repository."""
        return self.repository

    def asked(self, *kinds: str) -> list[dict[str, object]]:
        """What the fake tritonserver was asked, of these kinds, in order."""
        return [event for event in fake.read_record(self.record) if event["event"] in kinds]

    def computed_s(self) -> float:
        """The processor's time that this process has had, however busy the machine is."""
        return time.process_time()

    def snapshot(self) -> Snapshot:
        """What it holds now; there are no stubs."""
        return Snapshot(tuple(sorted(self.models())), self.published(), frozenset(), frozenset())


@contextmanager
def container_on_fake(
    directory: Path,
    knobs: dict[str, object] | None = None,
    constants: Constants | None = None,
    traces: str | None = None,
    /,
    **environment: str,
) -> Iterator[ContainerOnFake]:
    """An endpoint for as long as the block lasts. knobs: of tests/fakes/tritonserver.py.

    traces: where its spans are sent to.
    """
    model_root = directory / "models"
    model_root.mkdir(parents=True)
    stage = fake_stage(directory, computes=True, **(knobs or {}))
    settings = read_settings(
        {
            "SAGEMAKER_MULTI_MODEL": "true",
            "SERVE_MODEL_ROOT": str(model_root),
            "SERVE_WARM": "off",
            "SERVE_MEMORY_RESERVE_MB": "0",
            **environment,
        }
    )
    listener = socket.create_server(("127.0.0.1", 0))
    runs = _Runs(settings, stage, listener, constants or Constants(), traces)
    runs.start()
    port = listener.getsockname()[1]
    endpoint = ContainerOnFake(port, model_root, directory, stage.repository, directory / "record")
    try:
        status = 503 if knobs and knobs.get("never_live") else 200
        until(lambda: endpoint.ping() == status, f"/ping is {status}")
        yield endpoint
    finally:
        endpoint.http.close()
        runs.stop()


class _Runs(threading.Thread):
    """The event loop of one endpoint."""

    def __init__(
        self,
        settings: Settings,
        stage: Stage,
        listener: socket.socket,
        constants: Constants,
        traces: str | None,
    ) -> None:
        super().__init__(name="container on a fake", daemon=True)
        self._settings, self._stage, self._listener = settings, stage, listener
        self._constants, self._traces = constants, traces
        self._loop = asyncio.new_event_loop()
        self._stopped = asyncio.Event()

    def run(self) -> None:
        """Serves until `stop`."""
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    def stop(self) -> None:
        """Returns when nothing of it runs."""
        self._loop.call_soon_threadsafe(self._stopped.set)
        self.join(START_TIMEOUT_S)
        assert not self.is_alive()

    async def _serve(self) -> None:
        triton = FakeInLoop(self._stage.command)
        running = asyncio.ensure_future(triton.run())
        container = self._container()
        with self._listener:
            container.listen(self._listener, 128)
            beside = [asyncio.ensure_future(it) for it in container.observability.running()]
            await self._stopped.wait()
            container.give_up_loads()
            await container.stop()
            await container.observability.until_sent()
        for task in beside:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await triton.stop()
        await running

    def _container(self) -> Container:
        async def replace(_: float) -> None:
            raise AssertionError("a fake tritonserver does not die")

        return Container(
            self._settings,
            0,
            self._stage.addresses,
            self._stage.repository,
            lambda: ModelsPython(backends=BACKENDS),
            False,
            TritonAccess.make_secret(),
            {},
            replace,
            OutsideCounts(),
            lambda _: "",
            self._constants,
            self._traces,
        )
