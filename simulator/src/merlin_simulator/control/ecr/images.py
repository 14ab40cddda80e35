"""ECR's calls about images, answered from a registry; repositories and all else are moto's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from merlin_simulator.control.caller import Call
from merlin_simulator.control.ecr.registry import Manifest, Registry
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.json_api import Operation
from merlin_simulator.control.pages import page

_ACCOUNT = "123456789012"
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
        if asked := members.get("imageIds"):
            images = [await self._require(call, there, one) for one in asked]
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
        for one in call.members["imageIds"]:
            image = await self._find(call, there, one)
            if image is None:
                failures.append(
                    {
                        "imageId": one,
                        "failureCode": "ImageNotFound",
                        "failureReason": "Requested image not found",
                    }
                )
                continue
            tag = one.get("imageTag")
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
        found = [
            {"imageDigest": image.manifest.digest, "imageTag": tag}
            for image in images
            for tag in image.tags
        ]
        chosen, token = _page(found, call.members)
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
        found: dict[str, _Image] = {}
        for tag in sorted(tags or ()):
            manifest = await self._registry.manifest(name, tag)
            if manifest is not None:
                found.setdefault(manifest.digest, _Image(manifest, [])).tags.append(tag)
        return found

    async def _find(
        self, call: Call, there: Mapping[str, _Image], asked: Mapping[str, str]
    ) -> _Image | None:
        """By digest, which may have lost its tag, or by tag, or by both where they agree."""
        digest, tag = asked.get("imageDigest"), asked.get("imageTag")
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
        self, call: Call, there: Mapping[str, _Image], asked: Mapping[str, str]
    ) -> _Image:
        image = await self._find(call, there, asked)
        if image is None:
            named = {key: asked.get(key) for key in ("imageDigest", "imageTag")}
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
    return str(call.members.get("registryId", _ACCOUNT))


def _wanted(images: list[_Image], members: Mapping[str, Any]) -> list[_Image]:
    """By the filter's tagStatus; without their tags a registry lists none."""
    status = (members.get("filter") or {}).get("tagStatus", "ANY")
    return [] if status == "UNTAGGED" else images


def _page(found: Sequence[Any], members: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, str]]:
    """The page that is asked for, and the answer's nextToken where there is one."""
    chosen, token = page(
        found, members.get("nextToken"), members.get("maxResults"), _ON_A_PAGE, _WRONG
    )
    return chosen, {"nextToken": token} if token else {}


def _is_created(name: str, region: str) -> bool:
    """Whether moto has the repository: then nothing was pushed to it yet."""
    from moto.ecr.models import ecr_backends

    return name in ecr_backends[_ACCOUNT][region].repositories
