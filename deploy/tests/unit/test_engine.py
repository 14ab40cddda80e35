"""Which images are refused or doubted before a push, and what they are called in ECR."""

from __future__ import annotations

from dataclasses import replace

import pytest

from merlin_deploy.engine import (
    LABEL,
    Destination,
    LocalImage,
    check_image,
    choose_name,
    list_doubts,
)
from merlin_deploy.errors import Refused

GOOD = LocalImage("sha256:1", ("merlin:1",), {LABEL: "true"}, "linux/amd64", 1)


def test_one_for_many_models_on_sagemakers_machines_passes() -> None:
    check_image("merlin:1", GOOD)
    assert list(list_doubts("merlin:1", GOOD)) == []


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (replace(GOOD, platform="linux/arm64"), "merlin:1 is for linux/arm64, .* --platform"),
        (replace(GOOD, labels={}), f"merlin:1 has no label {LABEL}"),
        (replace(GOOD, labels={LABEL: "yes"}), f'merlin:1 has "yes" as its label {LABEL}'),
    ],
)
def test_what_no_multi_model_endpoint_could_run(image: LocalImage, said: str) -> None:
    with pytest.raises(Refused, match=said):
        check_image("merlin:1", image)


def test_ocis_manifests_are_doubted() -> None:
    """CreateModel refused them; how to build another is said."""
    index = replace(GOOD, media_type="application/vnd.oci.image.index.v1+json")
    (doubt,) = list_doubts("merlin:1", index)
    assert "--provenance=false --output type=docker" in doubt


ID = f"sha256:{'ab12' * 16}"
URI = "123456789012.dkr.ecr.us-east-1.amazonaws.com/shop/merlin"


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("merlin", "merlin", "latest"),
        ("merlin:2", "merlin", "2"),
        ("shop/merlin:2", "shop/merlin", "2"),
        ("127.0.0.1:5000/shop/merlin:2", "shop/merlin", "2"),
        ("localhost/merlin", "merlin", "latest"),
        (f"{URI}:2", "shop/merlin", "2"),
    ],
)
def test_the_images_own_name_is_taken_without_its_host(
    image: str, repository: str, tag: str
) -> None:
    assert choose_name(image, ID, None, None) == (repository, tag)


def test_what_is_given_counts_more() -> None:
    assert choose_name("merlin:2", ID, "shop", "3") == ("shop", "3")


@pytest.mark.parametrize(
    ("image", "repository", "tag", "said"),
    [
        ("ab12ab12", None, "1", "--repository NAME and --tag TAG"),
        (ID, "shop", None, "--repository NAME and --tag TAG"),
        (f"merlin@sha256:{'0' * 64}", None, None, "--repository NAME and --tag TAG"),
        ("merlin", "Shop", None, "found the repository Shop"),
        ("merlin", "a//b", None, "found the repository a//b"),
        ("merlin", None, ".1", "found the tag .1"),
    ],
)
def test_no_name_is_guessed(image: str, repository: str | None, tag: str | None, said: str) -> None:
    """Of an id or a digest there is none, and ECR takes not every one."""
    with pytest.raises(Refused, match=said):
        choose_name(image, ID, repository, tag)


def test_a_registry_stands_for_ecrs_host_alone() -> None:
    """The repository and its tag are the same; CONFIG.toml names ECR's."""
    assert Destination(URI, "1").reference == f"{URI}:1"
    rehearsed = Destination(URI, "1", "127.0.0.1:5000")
    assert rehearsed.reference == "127.0.0.1:5000/shop/merlin:1"
