"""ECR's side of a push: the repository, made if there is none, and the login."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from deploy.aws.account import Account
from deploy.errors import CallRefused, Refused
from deploy.terminal import Say

_EXISTS = "RepositoryAlreadyExistsException"


@dataclass(frozen=True)
class Login:
    """For twelve hours; it is given to the engine with one push, and kept nowhere."""

    username: str
    password: str = field(repr=False)


def have_repository(account: Account, name: str, say: Say) -> str:
    """Its URI; a new one scans what is pushed. Raises DeployError."""
    if (found := _find(account, name)) is not None:
        return found
    try:
        made = account.change(
            "ecr",
            "CreateRepository",
            repositoryName=name,
            imageScanningConfiguration={"scanOnPush": True},
        )
    except CallRefused as error:
        # Somebody else made it in between.
        if error.code != _EXISTS or (found := _find(account, name)) is None:
            raise
        return found
    if account.dry_run:
        return _expected(account, name)
    say(f"repository {name} created in {account.region}; it scans what is pushed")
    return str(made["repository"]["repositoryUri"])


def get_login(account: Account) -> Login:
    """Raises DeployError."""
    answer = account.ask("ecr", "GetAuthorizationToken")
    try:
        token = base64.b64decode(answer["authorizationData"][0]["authorizationToken"]).decode()
        username, colon, password = token.partition(":")
        if not colon:
            raise ValueError("it has no colon")
    except (LookupError, ValueError, binascii.Error) as error:
        raise Refused(
            f"ecr:GetAuthorizationToken in {account.region} gave no user and password "
            f"({type(error).__name__}): ask again, or look at AWS_ENDPOINT_URL"
        ) from None
    return Login(username, password)


def _find(account: Account, name: str) -> str | None:
    found = account.find("ecr", "DescribeRepositories", repositoryNames=[name])
    return str(found["repositories"][0]["repositoryUri"]) if found else None


def _expected(account: Account, name: str) -> str:
    """The URI of one that is not there yet."""
    number, _ = account.who()
    domain = "amazonaws.com.cn" if account.region.startswith("cn-") else "amazonaws.com"
    return f"{number}.dkr.ecr.{account.region}.{domain}/{name}"
