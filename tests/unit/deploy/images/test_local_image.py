"""Which images are refused before they are pushed, and which ones are doubted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deploy.errors import Refused
from deploy.images.image import LABEL, LocalImage, check_image, doubts_of

GOOD = LocalImage("sha256:1", ("merlin:1",), {LABEL: "true"}, "linux/amd64", 1)


def test_one_for_many_models_on_sagemakers_machines_passes() -> None:
    check_image("merlin:1", GOOD)
    assert list(doubts_of("merlin:1", GOOD)) == []


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
    (doubt,) = doubts_of("merlin:1", index)
    assert "--provenance=false --output type=docker" in doubt
