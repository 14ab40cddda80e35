"""`push`: which images are refused, what they are called in ECR, and why a push stops."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.stub import Stubber

from merlin_deploy.account import Account
from merlin_deploy.engine import (
    LABEL,
    Destination,
    LocalImage,
    check_image,
    choose_name,
    list_doubts,
)
from merlin_deploy.errors import DeployError, MissingRight, QuotaReached, Refused, Unreachable
from merlin_deploy.push import (
    PushProgress,
    PushStopped,
    ensure_repository,
    explain_stop,
    get_login,
)

GOOD = LocalImage("sha256:1", ("merlin:1",), {LABEL: "true"}, "linux/amd64", 1)


def test_one_for_many_models_on_sagemakers_machines_passes() -> None:
    check_image("merlin:1", GOOD)
    assert list(list_doubts("merlin:1", GOOD)) == []


@pytest.mark.parametrize(
    ("image", "sentence"),
    [
        (replace(GOOD, platform="linux/arm64"), "merlin:1 is for linux/arm64, .* --platform"),
        (replace(GOOD, labels={}), f"merlin:1 has no label {LABEL}"),
        (replace(GOOD, labels={LABEL: "yes"}), f'merlin:1 has "yes" as its label {LABEL}'),
    ],
)
def test_what_no_multi_model_endpoint_could_run(image: LocalImage, sentence: str) -> None:
    with pytest.raises(Refused, match=sentence):
        check_image("merlin:1", image)


def test_ocis_manifests_are_doubted() -> None:
    """CreateModel refused them; how to build another is said."""
    index = replace(GOOD, media_type="application/vnd.oci.image.index.v1+json")
    (doubt,) = list_doubts("merlin:1", index)
    assert "--provenance=false --output type=docker" in doubt


ID = f"sha256:{'ab12' * 16}"
SHOP_URI = "123456789012.dkr.ecr.us-east-1.amazonaws.com/shop/merlin"


@pytest.mark.parametrize(
    ("image", "repository", "tag"),
    [
        ("merlin", "merlin", "latest"),
        ("merlin:2", "merlin", "2"),
        ("shop/merlin:2", "shop/merlin", "2"),
        ("127.0.0.1:5000/shop/merlin:2", "shop/merlin", "2"),
        ("localhost/merlin", "merlin", "latest"),
        (f"{SHOP_URI}:2", "shop/merlin", "2"),
    ],
)
def test_the_images_own_name_is_taken_without_its_host(
    image: str, repository: str, tag: str
) -> None:
    assert choose_name(image, ID, None, None) == (repository, tag)


def test_what_is_given_counts_more() -> None:
    assert choose_name("merlin:2", ID, "shop", "3") == ("shop", "3")


@pytest.mark.parametrize(
    ("image", "repository", "tag", "sentence"),
    [
        ("ab12ab12", None, "1", "--repository NAME and --tag TAG"),
        (ID, "shop", None, "--repository NAME and --tag TAG"),
        (f"merlin@sha256:{'0' * 64}", None, None, "--repository NAME and --tag TAG"),
        ("merlin", "Shop", None, "found the repository Shop"),
        ("merlin", "a//b", None, "found the repository a//b"),
        ("merlin", None, ".1", "found the tag .1"),
    ],
)
def test_no_name_is_guessed(
    image: str, repository: str | None, tag: str | None, sentence: str
) -> None:
    """Of an id or a digest there is none, and ECR takes not every one."""
    with pytest.raises(Refused, match=sentence):
        choose_name(image, ID, repository, tag)


def test_a_registry_stands_for_ecrs_host_alone() -> None:
    """The repository and its tag are the same; CONFIG.toml names ECR's."""
    assert Destination(SHOP_URI, "1").reference == f"{SHOP_URI}:1"
    rehearsed = Destination(SHOP_URI, "1", "127.0.0.1:5000")
    assert rehearsed.reference == "127.0.0.1:5000/shop/merlin:1"


