"""Images of ECR, and those that are none."""

from __future__ import annotations

import pytest

from deploy.config.catalog import EcrImage, read_ecr_image

HOST = "123456789012.dkr.ecr.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    ("image", "found"),
    [
        (f"{HOST}/merlin", ("us-east-1", "merlin", None, None)),
        (f"{HOST}/team/merlin:1", ("us-east-1", "team/merlin", "1", None)),
        (f"{HOST}/merlin@sha256:01", ("us-east-1", "merlin", None, "sha256:01")),
        (f"{HOST}/merlin:1@sha256:01", ("us-east-1", "merlin", "1", "sha256:01")),
        (
            "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/merlin:1",
            ("cn-north-1", "merlin", "1", None),
        ),
    ],
)
def test_taken_apart(image: str, found: tuple[str, str, str | None, str | None]) -> None:
    """Tag and digest each where they are."""
    assert read_ecr_image(image) == EcrImage("123456789012", *found)


@pytest.mark.parametrize("image", ["merlin:1", "127.0.0.1:5000/merlin:1", "ghcr.io/a/merlin:1"])
def test_other_registries(image: str) -> None:
    """Nothing is known of them."""
    assert read_ecr_image(image) is None
