"""Containers that run already, at addresses: docker compose's services."""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from simulator.endpoint import Endpoint
from simulator.health import keep_watch
from simulator.instance import Instance
from simulator.rules import Rules
from simulator.view import InstanceState

#: Between two looks at what a host name means: replicas come and go.
_RESOLVE_EVERY_S = 5.0


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
    if urlsplit(url).scheme != "http" or not urlsplit(url).hostname or not root:
        raise ValueError(
            f"--instance is URL=FOLDER, for instance http://127.0.0.1:8080=/opt/ml/models; "
            f"found {text!r}"
        )
    return Attachment(url.rstrip("/"), Path(root), Path(seen_as or root))


class AttachedInstances:
    """The containers behind one url: as many as its host name has addresses."""

    def __init__(
        self,
        attachment: Attachment,
        made: Callable[[str, str, Attachment], Instance],
        endpoint: Endpoint,
        rules: Rules,
    ) -> None:
        self._attachment, self._made = attachment, made
        self._endpoint, self._rules = endpoint, rules
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._instances: dict[str, Instance] = {}

    async def run(self) -> None:
        """Look at the addresses now and then, until cancelled."""
        try:
            await asyncio.to_thread(_forget_replicas, self._attachment.root)
            while True:
                await self._look()
                await asyncio.sleep(_RESOLVE_EVERY_S)
        finally:
            for watch in self._watched.values():
                watch.cancel()

    async def stop(self) -> None:
        """The containers are not ours to stop."""

    async def _look(self) -> None:
        urls = await self._urls()
        for name, url in urls.items():
            if name not in self._instances:
                await self._join(name, url)
        for name, instance in list(self._instances.items()):
            # A name may be away from the DNS for a moment: only one that does not answer leaves.
            if name not in urls and instance.state is not InstanceState.IN_SERVICE:
                await self._leave(name, instance)

    async def _urls(self) -> dict[str, str]:
        """Instance names and urls, by address."""
        parts = urlsplit(self._attachment.url)
        port = parts.port or 80
        with suppress(OSError):
            found = await asyncio.get_running_loop().getaddrinfo(
                parts.hostname, port, family=socket.AF_INET, type=socket.SOCK_STREAM
            )
            addresses = sorted({str(address[0]) for *_, address in found})
            if addresses == [parts.hostname]:
                return {f"{parts.hostname}:{port}": self._attachment.url}
            return {
                f"{parts.hostname}-{address}": urlunsplit(("http", f"{address}:{port}", "", "", ""))
                for address in addresses
            }
        return {}

    async def _join(self, name: str, url: str) -> None:
        place = self._place(url)
        instance = await asyncio.to_thread(self._made, name, url, place)
        self._instances[name] = instance
        self._endpoint.join(instance)
        instance.tell("instance_starting", pid=None)
        self._watched[name] = asyncio.create_task(self._watch(instance))

    def _place(self, url: str) -> Attachment:
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

    async def _leave(self, name: str, instance: Instance) -> None:
        self._watched.pop(name).cancel()
        instance.end("its address is gone", InstanceState.STOPPED)
        del self._instances[name]
        self._endpoint.leave(name)
        await instance.close()


def _forget_replicas(root: Path) -> None:
    """Remove what replicas of an earlier run left in a shared volume."""
    for path in root.iterdir() if root.is_dir() else ():
        with suppress(ValueError):
            ipaddress.ip_address(path.name)
            shutil.rmtree(path, ignore_errors=True)
