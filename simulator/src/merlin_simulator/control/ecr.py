"""ECR: images of Docker's engine or of a registry, by their digests."""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
class Image:
    """An image by its manifest, as the registry has it."""

    digest: str  # sha256:… of the manifest's text
    media_type: str
    manifest: str
    tags: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Of what it names, compressed, in bytes, as ECR counts it: layers and configuration."""
        content: dict[str, Any] = json.loads(self.manifest)
        named = [*content.get("layers", ()), *content.get("manifests", ())]
        return sum(int(it.get("size", 0)) for it in (*named, content.get("config") or {}))


class Registry:
    """address: HOST:PORT. On this machine it may speak HTTP, as for the engine that pulls from it.

    Raises ServiceError where it does not answer as registries do.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        host = re.sub(r":\d+$", "", address).strip("[]")
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

    async def image(self, repository: str, reference: str) -> Image | None:
        """By a tag or a digest, without its tags; None where there is none."""
        answer = await self._ask(f"/v2/{repository}/manifests/{reference}")
        if answer is None:
            return None
        body, headers = answer
        media_type = headers.get("Content-Type", "").partition(";")[0]
        digest = headers.get(_DIGEST) or f"sha256:{hashlib.sha256(body).hexdigest()}"
        return Image(digest, media_type, body.decode())

    async def _ask(self, path: str) -> tuple[bytes, Mapping[str, str]] | None:
        failures = []
        timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            for scheme in self._schemes:
                try:
                    return await self._ask_by(session, f"{scheme}://{self._address}{path}")
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
            f"The registry at {self._address} (--registry), which has ECR's images here, does not "
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
        tagged, image_ids = await self._tagged(call), call.members.get("imageIds")
        images = _with_status(tagged, call)
        if image_ids:
            images = [await self._require(call, tagged, image_id) for image_id in image_ids]
        details = [
            {
                **_repository(call),
                "imageDigest": image.digest,
                **({"imageTags": image.tags} if image.tags else {}),
                "imageSizeInBytes": image.size,
                "imageManifestMediaType": image.media_type,
            }
            for image in images
        ]
        return _page("imageDetails", details, call)

    async def get(self, call: Call) -> Mapping[str, Any]:
        """BatchGetImage."""
        tagged, images, failures = await self._tagged(call), [], []
        for image_id in call.members["imageIds"]:
            image = await self._find(call, tagged, image_id)
            if image is None:
                failures.append(
                    {
                        "imageId": image_id,
                        "failureCode": "ImageNotFound",
                        "failureReason": "Requested image not found",
                    }
                )
                continue
            images.append(
                {
                    **_repository(call),
                    "imageId": {**image_id, "imageDigest": image.digest},
                    "imageManifest": image.manifest,
                    "imageManifestMediaType": image.media_type,
                }
            )
        return {"images": images, "failures": failures}

    async def list(self, call: Call) -> Mapping[str, Any]:
        """ListImages: an image once for each of its tags."""
        image_ids = [
            {"imageDigest": image.digest, "imageTag": tag}
            for image in _with_status(await self._tagged(call), call)
            for tag in image.tags
        ]
        return _page("imageIds", image_ids, call)

    async def _tagged(self, call: Call) -> dict[str, Image]:
        """Those that have tags, by digest. Raises ServiceError without the repository."""
        name = call.members["repositoryName"]
        tags = await self._registry.tags(name)
        if tags is None and not _is_created(name, call.region):
            raise ServiceError(
                f"The repository with name '{name}' does not exist in the registry with id "
                f"'{_repository(call)['registryId']}'",
                "RepositoryNotFoundException",
            )
        images: dict[str, Image] = {}
        for tag in sorted(tags or ()):
            image = await self._registry.image(name, tag)
            if image is not None:
                images.setdefault(image.digest, image).tags.append(tag)
        return images

    async def _find(
        self, call: Call, tagged: Mapping[str, Image], image_id: Mapping[str, str]
    ) -> Image | None:
        """By digest, which may have lost its tag, or by tag, or by both where they agree."""
        digest, tag = image_id.get("imageDigest"), image_id.get("imageTag")
        if digest is None and tag is None:
            raise ServiceError("An image is named by imageDigest or imageTag.", _WRONG)
        if digest is None:
            return next((image for image in tagged.values() if tag in image.tags), None)
        image = tagged.get(digest)
        if image is None:
            image = await self._registry.image(call.members["repositoryName"], digest)
        return image if image is None or tag is None or tag in image.tags else None

    async def _require(
        self, call: Call, tagged: Mapping[str, Image], image_id: Mapping[str, str]
    ) -> Image:
        image = await self._find(call, tagged, image_id)
        if image is None:
            shown = ", ".join(
                f"{key}:'{image_id[key]}'" if key in image_id else f"{key}:null"
                for key in ("imageDigest", "imageTag")
            )
            repository = _repository(call)
            raise ServiceError(
                f"The image with imageId {{{shown}}} does not exist within the repository with "
                f"name '{repository['repositoryName']}' in the registry with id "
                f"'{repository['registryId']}'",
                "ImageNotFoundException",
            )
        return image


def _repository(call: Call) -> dict[str, str]:
    """The repository's members of an answer: every account's are the registry's."""
    return {
        "registryId": call.members.get("registryId", ACCOUNT),
        "repositoryName": call.members["repositoryName"],
    }


def _with_status(tagged: Mapping[str, Image], call: Call) -> Iterable[Image]:
    """By the filter's tagStatus; without their tags a registry lists none."""
    status = (call.members.get("filter") or {}).get("tagStatus")
    return () if status == "UNTAGGED" else tagged.values()


def _page(output: str, items: Sequence[Any], call: Call) -> Mapping[str, Any]:
    """The page that is asked for. output: the answer's member."""
    token, most = call.members.get("nextToken"), call.members.get("maxResults")
    shown, token = page(items, token, most, _ON_A_PAGE, _WRONG)
    return {output: list(shown), **({"nextToken": token} if token else {})}


def _is_created(name: str, region: str) -> bool:
    """Whether moto has the repository: then nothing was pushed to it yet."""
    from moto.ecr.models import ecr_backends

    return name in ecr_backends[ACCOUNT][region].repositories
