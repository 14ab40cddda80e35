"""`rollback`: an endpoint goes back to the configuration that it had before."""

from __future__ import annotations

from deploy.aws.account import Account, Say
from deploy.config.config import Config
from deploy.endpoint.bring_up import require_in_service, update_endpoint
from deploy.endpoint.scaling import bring_scaling
from deploy.endpoint.state import require_deployed
from deploy.endpoint.waiting import CHANGING, wait_until_settled
from deploy.errors import Refused
from deploy.wanted.scaling import make_policy, make_target


def roll_back(account: Account, config: Config, say: Say, *, timeout_s: float) -> None:
    """One step; a second call goes one more. Autoscaling and alarms stay the configuration's.

    Raises DeployError.
    """
    endpoint_name = config.endpoint.name
    deployed = require_deployed(account, endpoint_name)
    if deployed.status in CHANGING and not account.dry_run:
        say(f"the endpoint {endpoint_name} is {deployed.status}: this waits until it is done")
        wait_until_settled(account, endpoint_name, say, timeout_s)
        deployed = require_deployed(account, endpoint_name)
    digest = deployed.history.before(deployed.digest)
    if digest is None:
        raise Refused(
            f"the endpoint {endpoint_name} has no configuration before {deployed.config_name}; "
            "`up` with a changed CONFIG.toml makes a new one"
        )
    config_name = f"{endpoint_name}-{digest}"
    if account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=config_name) is None:
        raise Refused(
            f"the configuration {config_name}, which the endpoint had before, was deleted; "
            "`up` with the CONFIG.toml of that time makes it again"
        )
    say(f"endpoint {endpoint_name}: {deployed.config_name} → {config_name}")
    update_endpoint(
        account,
        endpoint_name,
        config_name,
        None,
        say,
        keep_count=config.autoscaling is not None,
    )
    if not account.dry_run:
        require_in_service(account, endpoint_name, config_name, say, timeout_s)
    bring_scaling(account, endpoint_name, make_target(config), make_policy(config), say)
