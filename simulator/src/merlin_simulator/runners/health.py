"""Polling a container as the platform does: /ping, and /models beside it.

AWS: /ping answers 200 within 2 s; an endpoint fails when the container lists no models
(pytorch/serve#397: a 404 there ends it), or is not healthy within its start-up window.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from merlin_simulator.errors import ContainerFailed
from merlin_simulator.instance.container_client import InstanceGone
from merlin_simulator.instance.instance import Instance
from merlin_simulator.rules import Rules
from merlin_simulator.watch.view import InstanceState

#: Between two looks at a container in service after one that failed.
_AGAIN_S = 1.0
#: Between two looks at a container that does not serve yet, or no more.
_LOOK_S = 0.2


async def keep_watch(instance: Instance, rules: Rules, multi_model: bool) -> None:
    """Poll until the start-up window is over without success; else until cancelled."""
    start, failures = time.monotonic(), 0
    while not instance.stopped:
        instance.look.clear()
        trouble = await _trouble(instance, multi_model)
        if trouble is None:
            failures = 0
            instance.serve(time.monotonic() - start)
        elif instance.state is InstanceState.IN_SERVICE:
            failures += 1
            if failures >= rules.unhealthy_after:
                start = time.monotonic()
                instance.suspect(trouble)
        elif not instance.stopped and _late(start, rules):
            instance.fail(f"not healthy within {rules.startup_s:g} s: {trouble}")
            return
        await _until_next(instance, rules, failures)


def _late(start: float, rules: Rules) -> bool:
    """Whether the start-up window is over."""
    return time.monotonic() - start > rules.startup_s


async def _trouble(instance: Instance, multi_model: bool) -> str | None:
    if not await instance.client.is_well():
        return "GET /ping is not answered with 200 in time"
    if not multi_model:
        return None
    before = instance.holdings.loads()
    try:
        listed = await instance.client.loaded()
    except (ContainerFailed, InstanceGone) as error:
        return f"GET /models is not answered with a listing: {error}"
    if listed is not None:
        instance.holdings.reconcile(before, listed)
    return None


async def _until_next(instance: Instance, rules: Rules, failures: int) -> None:
    wait_s = rules.ping_every_s
    if instance.state is not InstanceState.IN_SERVICE:
        wait_s = _LOOK_S
    elif failures:
        wait_s = min(_AGAIN_S, wait_s)
    with suppress(asyncio.TimeoutError):
        await asyncio.wait_for(instance.look.wait(), wait_s)
