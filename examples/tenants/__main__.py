"""A tenant for each folder of archives: who may have which archive asked, by IAM's conditions.

    .venv/bin/python -m examples.tenants

Three shops have archives on one multi-model endpoint of this machine's control plane. Two of them
have a role each with the policy that `python -m deploy policy CONFIG.toml tenant SHOP` prints, and
ask for their own archive, for others', and by detours. What stands in for IAM is rights.py, since
the control plane does not check rights. Exit code 0 only if each got its own, and nothing else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from examples.control_plane import ACCOUNT, control_plane, deploy, upload, write_config
from examples.story import pack, step, tell
from examples.tenants.front import standing_before
from examples.tenants.rights import Principal, Rights

NAME = "shops"
REPOSITORY = Path(__file__).parent / "repository"
SHOPS = ("shop-a", "shop-b", "shop-a-evil")
TENANTS = ("shop-a", "shop-b")
BODY = json.dumps(
    {"inputs": [{"name": "visitor", "datatype": "BYTES", "shape": [1], "data": ["you"]}]}
)
#: A cold archive may take 60 s.
_CONFIG = Config(read_timeout=70, retries={"total_max_attempts": 1})
#: Whoever of this account has the right to sts:AssumeRole.
_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
            "Action": "sts:AssumeRole",
        }
    ],
}


@dataclass(frozen=True)
class Attempt:
    """One thing that a tenant tries. owner: the only tenant who is to have it; None: nobody."""

    words: str
    call: str
    owner: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class Outcome:
    """A status, and AWS's name of the error or the answer's words."""

    status: int
    name: str
    message: str = ""


class Caller:
    """boto3 as somebody; credentials None: as the environment says."""

    def __init__(self, url: str, credentials: Credentials | None) -> None:
        given = {} if credentials is None else _as_arguments(credentials)
        self._sagemaker, self._runtime = (
            boto3.client(service, endpoint_url=url, config=_CONFIG, **given)
            for service in ("sagemaker", "sagemaker-runtime")
        )

    def attempt(self, attempt: Attempt) -> Outcome:
        """What comes of it; an error of AWS is no exception here."""
        try:
            if attempt.call == "delete":
                self._sagemaker.delete_endpoint(EndpointName=NAME)
                return Outcome(200, "")
            return Outcome(200, self._invoke(attempt))
        except ClientError as error:
            response = error.response
            status = response["ResponseMetadata"]["HTTPStatusCode"]
            return Outcome(status, response["Error"]["Code"], response["Error"]["Message"])

    def _invoke(self, attempt: Attempt) -> str:
        """The answer's words, "" of a stream."""
        members = {"EndpointName": NAME, "ContentType": "application/json", "Body": BODY}
        if attempt.call == "stream":
            self._runtime.invoke_endpoint_with_response_stream(**members)
            return ""
        if attempt.target is not None:
            members["TargetModel"] = attempt.target
        answer = json.loads(self._runtime.invoke_endpoint(**members)["Body"].read())
        return str(answer["outputs"][0]["data"][0])


def _invoke(target: str, owner: str | None = None) -> Attempt:
    return Attempt(target, "invoke", owner, target)


ATTEMPTS = (
    _invoke("shop-a/1.tar.gz", "shop-a"),
    _invoke("shop-b/1.tar.gz", "shop-b"),
    _invoke("shop-a-evil/1.tar.gz"),
    _invoke("shop-a/../shop-b/1.tar.gz"),
    _invoke("shop-a/./../shop-b/1.tar.gz"),
    _invoke("SHOP-A/1.tar.gz"),
    Attempt("no TargetModel", "invoke"),
    Attempt("a response stream", "stream"),
    Attempt("DeleteEndpoint", "delete"),
)


def story(scratch: Path) -> bool:
    """Whether each tenant got its own archive's answer, and 403 for all else."""
    with step("the archives of three shops are packed"):
        archives = {f"{shop}/1.tar.gz": _pack(shop, scratch) for shop in SHOPS}
    with control_plane(scratch) as url:
        config = write_config(scratch, NAME)
        with step("roles are made, with what `python -m deploy policy` prints"):
            _make_endpoint_role(config)
            principals = {shop: _make_tenant(config, shop) for shop in TENANTS}
        with step("python -m deploy up CONFIG.toml"):
            upload(NAME, archives)
            deploy("up", config)
        rights = Rights({it.credentials.access_key: it for it in principals.values()})
        with standing_before(url, rights) as front:
            good = _tell_attempts(front, url, principals)
            good &= _tell_forgeries(front, principals)
    print(
        "Each has its own, and nothing else." if good else "The rights are NOT as they should be."
    )
    return good


