"""`down`: remove everything that `up` made, and list what stays."""

from __future__ import annotations

from deploy.archives.aliases import read_place
from deploy.aws.account import Account
from deploy.config.sections import Config
from deploy.endpoint.changes import delete_endpoint
from deploy.endpoint.resources import (
    end_scaling,
    find_alarms,
    has_scaling,
    remove_alarms,
    remove_configs,
)
from deploy.endpoint.state import find_deployed
from deploy.terminal import Say


def take_down(account: Account, name: str, say: Say, *, timeout_s: float) -> None:
    """The endpoint first, since that is what costs; then what led to it. Raises DeployError."""
    # First of all, since it refuses an endpoint that was made in another way.
    deployed = find_deployed(account, name)
    if has_scaling(account, name):
        end_scaling(account, name)
        say("autoscaling: ended")
    if deployed is not None:
        delete_endpoint(account, name, say, timeout_s)
    alarms = [alarm["AlarmName"] for alarm in find_alarms(account, name)]
    remove_alarms(account, alarms, say)
    remove_configs(account, name, (), say)


def list_what_stays(config: Config) -> tuple[str, ...]:
    """What was not made by `up`, and what costs of it, with how it goes."""
    place, name = read_place(config.endpoint.archives), config.endpoint.name
    return (
        "what stays, and costs until you remove it:",
        f"  archives   aws s3 rm --recursive s3://{place.bucket}/{place.prefix}",
        f"  image      {config.endpoint.image}, in ECR",
        f"  logs       aws logs delete-log-group --log-group-name /aws/sagemaker/Endpoints/{name}",
        f"and for nothing: the role {config.endpoint.role}",
    )
