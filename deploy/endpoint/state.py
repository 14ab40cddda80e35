"""What AWS has of an endpoint now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from deploy.aws.account import Account, Say
from deploy.endpoint.history import History, digest_of, read_history
from deploy.endpoint.waiting import CHANGING, Endpoint, describe, wait_until_settled
from deploy.errors import NotThere, Refused
from deploy.wanted.names import ENDPOINT_TAG, HISTORY_TAG, STEP_TAG

#: EndpointStatus of what failed while it was created: it can only be deleted.
FAILED = "Failed"
IN_SERVICE = "InService"
#: When tags are looked at, in seconds after one another.
_LAGS_S = (0.0, 0.5, 1.5)


@dataclass(frozen=True)
class Deployed:
    """An endpoint that is ours. description: DescribeEndpoint's answer."""

    description: Endpoint
    tags: Mapping[str, str]

    @property
    def arn(self) -> str:
        """Of the endpoint."""
        return str(self.description["EndpointArn"])

    @property
    def status(self) -> str:
        """EndpointStatus."""
        return str(self.description["EndpointStatus"])

    @property
    def config_name(self) -> str:
        """The configuration that it has now."""
        return str(self.description["EndpointConfigName"])

    @property
    def digest(self) -> str:
        """Of that configuration's name."""
        return digest_of(self.config_name)

    @property
    def history(self) -> History:
        """Which configurations it had."""
        return read_history(self.tags.get(HISTORY_TAG))

    @property
    def unfinished_step(self) -> str | None:
        """The digest to which a rollback goes that was cut off; None where none was."""
        return self.tags.get(STEP_TAG) or None

    @property
    def desired_count(self) -> int | None:
        """Of instances; None while there are none yet."""
        variants = self.description.get("ProductionVariants") or [{}]
        count = variants[0].get("DesiredInstanceCount")
        return None if count is None else int(count)


def find_deployed(account: Account, endpoint_name: str) -> Deployed | None:
    """None where there is no endpoint of this name.

    Raises Refused for one that was made in another way: it is not touched.
    """
    found, tags = _look(account, endpoint_name)
    if found is None:
        return None
    if tags.get(ENDPOINT_TAG) != endpoint_name:
        raise Refused(
            f"the endpoint {endpoint_name} was not made by `up` (it has no tag {ENDPOINT_TAG}); "
            "choose another endpoint.name, or give it that tag with its name as the value, "
            "to hand it over"
        )
    return Deployed(found, tags)


def find_settled(
    account: Account, endpoint_name: str, say: Say, timeout_s: float
) -> Deployed | None:
    """As find_deployed, once nothing changes it any more: an earlier call's work is waited for.

    With dry_run as it is now.
    """
    deployed = find_deployed(account, endpoint_name)
    if deployed is None or deployed.status not in CHANGING:
        return deployed
    say(f"the endpoint {endpoint_name} is {deployed.status}: this waits until it is done")
    if account.dry_run:
        return deployed
    wait_until_settled(account, endpoint_name, say, timeout_s)
    return find_deployed(account, endpoint_name)


def bring_tags(account: Account, deployed: Deployed, wanted: Mapping[str, str]) -> None:
    """Those of an endpoint that differ are written; an empty one that is not there is right."""
    differing = [
        {"Key": key, "Value": value}
        for key, value in wanted.items()
        if deployed.tags.get(key, "") != value
    ]
    if differing:
        account.change("sagemaker", "AddTags", ResourceArn=deployed.arn, Tags=differing)


def is_tagged(account: Account, arn: str, endpoint_name: str) -> bool:
    """Whether a model or a configuration was made for this endpoint by `up`, and is there."""
    try:
        return read_tags(account, arn).get(ENDPOINT_TAG) == endpoint_name
    except NotThere:
        return False


def read_tags(account: Account, arn: str) -> dict[str, str]:
    """Of anything of SageMaker's."""
    listed = account.ask_all("sagemaker", "ListTags", "Tags", ResourceArn=arn)
    return {tag["Key"]: tag["Value"] for tag in listed}


def _look(account: Account, endpoint_name: str) -> tuple[Endpoint | None, Mapping[str, str]]:
    """Its description and its tags: they may lag behind it, and it may go between two calls."""
    found: Endpoint | None = None
    for pause in _LAGS_S:
        time.sleep(pause)
        found = describe(account, endpoint_name)
        if found is None:
            break
        with suppress(NotThere):
            if tags := read_tags(account, found["EndpointArn"]):
                return found, tags
    return found, {}


def require_deployed(account: Account, endpoint_name: str) -> Deployed:
    """As find_deployed; Refused where there is none."""
    deployed = find_deployed(account, endpoint_name)
    if deployed is None:
        raise no_endpoint(account, endpoint_name)
    return deployed


def no_endpoint(account: Account, endpoint_name: str) -> Refused:
    """To be raised where a command needs one."""
    return Refused(
        f"there is no endpoint {endpoint_name} in {account.region}; `up CONFIG.toml` makes it"
    )
