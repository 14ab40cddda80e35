"""`rollback`: update an endpoint to the configuration that it had before."""

from __future__ import annotations

from deploy.aws.account import Account
from deploy.config.sections import Config
from deploy.desired.monitoring import STEP_TAG, make_policy, make_target
from deploy.endpoint.changes import update_endpoint
from deploy.endpoint.resources import bring_scaling
from deploy.endpoint.state import (
    FAILED,
    Deployed,
    bring_tags,
    find_settled,
    no_endpoint,
    require_deployed,
    with_patience,
)
from deploy.endpoint.up import end_in_service
from deploy.errors import NoAnswer, Refused
from deploy.terminal import Say


def roll_back(account: Account, config: Config, say: Say, *, timeout_s: float) -> None:
    """One step; a second call goes one more, but finishes one that was cut off.

    Autoscaling and alarms stay the configuration's. Raises DeployError.
    """
    name = config.endpoint.name
    deployed = _settled(account, name, say, timeout_s)
    digest = deployed.unfinished_step or _step_before(deployed, name)
    config_name = f"{name}-{digest}"
    if config_name != deployed.config_name:
        _require_config(account, config_name)
        # First: a call that is cut off is finished by the next one, which goes no step further.
        bring_tags(account, deployed, {STEP_TAG: digest})
        say(f"endpoint {name}: {deployed.config_name} → {config_name}")
        update_endpoint(
            account,
            name,
            config_name,
            None,
            say,
            keep_count=config.autoscaling is not None,
            timeout_s=timeout_s,
        )
    target, policy = make_target(config), make_policy(config)
    if account.dry_run:
        bring_scaling(account, name, target, policy, say)
    else:
        end_in_service(account, name, config_name, target, policy, say, timeout_s=timeout_s)
    # Looked at again where no answer comes: a step that was taken, and is said to be none, would be
    # taken once more by whoever calls again.
    with_patience(
        lambda: bring_tags(account, require_deployed(account, name), {STEP_TAG: ""}), NoAnswer
    )


def _settled(account: Account, name: str, say: Say, timeout_s: float) -> Deployed:
    deployed = find_settled(account, name, say, timeout_s)
    if deployed is None:
        raise no_endpoint(account, name)
    if deployed.status == FAILED:
        raise Refused(f"the endpoint {name} is Failed, and can only be made anew: `up` does it")
    return deployed


def _step_before(deployed: Deployed, name: str) -> str:
    digest = deployed.history.before(deployed.digest)
    if digest is None:
        raise Refused(
            f"the endpoint {name} has no configuration before {deployed.config_name}; `up` with a "
            "changed CONFIG.toml makes a new one"
        )
    return digest


def _require_config(account: Account, config_name: str) -> None:
    """With its model."""
    found = account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=config_name)
    models = [one["ModelName"] for one in (found or {}).get("ProductionVariants", ())]
    for kind, gone in (
        (f"configuration {config_name}", found is None),
        *(
            (f"model {one}", account.find("sagemaker", "DescribeModel", ModelName=one) is None)
            for one in models
        ),
    ):
        if gone:
            raise Refused(
                f"the {kind}, which the endpoint had before, was deleted; `up` with the "
                "CONFIG.toml of that time makes it again"
            )
