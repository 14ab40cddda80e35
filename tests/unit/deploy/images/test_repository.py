"""ECR's side of a push, with its answers as botocore's stubber gives them."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from botocore.stub import Stubber

from deploy.aws.account import Account
from deploy.errors import MissingRight, Refused
from deploy.images.repository import get_login, have_repository

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
    assert have_repository(account, "merlin", print) == URI


def test_who_may_not_make_one_is_told_the_right(account: Account, ecr: Stubber) -> None:
    words = "User: a is not authorized to perform: ecr:CreateRepository"
    ecr.add_client_error("create_repository", "AccessDeniedException", words, expected_params=MADE)
    with pytest.raises(MissingRight, match=r"^ecr:CreateRepository is not allowed in us-east-1"):
        have_repository(account, "merlin", print)


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
