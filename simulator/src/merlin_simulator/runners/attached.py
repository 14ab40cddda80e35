"""Containers that others started, by their addresses."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import shutil
import socket
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from merlin_simulator.errors import ContainerFailed
from merlin_simulator.hosting import Variant
from merlin_simulator.instance.container_client import ContainerClient, InstanceGone
from merlin_simulator.instance.instance import Instance
from merlin_simulator.rules import Rules
from merlin_simulator.runners.supervision import keep_watch
from merlin_simulator.watch.state import InstanceState


@dataclass(frozen=True)
class Attachment:
    """--instance URL=ROOT: where containers answer, and the folder that is their /opt/ml/models.

    root is the folder as this process writes it; seen_as is the same one as the containers read it.
    """

    url: str
    root: Path
    seen_as: Path


def read_attachment(text: str) -> Attachment:
    """URL=ROOT or URL=ROOT=SEEN_AS. Raises ValueError with a sentence."""
    url, _, folders = text.partition("=")
    root, _, seen_as = folders.partition("=")
    if not _is_origin(url) or not root:
        raise ValueError(
            f"--instance is URL=FOLDER, for instance http://127.0.0.1:8080=/opt/ml/models; "
            f"found {text!r}"
        )
    absolute = Path(root).absolute()
    return Attachment(url.rstrip("/"), absolute, Path(seen_as) if seen_as else absolute)


def _is_origin(url: str) -> bool:
    """http://HOST or http://HOST:PORT, with a port that there is."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond 65535, a bracket without its other
        return False
    return whole and parts.path in ("", "/") and not (parts.query or parts.fragment)


#: How often a container is asked for its models until it says them, and the pause between.
_LISTINGS, _LISTING_PAUSE_S = 3, 0.5
#: Why a model that an earlier simulator had loaded is unloaded.
_LEFT_OVER = "left over"
_NOT_FOUND = 404

_logger = logging.getLogger(__name__)


