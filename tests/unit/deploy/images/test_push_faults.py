"""What an engine's words about a push that stopped mean, and what is to be done."""

from __future__ import annotations

import pytest

from deploy.errors import DeployError, MissingRight, QuotaReached, Refused, Unreachable
from deploy.images.image import Destination
from deploy.images.push import fault_of

ECR = Destination("123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin", "1")
HERE = Destination(ECR.repository_uri, "1", "127.0.0.1:5000")


@pytest.mark.parametrize(
    ("words", "kind", "said"),
    [
        # As ECR and engines say them in their users' reports.
        (
            "denied: Your authorization token has expired. Reauthenticate and try again",
            Unreachable,
            "the login ended in the middle of the push .* the same command sends the rest",
        ),
        (
            "denied: User: arn:aws:iam::123456789012:user/a is not authorized to perform: "
            "ecr:InitiateLayerUpload on resource: arn:aws:ecr:us-east-1:123456789012:repository/a",
            MissingRight,
            "^ecr:InitiateLayerUpload to .*/merlin:1 is not allowed: .*deploy policy",
        ),
        ("no basic auth credentials", MissingRight, "^the push to .* is not allowed"),
        (
            "name unknown: The repository with name 'merlin' does not exist in the registry with "
            "id '123456789012'",
            Refused,
            "the repository is gone .* the same command makes it again",
        ),
        (
            "tag invalid: The image tag '1' already exists in the 'merlin' repository and cannot "
            "be overwritten because the repository is immutable",
            Refused,
            "another image under the tag 1, and its tags are immutable: say another with --tag",
        ),
        ("toomanyrequests: Rate exceeded", QuotaReached, "a quota of the registry is reached"),
        (
            'Get "https://10.0.0.1:5000/v2/": http: server gave HTTP response to HTTPS client',
            Unreachable,
            "insecure-registries",
        ),
        (
            'Get "http://127.0.0.1:5000/v2/": dial tcp 127.0.0.1:5000: connect: connection refused',
            Unreachable,
            r"the push stopped \(.* the same command sends the rest",
        ),
    ],
)
def test_each_fault_has_its_remedy(words: str, kind: type[DeployError], said: str) -> None:
    error = fault_of(ECR, words)
    assert type(error) is kind
    with pytest.raises(kind, match=said):
        raise error


def test_a_registry_of_this_machine_knows_docker_login_alone() -> None:
    words = str(fault_of(HERE, "unauthorized: authentication required"))
    assert "docker login 127.0.0.1:5000" in words
    assert "policy" not in words