def _pack(shop: str, scratch: Path) -> Path:
    repository, archive = scratch / "repositories" / shop, scratch / "archives" / f"{shop}.tar.gz"
    shutil.copytree(REPOSITORY, repository)
    (repository / "recommend/1/shop.txt").write_text(f"{shop}\n", "utf-8")
    pack(repository, archive)
    return archive


def _make_endpoint_role(config: Path) -> None:
    """Whose rights the endpoint has: it reads all archives."""
    documents = json.loads(deploy("policy", config))
    iam = boto3.client("iam")
    iam.create_role(RoleName="sagemaker", AssumeRolePolicyDocument=json.dumps(documents["trust"]))
    iam.put_role_policy(
        RoleName="sagemaker", PolicyName="endpoint", PolicyDocument=json.dumps(documents["role"])
    )


def _make_tenant(config: Path, shop: str) -> Principal:
    """A role with the printed policy, a session of it, and the policies that IAM has of it now."""
    document = deploy("policy", config, "tenant", shop)
    iam = boto3.client("iam")
    role = iam.create_role(RoleName=shop, AssumeRolePolicyDocument=json.dumps(_TRUST))["Role"]
    iam.put_role_policy(RoleName=shop, PolicyName="invoke", PolicyDocument=document)
    session = boto3.client("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="story")
    given = session["Credentials"]
    names = iam.list_role_policies(RoleName=shop)["PolicyNames"]
    policies = [iam.get_role_policy(RoleName=shop, PolicyName=name) for name in names]
    return Principal(
        session["AssumedRoleUser"]["Arn"],
        Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"]),
        [policy["PolicyDocument"] for policy in policies],
    )


def _tell_attempts(front: str, url: str, principals: Mapping[str, Principal]) -> bool:
    """The table; its last column is the control plane without IAM, as anybody may ask it here."""
    callers = {shop: Caller(front, it.credentials) for shop, it in principals.items()}
    anybody = Caller(url, None)
    print(f"  {'':29}" + "".join(f"{shop:23}" for shop in TENANTS) + "without IAM")
    good, refusals = True, dict[str, Outcome]()
    for attempt in ATTEMPTS:
        found = {shop: caller.attempt(attempt) for shop, caller in callers.items()}
        for shop, outcome in found.items():
            good &= _is_right(attempt, shop, outcome)
            if outcome.status == 403:
                refusals.setdefault(outcome.message.partition(" with an explicit ")[1], outcome)
        # What would end the endpoint is not tried.
        free = "–" if attempt.call == "delete" else _write(anybody.attempt(attempt))
        print(f"  {attempt.words:29}" + "".join(f"{_write(it):23}" for it in found.values()) + free)
    print("AWS's words, as the front says them:")
    for outcome in refusals.values():
        print(f"  {outcome.message}")
    return good


def _is_right(attempt: Attempt, shop: str, outcome: Outcome) -> bool:
    if attempt.owner == shop:
        return (outcome.status, outcome.name) == (200, f"{shop} greets you")
    return (outcome.status, outcome.name) == (403, "AccessDeniedException")


def _tell_forgeries(front: str, principals: Mapping[str, Principal]) -> bool:
    """Who is not who they say."""
    one, other = (principals[shop].credentials for shop in TENANTS)
    forged = {
        "shop-a's key id, shop-b's secret": Credentials(
            one.access_key, other.secret_key, one.token
        ),
        "shop-a's keys without its token": Credentials(one.access_key, one.secret_key),
        "keys of nobody": Credentials("AKIAIOSFODNN7EXAMPLE", "none"),
    }
    found = {words: Caller(front, it).attempt(ATTEMPTS[0]) for words, it in forged.items()}
    for words, outcome in found.items():
        print(f"  {words:50}{_write(outcome)} {outcome.name}")
    return all(it.status == 403 for it in found.values())


def _as_arguments(credentials: Credentials) -> dict[str, str | None]:
    return {
        "aws_access_key_id": credentials.access_key,
        "aws_secret_access_key": credentials.secret_key,
        "aws_session_token": credentials.token,
    }


def _write(outcome: Outcome) -> str:
    return f"200 {outcome.name}" if outcome.status == 200 else str(outcome.status)


def main() -> int:
    """Read the command line and tell the story."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.tenants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.parse_args()
    return tell(story)


if __name__ == "__main__":
    sys.exit(main())