class AttachedInstances:
    """The containers behind one url: as many as its host name has addresses."""

    def __init__(
        self,
        attachment: Attachment,
        make_instance: Callable[[str, str, Attachment], Instance],
        variant: Variant,
        rules: Rules,
    ) -> None:
        self._attachment, self._make_instance = attachment, make_instance
        self._variant, self._rules = variant, rules
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._instances: dict[str, Instance] = {}
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._unknown = False

    async def run(self) -> None:
        """Look at the addresses now and then, until cancelled."""
        try:
            await self._update()
            urls = (instance.client.url for instance in self._instances.values())
            folder_names = {self._find_folder(url).root.name for url in urls}
            await asyncio.to_thread(_forget_replicas, self._attachment.root, folder_names)
            while True:
                await self._update()
                await asyncio.sleep(self._rules.resolve_every_s)
        finally:
            tasks = [*self._watched.values(), *self._leaving.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def stop(self) -> None:
        """The containers are not ours to stop."""

    async def _update(self) -> None:
        for watch in self._watched.values():
            if watch.done():
                watch.result()  # it ends by failing only
        urls = await self._resolve()
        # One that is still leaving empties its folder first: it joins at a later look.
        new = [name for name in urls if name not in {*self._instances, *self._leaving}]
        await asyncio.gather(*(self._join(name, urls[name]) for name in new))
        for name, instance in list(self._instances.items()):
            # A name may be away from the DNS for a moment: only one that does not answer leaves.
            if name not in urls and instance.state is not InstanceState.IN_SERVICE:
                self._leave(name, instance)

    async def _resolve(self) -> dict[str, str]:
        """Instance names and urls, by address."""
        parts = urlsplit(self._attachment.url)
        host, port = parts.hostname or "", parts.port or 80
        if _is_address(host):
            return {f"[{host}]:{port}" if ":" in host else f"{host}:{port}": self._attachment.url}
        return {
            f"{host}-{address}": urlunsplit(("http", f"{address}:{port}", "", "", ""))
            for address in await self._look_up(host, port)
        }

    async def _look_up(self, host: str, port: int) -> list[str]:
        """Of the host, by IPv4: by both, a container would be two instances."""
        try:
            answers = await asyncio.get_running_loop().getaddrinfo(
                host, port, family=socket.AF_INET, type=socket.SOCK_STREAM
            )
        except (OSError, UnicodeError) as error:
            if not self._unknown:
                _logger.warning(
                    "--instance %s: its host has no IPv4 address (%s); it is looked for every %g s",
                    self._attachment.url,
                    error,
                    self._rules.resolve_every_s,
                )
            self._unknown = True
            return []
        self._unknown = False
        return sorted({str(address[0]) for *_, address in answers})

    async def _join(self, name: str, url: str) -> None:
        """The folder is emptied here, so what the container has of it is unloaded before."""
        folder = self._find_folder(url)
        await self._unload_left_over(name, url)
        instance = await asyncio.to_thread(self._make_instance, name, url, folder)
        self._instances[name] = instance
        self._variant.join(instance)
        instance.tell("instance_starting", pid=None)
        self._watched[name] = asyncio.create_task(self._watch(instance))

    def _find_folder(self, url: str) -> Attachment:
        """Replicas share one volume: each has a folder of its own in it, named by its address."""
        attachment, address = self._attachment, urlsplit(url).hostname or ""
        if url == attachment.url:
            return attachment
        return replace(
            attachment, root=attachment.root / address, seen_as=attachment.seen_as / address
        )

    async def _watch(self, instance: Instance) -> None:
        """A container that failed may be started again by whoever runs it: watched all the same."""
        while True:
            await keep_watch(instance, self._rules, multi_model=True)
            instance.start()

    async def _unload_left_over(self, name: str, url: str) -> None:
        """A container may outlive the simulator that loaded its models: it is this endpoint's."""
        client = ContainerClient(url, self._rules)
        try:
            for model_name in sorted(await _list_models(client)):
                await self._unload(name, client, model_name)
        except InstanceGone:
            pass  # it does not run yet, so it has none
        finally:
            await client.close()

    async def _unload(self, name: str, client: ContainerClient, model_name: str) -> None:
        tell, start = partial(self._variant.log.tell, instance=name), time.monotonic()
        tell("unload_started", target_model=model_name, reason=_LEFT_OVER)
        try:
            await client.unload(model_name, model_name)
        except (ContainerFailed, InstanceGone) as error:
            status = error.status if isinstance(error, ContainerFailed) else 0
            if status != _NOT_FOUND:
                tell("unload_failed", target_model=model_name, status=status, message=str(error))
                return
        seconds = time.monotonic() - start
        tell("unloaded", target_model=model_name, seconds=seconds, reason=_LEFT_OVER)

    def _leave(self, name: str, instance: Instance) -> None:
        self._watched.pop(name).cancel()
        instance.end("its address is gone", InstanceState.STOPPED)
        del self._instances[name]
        self._variant.leave(name)
        self._leaving[name] = asyncio.create_task(self._release(name, instance))

    async def _release(self, name: str, instance: Instance) -> None:
        """Its requests end in their own time, then its connections are closed; no folder stays."""
        try:
            await instance.wait_until_idle(self._rules.invoke_timeout_s)
        finally:
            await instance.close()
        folder = self._find_folder(instance.client.url)
        if folder != self._attachment:
            await asyncio.to_thread(shutil.rmtree, folder.root, ignore_errors=True)
        del self._leaving[name]


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False


async def _list_models(client: ContainerClient) -> frozenset[str]:
    """Models that the container lists; none if it does not answer, which its health shows."""
    for _ in range(_LISTINGS):
        with suppress(ContainerFailed):
            listed = await client.loaded()
            if listed is not None:
                return listed
        await asyncio.sleep(_LISTING_PAUSE_S)
    return frozenset()


def _forget_replicas(root: Path, folder_names: Collection[str]) -> None:
    """Remove what replicas of an earlier run left in a shared volume; those of now are kept."""
    for path in root.iterdir() if root.is_dir() else ():
        if _is_address(path.name) and path.name not in folder_names:
            shutil.rmtree(path, ignore_errors=True)
