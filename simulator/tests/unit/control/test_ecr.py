"""ECR's calls about images, answered from a registry that stands for it."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from moto.ecr.models import ecr_backends

from merlin_simulator.control.caller import Call
from merlin_simulator.control.ecr import Registry, RegistryImages
from merlin_simulator.control.errors import ServiceError
from simulator.tests.support.image_registry import MEDIA_TYPE, ImageRegistry, image_registry

NAME = "shop/merlin"


@pytest.fixture
def registry() -> Iterator[ImageRegistry]:
    """An empty one."""
    with image_registry() as running:
        yield running


async def ask(registry: ImageRegistry, operation: str, **members: Any) -> Mapping[str, Any]:
    """One call, as the service's front makes it."""
    images = RegistryImages(Registry(registry.address))
    call = Call(operation, {"repositoryName": NAME, **members}, "us-east-1")
    answer = await images.operations()[operation](call)
    assert answer is not None
    return answer


async def test_a_tag_leads_to_its_digest(registry: ImageRegistry) -> None:
    """With all tags of the image, over every page of the registry's, and its compressed size."""
    for tag in ("1", "2", "3"):
        digest = registry.put(NAME, tag, 1000, 2000)
    registry.put(NAME, "4", 5000)
    found = await ask(registry, "DescribeImages", imageIds=[{"imageTag": "3"}])
    assert found["imageDetails"] == [
        {
            "registryId": "123456789012",
            "repositoryName": NAME,
            "imageDigest": digest,
            "imageTags": ["1", "2", "3"],
            "imageSizeInBytes": 3100,
            "imageManifestMediaType": MEDIA_TYPE,
        }
    ]


async def test_all_images_come_in_pages(registry: ImageRegistry) -> None:
    digests = {tag: registry.put(NAME, tag, size) for tag, size in (("a", 1), ("b", 2), ("c", 3))}
    first = await ask(registry, "DescribeImages", maxResults=2)
    rest = await ask(registry, "DescribeImages", nextToken=first["nextToken"])
    assert "nextToken" not in rest
    shown = [*first["imageDetails"], *rest["imageDetails"]]
    assert {it["imageTags"][0]: it["imageDigest"] for it in shown} == digests
    listed = await ask(registry, "ListImages")
    assert {it["imageTag"]: it["imageDigest"] for it in listed["imageIds"]} == digests
    untagged = await ask(registry, "ListImages", filter={"tagStatus": "UNTAGGED"})
    assert untagged["imageIds"] == []


async def test_an_image_that_lost_its_tag_is_there_by_its_digest(registry: ImageRegistry) -> None:
    """The manifest is the registry's, to the byte; what is not there is told beside it."""
    before = registry.put(NAME, "1", 1)
    now = registry.put(NAME, "1", 2)
    asked = [{"imageDigest": before}, {"imageTag": "1"}, {"imageTag": "1", "imageDigest": before}]
    found = await ask(registry, "BatchGetImage", imageIds=asked)
    assert [it["imageId"] for it in found["images"]] == [
        {"imageDigest": before},
        {"imageDigest": now, "imageTag": "1"},
    ]
    assert found["images"][0]["imageManifest"].encode() == registry.manifests[NAME][before]
    assert [it["failureCode"] for it in found["failures"]] == ["ImageNotFound"]


async def test_what_is_not_there(registry: ImageRegistry) -> None:
    """No repository, none with images yet, no such tag: each with ECR's own code."""
    with pytest.raises(ServiceError, match=f"'{NAME}' does not exist") as refused:
        await ask(registry, "DescribeImages")
    assert refused.value.code == "RepositoryNotFoundException"
    repositories = ecr_backends["123456789012"]["us-east-1"].repositories
    repositories[NAME] = object()
    try:
        assert (await ask(registry, "DescribeImages"))["imageDetails"] == []
    finally:
        del repositories[NAME]
    registry.put(NAME, "1", 1)
    with pytest.raises(ServiceError, match="imageDigest:null, imageTag:'2'") as refused:
        await ask(registry, "DescribeImages", imageIds=[{"imageTag": "2"}])
    assert refused.value.code == "ImageNotFoundException"


async def test_a_registry_that_is_down_is_named() -> None:
    """At once: it is no error that clients ask again for."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ServiceError, match=f"The registry at {address} .* Start it") as refused:
        await ask(ImageRegistry(address), "DescribeImages")
    assert (refused.value.code, refused.value.status) == ("ServerException", 400)
