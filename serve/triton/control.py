"""Model control over gRPC: loads, unloads, and what there is. Foreign errors become ours here."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress

import grpc
from tritonclient.grpc import aio as triton_grpc
from tritonclient.utils import InferenceServerException

from ensemble_tools import ServingPlan
from ensemble_tools.serving.needed_modules import find_needed
from serve.deadline import Deadline, within
from serve.errors import ModelUnusable, ResourceExhausted, TritonUnavailable
from serve.threads import run_in_daemon_thread
from serve.triton.diagnosis.exhaustion import means_exhaustion
from serve.triton.diagnosis.load_errors import (
    ModelsSide,
    describe_load_error,
    find_lacking_module,
    load_failure_reason,
)
from serve.triton.diagnosis.model_errors import remove_regions

#: How long a question about models may take; the index of hundreds is some ms.
INDEX_TIMEOUT_S = 10.0
#: Between two looks at the index while a model unloads: short first, since most are gone at once.
_FIRST_LOOK_S, _LAST_LOOK_S = 0.002, 0.1
#: A model whose stub died may say UNLOADING for ever (below); after this it counts as gone. Where
#: its other instances do end (2.36), that takes 1 to 2 s, and gives back memory for a new load.
LOST_UNLOAD_S = 3.0
#: After this an ensemble that still says UNLOADING holds a request that tritonserver lost.
_LEAKED_UNLOAD_S = 10.0
#: How long tritonserver may take to say its version; it takes a millisecond.
_VERSION_S = 1.0
#: The last version that starts dead stubs again, which is 24.05's, and how versions begin.
_LAST_RESTARTING, _RELEASE = (2, 46), re.compile(r"(\d{1,4})\.(\d{1,4})")
#: Between two looks at whether there is one again.
_LIVE_LOOK_S = 0.05

#: This question waits while gRPC connects: it looks for one that was away every 0.1 to 0.2 s.
_LIVE_WAITS = """{"methodConfig": [{"waitForReady": true, "name": [
    {"service": "inference.GRPCInferenceService", "method": "ServerLive"}]}]}"""
#: min_reconnect_backoff_ms is left alone: in gRPC it is the time that connecting may take.
_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.service_config", _LIVE_WAITS),
]

_log = logging.getLogger(__name__)

_DIRECTORY_VANISHED = "failed to stat file"

_GONE = {"", "UNKNOWN", "UNAVAILABLE"}
_LATE = "StatusCode.DEADLINE_EXCEEDED"
_UNREACHABLE = {"StatusCode.UNAVAILABLE", "StatusCode.CANCELLED"}


def connect_to_control(address: str) -> triton_grpc.InferenceServerClient:
    """A client of model control; it belongs to the event loop that it was made in."""
    return triton_grpc.InferenceServerClient(address, channel_args=_CHANNEL)


class ModelControl:
    """One tritonserver's models. All waits are bounded by the caller's.

    address: where it listens for gRPC. access: the headers that open its API. is_gone: whether
    nobody listens there. connect: makes the client. memory: bytes that the machine has.
    """

    def __init__(
        self,
        address: str,
        access: Mapping[str, str],
        is_gone: Callable[[], Awaitable[bool]],
        connect: Callable[[str], triton_grpc.InferenceServerClient] = connect_to_control,
        models_side: Callable[[], ModelsSide] = ModelsSide,
        memory: float = math.inf,
    ) -> None:
        self._models_side, self._memory = models_side, memory
        self._address, self._access = address, access
        self._nobody_listens, self._connect = is_gone, connect
        self._grpc: triton_grpc.InferenceServerClient | None = None
        self._is_closed = False
        #: As learn_version heard it; empty before.
        self.version = ""

    @property
    def _control(self) -> triton_grpc.InferenceServerClient:
        # A gRPC channel belongs to the event loop that it was made in.
        if self._is_closed:  # a new channel would wait for a tritonserver that is being stopped
            raise TritonUnavailable("the connection is closed")
        if self._grpc is None:
            self._grpc = self._connect(self._address)
        return self._grpc

    async def close(self) -> None:
        """Close the connection; nothing is asked any more."""
        self._is_closed = True
        if self._grpc is not None:
            await self._grpc.close()

    async def learn_version(self) -> None:
        """Ask tritonserver for its version, once it answers; never raises."""
        if self.version:
            return
        gone = (
            InferenceServerException,
            grpc.aio.UsageError,
            asyncio.TimeoutError,
            TritonUnavailable,
        )
        with suppress(*gone):
            call = self._control.get_server_metadata(
                headers=self._access, client_timeout=_VERSION_S
            )
            self.version = str((await within(call, _VERSION_S)).version)

    @property
    def restarts_stubs(self) -> bool:
        """Whether tritonserver starts dead stubs again by itself, as far as is known."""
        number = _RELEASE.match(self.version)
        return number is None or (int(number[1]), int(number[2])) <= _LAST_RESTARTING

    async def request_load(self, plan: ServingPlan, deadline: Deadline) -> None:
        """Load what is called by name, then the entry model; with an ensemble come its steps.

        Returns when the entry model can be invoked.
        Raises ModelUnusable with the innermost reason, ResourceExhausted, TritonUnavailable or
        TritonTimeout.
        """
        try:
            # The loads themselves do not wait: all of them have to reach the same tritonserver.
            await self._control.is_server_live(
                headers=self._access, client_timeout=deadline.remaining
            )
            for name in (*plan.called, plan.entry):
                await self._control.load_model(
                    name, headers=self._access, client_timeout=deadline.remaining
                )
        except InferenceServerException as error:
            if error.status() == _LATE and await self._nobody_listens():
                raise TritonUnavailable("nobody is there") from error
            needed = await _find_needed(plan, find_lacking_module(error.message() or ""))
            raise self._translate_load_error(plan, error, deadline, needed) from error
        except grpc.aio.UsageError as error:
            raise TritonUnavailable("the connection is closed") from error

    async def request_unload(
        self,
        plan: ServingPlan,
        deadline: Deadline,
        *,
        lost: Collection[str] = (),
        lost_s: float = LOST_UNLOAD_S,
    ) -> None:
        """Unload every Triton model of the plan; returns when they are gone.

        Of a name that was loaded again meanwhile tritonserver tells the newest state only: stubs of
        the one before may end later.

        lost: those whose python stub died. tritonserver 2.51 never releases a request that met a
        dead stub (2.36 does), so that such a model, and the ensembles over it, say UNLOADING for
        ever. They can be loaded again in that state; their regions of shared memory stay until
        tritonserver ends, and the stubs of their other instances until somebody ends those. The
        other models are waited for. It is looked at again and again: more may come meanwhile.
        lost_s: how long they may take before they count as gone.

        Nor does any version up to 2.6x release an ensemble's request when a step erred while
        another one ran. An ensemble has nothing of its own to give back, so one that says UNLOADING
        for long holds such a request; what is left of the plan is then not waited for, but logged.

        A tritonserver that is not there holds nothing. Raises TritonTimeout, also when it is there
        and gRPC does not reach it.
        """
        try:
            await deadline.bound(
                self._unload_from_any(plan, lost, lost_s), f"unloading the model {plan.model_name}"
            )
        except InferenceServerException as error:
            raise TritonUnavailable(remove_regions(error.message() or str(error))) from error
        except grpc.aio.UsageError as error:
            raise TritonUnavailable("the connection is closed") from error

    async def _unload_from_any(
        self, plan: ServingPlan, lost: Collection[str], lost_s: float
    ) -> None:
        """Unload from the tritonserver that is there, if there is one, also from a new one."""
        while True:
            try:
                return await self._unload_models(plan, lost, lost_s)
            except InferenceServerException as error:
                if error.status() not in _UNREACHABLE:
                    raise
            if await self._nobody_listens():
                return None
            await asyncio.sleep(_LIVE_LOOK_S)

    async def _unload_models(self, plan: ServingPlan, lost: Collection[str], lost_s: float) -> None:
        await self._unload_by_name(plan.entry)
        pause, started = _FIRST_LOOK_S, time.monotonic()
        ensembles = _list_ensembles(plan)
        while held := await self._list_states(plan):
            waited = time.monotonic() - started
            stuck = {*lost, plan.entry, *ensembles} if lost else set()
            unloading = "READY" not in held.values()
            if unloading and held.keys() <= stuck and waited > lost_s:
                return
            if unloading and ensembles & held.keys() and waited > _LEAKED_UNLOAD_S:
                why = "met a dead stub" if stuck else "erred in a step beside another one"
                _log.warning(
                    "tritonserver does not release requests that %s, and keeps: %s",
                    why,
                    ", ".join(sorted(held)),
                )
                return
            # What is called goes after its caller, which may call it to the very end.
            if plan.entry not in held or plan.entry in stuck or not plan.called:
                for name in reversed(plan.triton_names):
                    if held.get(name) == "READY" and name != plan.entry:
                        await self._unload_by_name(name)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_LOOK_S)

    async def states(self, plan: ServingPlan) -> dict[str, str]:
        """The plan's Triton models that tritonserver has, with their states.

        Raises TritonUnavailable.
        """
        try:
            return await within(self._list_states(plan), INDEX_TIMEOUT_S)
        except asyncio.TimeoutError as error:
            raise TritonUnavailable("its index does not come") from error
        except InferenceServerException as error:
            raise TritonUnavailable(error.message() or str(error)) from error

    async def answers_load(self, triton_name: str, timeout_s: float) -> bool:
        """Whether the load of that model is answered, whatever the answer is.

        True also for a tritonserver that is not there: it is not stuck.
        """
        try:
            await self._control.load_model(
                triton_name, headers=self._access, client_timeout=timeout_s
            )
            await self._control.unload_model(
                triton_name, headers=self._access, client_timeout=timeout_s
            )
        except InferenceServerException as error:
            return error.status() != _LATE or await self._nobody_listens()
        except (
            grpc.aio.UsageError,
            TritonUnavailable,
        ):  # the connection is closed: we are stopping
            return True
        return True

    async def _unload_by_name(self, triton_name: str) -> None:
        await self._control.unload_model(triton_name, headers=self._access, unload_dependents=True)

    async def _list_states(self, plan: ServingPlan) -> dict[str, str]:
        """The plan's Triton models that are not gone, with their states."""
        names = set(plan.triton_names)
        return {
            model.name: model.state
            for model in await self._read_index()
            if model.name in names and model.state not in _GONE
        }

    async def _read_index(self) -> list[triton_grpc.service_pb2.ModelIndex]:
        """Every Triton model. Unbounded: the caller names the limit.

        tritonserver lists the repository's directories and then looks at each; it gives up when one
        of another model is taken away between the two. The next look is a new list.
        """
        while True:
            try:
                index = await self._control.get_model_repository_index(
                    headers=self._access, client_timeout=INDEX_TIMEOUT_S
                )
                return list(index.models)
            except InferenceServerException as error:
                if _DIRECTORY_VANISHED not in (error.message() or ""):
                    raise
            await asyncio.sleep(_FIRST_LOOK_S)

    def _translate_load_error(
        self, plan: ServingPlan, error: InferenceServerException, deadline: Deadline, needed: str
    ) -> Exception:
        """needed: who needs a module that is lacking, in words."""
        message = error.message() or ""
        if error.status() in _UNREACHABLE:
            return TritonUnavailable("it went away during the load")
        if error.status() == _LATE:
            return deadline.missed(f"loading the model {plan.model_name}")
        names = [f"{ours} {theirs}".encode() for ours, theirs in plan.source_names.items()]
        if means_exhaustion(message, names, self._memory):
            reason = load_failure_reason(message)
            return ResourceExhausted(f"no resources to load the model {plan.model_name}: {reason}")
        return ModelUnusable(describe_load_error(plan, message, self._models_side(), needed))


async def _find_needed(plan: ServingPlan, module: str) -> str:
    """Who of the plan needs a module that a load lacked; in a thread, since files are read."""
    return await run_in_daemon_thread(lambda: find_needed(plan, module), "needed") if module else ""


def _list_ensembles(plan: ServingPlan) -> set[str]:
    return {
        model.triton_name
        for model in plan.models
        if "ensemble_scheduling" in (model.config_text or "")
    }