URI = "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin"
ASKED = {"repositoryNames": ["merlin"]}
MADE = {"repositoryName": "merlin", "imageScanningConfiguration": {"scanOnPush": True}}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Account:
    """In us-east-1, with keys of nobody's."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    return Account("us-east-1", print)


@pytest.fixture
def ecr(account: Account) -> Iterator[Stubber]:
    """Answers of ECR, in the order in which they are added; all of them are asked for."""
    with Stubber(account.client("ecr")) as stubber:
        stubber.add_client_error("describe_repositories", "RepositoryNotFoundException")
        yield stubber
        stubber.assert_no_pending_responses()


def test_one_that_another_makes_in_between_is_taken(account: Account, ecr: Stubber) -> None:
    ecr.add_client_error("create_repository", "RepositoryAlreadyExistsException")
    found = {"repositories": [{"repositoryUri": URI}]}
    ecr.add_response("describe_repositories", found, ASKED)
    assert ensure_repository(account, "merlin", print) == URI


def test_who_may_not_make_one_is_told_the_right(account: Account, ecr: Stubber) -> None:
    message = "User: a is not authorized to perform: ecr:CreateRepository"
    ecr.add_client_error(
        "create_repository", "AccessDeniedException", message, expected_params=MADE
    )
    with pytest.raises(MissingRight, match=r"^ecr:CreateRepository is not allowed in us-east-1"):
        ensure_repository(account, "merlin", print)


def test_a_login_that_is_none_is_not_shown(account: Account) -> None:
    """Nor is a password, where a login is written down."""
    client = account.client("ecr")
    for token in ("secret", base64.b64encode(b"secret").decode()):
        with Stubber(client) as stubber:
            answer = {"authorizationData": [{"authorizationToken": token}]}
            stubber.add_response("get_authorization_token", answer)
            with pytest.raises(Refused, match="gave no user and password") as refused:
                get_login(account)
            assert "secret" not in str(refused.value)
    with Stubber(client) as stubber:
        token = base64.b64encode(b"AWS:secret").decode()
        answer = {"authorizationData": [{"authorizationToken": token}]}
        stubber.add_response("get_authorization_token", answer)
        login = get_login(account)
    assert (login.username, login.password) == ("AWS", "secret")
    assert "secret" not in repr(login)


DIGEST = f"sha256:{'d' * 64}"


def heard(*lines: dict[str, Any]) -> PushProgress:
    """A push that has said so much."""
    push = PushProgress()
    for line in lines:
        push.read(line)
    return push


def layer(name: str, status: str, current: int = 0, total: int = 0) -> dict[str, Any]:
    """A line about a layer."""
    detail = {"current": current, "total": total} if total else {}
    return {"status": status, "progressDetail": detail, "id": name}


MIDDLE = (
    {"status": "The push refers to repository [127.0.0.1:5000/merlin]"},
    *(layer(name, "Preparing") for name in "abcd"),
    layer("d", "Waiting"),
    layer("a", "Layer already exists"),
    layer("b", "Mounted from shop/merlin"),
    layer("c", "Pushing", 500_000_000, 2_000_000_000),
)


def test_layers_and_bytes_are_counted() -> None:
    """Those that were there, or came from another repository, are not sent."""
    push = heard(*MIDDLE)
    assert (push.done, push.were_there) == (2, 2)
    assert push.describe() == "2 of 4 layers, 500 MB of 2 GB"
    assert push.share == 2.25 / 4


def test_a_layer_that_is_tried_again_is_said() -> None:
    waiting = layer("c", "Retrying in 5 seconds")
    assert heard(*MIDDLE, waiting).describe().endswith("(Retrying in 5 seconds)")
    assert heard(*MIDDLE, waiting, layer("c", "Pushed")).waiting is None


def test_at_its_end_there_is_a_digest() -> None:
    """The engine may have sent more than it had told of, as with a layer of 512 bytes."""
    end = {"progressDetail": {}, "aux": {"Tag": "1", "Digest": DIGEST, "Size": 740}}
    small = (layer("e", "Pushing", 1024, 512), layer("e", "Pushed"))
    push = heard(*MIDDLE, layer("c", "Pushed"), layer("d", "Pushed"), *small, end)
    assert push.digest == DIGEST
    assert push.describe() == "5 of 5 layers, 2 GB"


def test_an_error_ends_it() -> None:
    """With the engine's words on one line."""
    with pytest.raises(PushStopped, match=r"^no basic auth credentials$"):
        heard({"errorDetail": {}, "error": "no basic\nauth credentials."})


ECR = Destination("123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin", "1")
HERE = Destination(ECR.repository_uri, "1", "127.0.0.1:5000")


@pytest.mark.parametrize(
    ("message", "kind", "sentence"),
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
def test_each_fault_has_its_remedy(message: str, kind: type[DeployError], sentence: str) -> None:
    error = explain_stop(ECR, message)
    assert type(error) is kind
    with pytest.raises(kind, match=sentence):
        raise error


def test_a_registry_of_this_machine_knows_docker_login_alone() -> None:
    message = str(explain_stop(HERE, "unauthorized: authentication required"))
    assert "docker login 127.0.0.1:5000" in message
    assert "policy" not in message
