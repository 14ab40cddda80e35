"""What AWS has of an endpoint now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deploy.aws.account import Account
from deploy.endpoint.history import History, digest_of, read_history
from deploy.errors import Refused
from deploy.wanted.names import ENDPOINT_TAG, HISTORY_TAG


@dataclass(frozen=True)
class Deployed:
    """An endpoint that is ours. description: DescribeEndpoint's answer."""

    description: Mapping[str, Any]
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
    def desired_count(self) -> int | None:
        """Of instances; None while there are none yet."""
        variants = self.description.get("ProductionVariants") or [{}]
        count = variants[0].get("DesiredInstanceCount")
        return None if count is None else int(count)


def find_deployed(account: Account, endpoint_name: str) -> Deployed | None:
    """None where there is no endpoint of this name.

    Raises Refused for one that was made in another way: it is not touched.
    """
    found = account.find("sagemaker", "DescribeEndpoint", EndpointName=endpoint_name)
    if found is None:
        return None
    listed = account.ask_all("sagemaker", "ListTags", "Tags", ResourceArn=found["EndpointArn"])
    tags = {tag["Key"]: tag["Value"] for tag in listed}
    if tags.get(ENDPOINT_TAG) != endpoint_name:
        raise Refused(
            f"the endpoint {endpoint_name} was not made by `up` (it has no tag {ENDPOINT_TAG}); "
            "choose another endpoint.name, or give it that tag with its name as the value, "
            "to hand it over"
        )
    return Deployed(found, tags)


def require_deployed(account: Account, endpoint_name: str) -> Deployed:
    """As find_deployed; Refused where there is none."""
    deployed = find_deployed(account, endpoint_name)
    if deployed is None:
        raise Refused(
            f"there is no endpoint {endpoint_name} in {account.region}; `up CONFIG.toml` makes it"
        )
    return deployed
