"""Where an image is pulled from, what its pull tells, and what is said when there is none."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from merlin_simulator.runners.images import (
    Fault,
    ImageRequest,
    PullRefused,
    classify_fault,
    explain_failure,
    find_source,
    follow_pull,
)

ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/shop/merlin"
ROLE = "arn:aws:iam::123456789012:role/sagemaker"


@pytest.mark.parametrize(
    ("image", "registry", "place"),
    [
        (f"{ECR}:1", "127.0.0.1:5000", "127.0.0.1:5000/shop/merlin:1"),
        (f"{ECR}@sha256:{'0' * 64}", "r:1", f"r:1/shop/merlin@sha256:{'0' * 64}"),
        ("123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/a", "r:1", "r:1/a"),
        ("123456789012.dkr.ecr-fips.us-east-1.amazonaws.com/a", "r:1", "r:1/a"),
        ("123456789012.dkr-ecr.us-east-1.on.aws/a", "r:1", "r:1/a"),
        (f"{ECR}:1", None, f"{ECR}:1"),
        ("127.0.0.1:5001/a:1", "127.0.0.1:5000", "127.0.0.1:5001/a:1"),
        ("merlin:1", "127.0.0.1:5000", "merlin:1"),
        ("1234.dkr.ecr.us-east-1.amazonaws.com/a", "r:1", "1234.dkr.ecr.us-east-1.amazonaws.com/a"),
    ],
)
def test_a_registry_stands_for_the_hosts_of_ecr_only(
    image: str, registry: str | None, place: str
) -> None:
    assert find_source(image, registry) == place


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        # As Docker 20.10 says them.
        ("manifest for r:1/a:2 not found: manifest unknown: manifest unknown", Fault.NOT_THERE),
        ("invalid reference format: repository name must be lowercase", Fault.NOT_THERE),
        (
            "pull access denied for a, repository does not exist or may require 'docker login': "
            "denied: requested access to the resource is denied",
            Fault.NO_RIGHT,
        ),
        ('Head "http://r:1/v2/a/manifests/1": no basic auth credentials', Fault.NO_RIGHT),
        (
            'Head "https://r/v2/a/manifests/1": unauthorized: authentication required',
            Fault.NO_RIGHT,
        ),
        (
            'Get "http://r:1/v2/": dial tcp 10.0.0.1:1: connect: connection refused',
            Fault.NO_REGISTRY,
        ),
        ('Get "https://r/v2/": dial tcp: lookup r on 10.0.0.1:53: no such host', Fault.NO_REGISTRY),
        ("it was not pulled within 30 s", Fault.NO_REGISTRY),
        # An image may be called so.
        ("manifest for r:1/authorization:1 not found: manifest unknown", Fault.NOT_THERE),
    ],
)
def test_what_is_wrong_with_a_pull(words: str, fault: Fault) -> None:
    assert classify_fault(words) is fault


def test_sagemakers_words_begin_the_reason() -> None:
    """Each names the image, and has what the engine said."""
    asked = ImageRequest(f"{ECR}:1", "AllTraffic", ROLE)
    words = {
        "manifest unknown": "Please make sure all images included in the model for the production "
        "variant AllTraffic exist, and that the execution role used to create the model has "
        f"permissions to access them. Requested image {ECR}:1 not found. ",
        "no basic auth credentials": f"The role '{ROLE}' does not have BatchGetImage permission "
        f"for the image: '{ECR}:1'. ",
        "connection refused": f"Image {ECR}:1 of production variant AllTraffic could not be pulled",
    }
    for said, begin in words.items():
        reason = explain_failure(asked, said)
        assert reason.startswith(begin)
        assert said in reason


def test_the_progress_of_a_pull_is_of_all_its_layers() -> None:
    """Told now and then; a layer that the engine has counts for nothing."""
    lines: list[dict[str, Any]] = [
        {"status": "Pulling from shop/merlin", "id": "1"},
        {"status": "Already exists", "id": "a", "progressDetail": {}},
        _downloading("b", 1, 10),
        _downloading("c", 5, 20),
        _downloading("b", 8, 10),
        {"status": "Extracting", "id": "b", "progressDetail": {"current": 3, "total": 99}},
    ]
    told: list[tuple[int, int]] = []
    seconds = itertools.count(0, 1)
    follow_pull(lines, lambda *size: told.append(size), lambda: False, lambda: next(seconds))
    assert told == [(6, 30), (13, 30)]


def _downloading(layer: str, current: int, total: int) -> dict[str, Any]:
    detail = {"current": current, "total": total}
    return {"status": "Downloading", "id": layer, "progressDetail": detail}


def test_a_pull_that_nobody_waits_for_is_left() -> None:
    """No further line is read: the engine gives it up."""
    read = iter([_downloading("a", 1, 2), _downloading("a", 2, 2)])
    follow_pull(read, lambda *_: None, lambda: True)
    assert list(read) == [_downloading("a", 2, 2)]


def test_an_error_in_the_middle_of_a_pull_is_raised() -> None:
    lines: list[dict[str, Any]] = [_downloading("a", 1, 2), {"error": "unexpected EOF.\n"}]
    with pytest.raises(PullRefused, match=r"^unexpected EOF$"):
        follow_pull(lines, lambda *_: None, lambda: False)
