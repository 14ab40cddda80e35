"""A registry by its HTTP API: tags, and manifests with their digests.

OCI distribution-spec 1.1, "API".
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from merlin_simulator.control.errors import ServiceError

#: Without the ones it knows, a registry converts a manifest, or says that there is none.
_ACCEPTED = ", ".join(
    (
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
    )
)
_DIGEST = "Docker-Content-Digest"
_ANSWER_S = 20.0
#: distribution's limit for a manifest, bytes.
_LONGEST = 4 * 1024 * 1024


@dataclass(frozen=True)
class Manifest:
    """As the registry has it; digest: sha256:… of its text."""

    digest: str
    media_type: str
    text: str

    @property
    def size(self) -> int:
        """Of what it names, compressed, in bytes, as ECR counts it: layers and configuration."""
        found: dict[str, Any] = json.loads(self.text)
        named = [*found.get("layers", ()), *found.get("manifests", ())]
        return sum(int(it.get("size", 0)) for it in (*named, found.get("config") or {}))


class Registry:
    """place: HOST:PORT. On this machine it may speak HTTP, as for the engine that pulls from it.

    Raises ServiceError where it does not answer as registries do.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        host = re.sub(r":\d+$", "", place).strip("[]")
        self._schemes = ("http", "https") if _is_here(host) else ("https",)

    async def tags(self, repository: str) -> list[str] | None:
        """All of a repository; None where it has no such repository."""
        found: list[str] = []
        path: str | None = f"/v2/{repository}/tags/list"
        while path is not None:
            answer = await self._ask(path)
            if answer is None:
                return None
            body, headers = answer
            found += self._listed(body)
            following = re.match(r"<([^>]+)>;\s*rel=\"?next", headers.get("Link", ""))
            path = following[1] if following else None
        return found

    async def manifest(self, repository: str, reference: str) -> Manifest | None:
        """By a tag or a digest; None where there is none."""
        answer = await self._ask(f"/v2/{repository}/manifests/{reference}")
        if answer is None:
            return None
        body, headers = answer
        media_type = headers.get("Content-Type", "").partition(";")[0]
        digest = headers.get(_DIGEST) or f"sha256:{hashlib.sha256(body).hexdigest()}"
        return Manifest(digest, media_type, body.decode())

    async def _ask(self, path: str) -> tuple[bytes, Mapping[str, str]] | None:
        failures = []
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for scheme in self._schemes:
                try:
                    return await self._ask_by(session, f"{scheme}://{self._place}{path}")
                except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
                    failures.append(f"{type(error).__name__}: {error}")
        raise self._silent(failures[0])

    async def _ask_by(
        self, session: aiohttp.ClientSession, url: str
    ) -> tuple[bytes, Mapping[str, str]] | None:
        async with session.get(url, headers={"Accept": _ACCEPTED}) as answer:
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise self._silent(f"HTTP {answer.status} for {url}")
            return await answer.content.read(_LONGEST), answer.headers

    def _listed(self, body: bytes) -> list[str]:
        """Of tags/list; a repository whose tags are all gone has null."""
        try:
            return [str(tag) for tag in json.loads(body).get("tags") or ()]
        except (ValueError, AttributeError, TypeError) as error:
            raise self._silent(f"its list of tags is none ({error})") from error

    def _silent(self, words: str) -> ServiceError:
        """Not as a status of 500, which clients ask again for a minute."""
        return ServiceError(
            f"The registry at {self._place} (--registry), which has ECR's images here, does not "
            f"answer as it should: {words}. Start it, or name another one.",
            "ServerException",
        )


def _is_here(host: str) -> bool:
    """Of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
