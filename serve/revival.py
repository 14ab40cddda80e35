"""Loads a ready model's Triton models again when they were lost under it.

Two things lose them: a python stub that dies leaves its model in tritonserver's index as READY and
failing for ever (triton-inference-server/python_backend has no recovery), and a tritonserver that
dies takes all of them with it. Callers wait; the model stays in the list.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from ensemble_tools import retract
from serve.errors import ModelNotLoaded, ServeError, TritonUnavailable
from serve.registry import Model, Registry, State
from serve.triton_client import TritonClient

_log = logging.getLogger(__name__)


class Revival:
    """Brings models back, each once however many callers met its death."""

    def __init__(
        self,
        registry: Registry,
        triton: TritonClient,
        serving_repository: Path,
        load_timeout_s: float,
        unload_timeout_s: float,
    ) -> None:
        self._registry, self._triton = registry, triton
        self._serving_repository = serving_repository
        self._load_timeout_s, self._unload_timeout_s = load_timeout_s, unload_timeout_s

    async def revive(self, model: Model, generation: int) -> None:
        """Return when the model of that generation has been loaded again, by whomever.

        Raises ModelNotLoaded when it could not be; then it has been unloaded and is not listed.
        """
        if model.generation == generation and model.state is State.READY:
            self._registry.begin_reload(model)  # now, before another caller can look
            # Shielded: the caller may go away, the others that wait may not be left without it.
            await asyncio.shield(asyncio.ensure_future(self._reload(model)))
        await model.settled()
        if model.state is not State.READY and model.generation == generation:
            raise ModelNotLoaded(model.name, "was lost and could not be loaded again")

    async def revive_all(self) -> None:
        """Load every ready model again: a new tritonserver has none. Never raises."""
        await asyncio.gather(*map(self._reload_if_ready, self._registry.all_loaded()))

    async def _reload_if_ready(self, model: Model) -> None:
        if model.state is State.READY:
            self._registry.begin_reload(model)
            await self._reload(model)

    async def _reload(self, model: Model) -> None:
        _log.warning("a model's Triton models were lost; loading them again", extra=_facts(model))
        try:
            await self._triton.unload(model.serving, self._unload_timeout_s, lost=True)
            await self._triton.load(model.serving, self._load_timeout_s)
        except asyncio.CancelledError:  # tritonserver died again, as below
            self._registry.fail_reload(model)
            raise
        except TritonUnavailable as error:
            # tritonserver went away meanwhile. Whoever brings it back calls revive_all.
            _log.warning("the model will be loaded later: %s", error, extra=_facts(model))
            self._registry.fail_reload(model)
        except ServeError as error:
            _log.error("the model could not be loaded again: %s", error, extra=_facts(model))
            await self._give_up(model)
        except Exception:
            await self._give_up(model)
            raise
        else:
            self._registry.finish_reload(model)
            _log.info("the model was loaded again", extra=_facts(model))

    async def _give_up(self, model: Model) -> None:
        self._registry.forget(model)
        await asyncio.to_thread(retract, model.serving, self._serving_repository)


def _facts(model: Model) -> dict[str, object]:
    return {"model_name": model.name, "generation": model.generation}
