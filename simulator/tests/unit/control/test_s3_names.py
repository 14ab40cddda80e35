"""Names that S3 does not take are refused as AWS refuses them."""

from __future__ import annotations

import pytest

from merlin_simulator.control.s3_names import find_odd_name


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/%00", "InvalidBucketName"),
        ("/a%00b/key", "InvalidBucketName"),
        ("/a%0Ab?policy", "InvalidBucketName"),
        ("/%7F", "InvalidBucketName"),
        ("/a%20b", "InvalidBucketName"),
        ("/%C3%A9/x", "InvalidBucketName"),
        ("/%2F", "InvalidBucketName"),
        ("/%ff", "InvalidURI"),
        ("/bucket/%ff", "InvalidURI"),
        ("/bucket/%ed%a0%80", "InvalidURI"),
        ("/bucket/" + "a" * 1025, "KeyTooLongError"),
        ("/bucket/" + "%C3%A9" * 513, "KeyTooLongError"),
        ("/bucket/key?response-content-type=a%00b", "InvalidArgument"),
        ("/bucket/key?response-content-type=%ff", "InvalidArgument"),
        ("/bucket/key?a&response-content-language=%E2%80%AE", "InvalidArgument"),
        ("/bucket/key?x=y&Response-Cache-Control=%0d%0aA:b", "InvalidArgument"),
    ],
)
def test_what_is_refused(target: str, code: str) -> None:
    """Before moto fails at it."""
    found = find_odd_name(target)
    assert found is not None
    assert (found[0], found[1]) == (400, code)


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/bucket",
        "/My.bucket-1/",
        "/a_b/key",
        "/arn:aws:s3:x/key",
        "/bucket/a%00b",
        "/bucket/b/%C3%A9%20c.tar.gz",
        "/bucket/%F0%9F%98%80//..%2F",
        "/bucket/" + "a" * 1024,
        "/bucket?prefix=%00&list-type=2",
        "/bucket/key?response-content-type=text%2Fplain&x=%00",
        "/bucket/key?response-content-disposition=attachment%3B%20filename%3D%C3%A9",
    ],
)
def test_what_is_taken(target: str) -> None:
    """What S3 takes."""
    assert find_odd_name(target) is None
