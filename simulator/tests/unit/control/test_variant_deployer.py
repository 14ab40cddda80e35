"""Bucket and key of the URLs that ModelDataUrl may have."""

from __future__ import annotations

import pytest

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.variant_deployer import split_url


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket.a/some/key",
        "https://s3.amazonaws.com/bucket.a/some/key",
        "https://s3-eu-west-1.amazonaws.com/bucket.a/some/key",
        "https://s3.eu-west-1.amazonaws.com/bucket.a/some/key",
        "https://bucket.a.s3.amazonaws.com/some/key",
        "https://bucket.a.s3.eu-west-1.amazonaws.com/some/key",
        "https://bucket.a.s3-eu-west-1.amazonaws.com/some/key",
    ],
)
def test_a_bucket_in_the_path_or_in_the_host(url: str) -> None:
    assert split_url(url) == ("bucket.a", "some/key")


@pytest.mark.parametrize(
    "url", ["", "s3://", "s3:///key", "https://example.com/bucket/key", "/bucket/key"]
)
def test_others_are_refused(url: str) -> None:
    with pytest.raises(ServiceError, match=r"expected s3://BUCKET/KEY"):
        split_url(url)
