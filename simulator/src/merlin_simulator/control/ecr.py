"""ECR: images of Docker's engine or of a registry, by their digests."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from merlin_simulator.control.apis import Operation
from merlin_simulator.control.caller import Call
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.records import page
from merlin_simulator.errors import ACCOUNT

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
        content: dict[str, Any] = json.loads(self.text)
        named = [*content.get("layers", ()), *content.get("manifests", ())]
        return sum(int(it.get("size", 0)) for it in (*named, content.get("config") or {}))


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
        results: list[str] = []
        path: str | None = f"/v2/{repository}/tags/list"
        while path is not None:
            answer = await self._ask(path)
            if answer is None:
                return None
            body, headers = answer
            results += self._listed(body)
            following = re.match(r"<([^>]+)>;\s*rel=\"?next", headers.get("Link", ""))
            path = following[1] if following else None
        return results

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

    def _silent(self, message: str) -> ServiceError:
        """Not as a status of 500, which clients ask again for a minute."""
        return ServiceError(
            f"The registry at {self._place} (--registry), which has ECR's images here, does not "
            f"answer as it should: {message}. Start it, or name another one.",
            "ServerException",
        )


def _is_here(host: str) -> bool:
    """Of this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


#: AWS, DescribeImages and ListImages: on one page.
_ON_A_PAGE = 100
_WRONG = "InvalidParameterException"


@dataclass
class _Image:
    manifest: Manifest
    tags: list[str]


class RegistryImages:
    """The images of every account and region are the registry's."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def operations(self) -> Mapping[str, Operation]:
        """By their names in the service model."""
        return {
            "DescribeImages": self.describe,
            "BatchGetImage": self.get,
            "ListImages": self.list,
        }

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeImages; when an image was pushed, a registry does not know."""
        name, members = call.members["repositoryName"], call.members
        there = await self._images(call)
        if image_ids := members.get("imageIds"):
            images = [await self._require(call, there, image_id) for image_id in image_ids]
        else:
            images = _wanted(list(there.values()), members)
        chosen, token = _page(images, members)
        details = [
            {
                "registryId": _registry_id(call),
                "repositoryName": name,
                "imageDigest": image.manifest.digest,
                **({"imageTags": image.tags} if image.tags else {}),
                "imageSizeInBytes": image.manifest.size,
                "imageManifestMediaType": image.manifest.media_type,
            }
            for image in chosen
        ]
        return {"imageDetails": details, **token}

    async def get(self, call: Call) -> Mapping[str, Any]:
        """BatchGetImage."""
        there = await self._images(call)
        images, failures = [], []
        for image_id in call.members["imageIds"]:
            image = await self._find(call, there, image_id)
            if image is None:
                failures.append(
                    {
                        "imageId": image_id,
                        "failureCode": "ImageNotFound",
                        "failureReason": "Requested image not found",
                    }
                )
                continue
            tag = image_id.get("imageTag")
            images.append(
                {
                    "registryId": _registry_id(call),
                    "repositoryName": call.members["repositoryName"],
                    "imageId": {
                        "imageDigest": image.manifest.digest,
                        **({"imageTag": tag} if tag else {}),
                    },
                    "imageManifest": image.manifest.text,
                    "imageManifestMediaType": image.manifest.media_type,
                }
            )
        return {"images": images, "failures": failures}

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListImages: an image once for each of its tags."""
        images = _wanted(list((await self._images(call)).values()), call.members)
        results = [
            {"imageDigest": image.manifest.digest, "imageTag": tag}
            for image in images
            for tag in image.tags
        ]
        chosen, token = _page(results, call.members)
        return {"imageIds": list(chosen), **token}

    async def _images(self, call: Call) -> dict[str, _Image]:
        """Those that have tags, by digest. Raises ServiceError without the repository."""
        name = call.members["repositoryName"]
        tags = await self._registry.tags(name)
        if tags is None and not _is_created(name, call.region):
            raise ServiceError(
                f"The repository with name '{name}' does not exist in the registry with id "
                f"'{_registry_id(call)}'",
                "RepositoryNotFoundException",
            )
        results: dict[str, _Image] = {}
        for tag in sorted(tags or ()):
            manifest = await self._registry.manifest(name, tag)
            if manifest is not None:
                results.setdefault(manifest.digest, _Image(manifest, [])).tags.append(tag)
        return results

    async def _find(
        self, call: Call, there: Mapping[str, _Image], image_id: Mapping[str, str]
    ) -> _Image | None:
        """By digest, which may have lost its tag, or by tag, or by both where they agree."""
        digest, tag = image_id.get("imageDigest"), image_id.get("imageTag")
        if digest is None and tag is None:
            raise ServiceError("An image is named by imageDigest or imageTag.", _WRONG)
        if digest is None:
            return next((image for image in there.values() if tag in image.tags), None)
        image = there.get(digest)
        if image is None:
            manifest = await self._registry.manifest(call.members["repositoryName"], digest)
            image = None if manifest is None else _Image(manifest, [])
        return image if image is None or tag is None or tag in image.tags else None

    async def _require(
        self, call: Call, there: Mapping[str, _Image], image_id: Mapping[str, str]
    ) -> _Image:
        image = await self._find(call, there, image_id)
        if image is None:
            named = {key: image_id.get(key) for key in ("imageDigest", "imageTag")}
            shown = ", ".join(
                f"{key}:" + ("null" if value is None else f"'{value}'")
                for key, value in named.items()
            )
            name = call.members["repositoryName"]
            raise ServiceError(
                f"The image with imageId {{{shown}}} does not exist within the repository with "
                f"name '{name}' in the registry with id '{_registry_id(call)}'",
                "ImageNotFoundException",
            )
        return image


def _registry_id(call: Call) -> str:
    return str(call.members.get("registryId", ACCOUNT))


def _wanted(images: list[_Image], members: Mapping[str, Any]) -> list[_Image]:
    """By the filter's tagStatus; without their tags a registry lists none."""
    status = (members.get("filter") or {}).get("tagStatus", "ANY")
    return [] if status == "UNTAGGED" else images


def _page(
    records: Sequence[Any], members: Mapping[str, Any]
) -> tuple[Sequence[Any], dict[str, str]]:
    """The page that is asked for, and the answer's nextToken where there is one."""
    chosen, token = page(
        records, members.get("nextToken"), members.get("maxResults"), _ON_A_PAGE, _WRONG
    )
    return chosen, {"nextToken": token} if token else {}


def _is_created(name: str, region: str) -> bool:
    """Whether moto has the repository: then nothing was pushed to it yet."""
    from moto.ecr.models import ecr_backends

    return name in ecr_backends[ACCOUNT][region].repositories
