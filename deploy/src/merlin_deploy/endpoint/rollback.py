"""`rollback`: update an endpoint to the configuration that it had before."""

from __future__ import annotations

from merlin_deploy.account import Account
from merlin_deploy.config.sections import Config
from merlin_deploy.desired import STEP_TAG, make_policy, make_target
from merlin_deploy.endpoint.changes import update_endpoint
from merlin_deploy.endpoint.state import (
    FAILED,
    Deployed,
    Job,
    call_patiently,
    describe_config,
    find_settled,
    no_endpoint,
    require_deployed,
    set_tags,
    variant_of,
)
from merlin_deploy.endpoint.up import finish
from merlin_deploy.errors import NoAnswer, Refused


def roll_back(job: Job, config: Config) -> None:
    """Go one step back; a second call goes one more, but first finishes one that was cut off.

    Autoscaling and alarms stay those of CONFIG.toml. Raises DeployError.
    """
    account, name = job.account, job.name
    deployed = _require_serving(job)
    digest = deployed.unfinished_step or _step_before(deployed, name)
    config_name = f"{name}-{digest}"
    if config_name != deployed.config_name:
        _require_config(account, config_name)
        # First: the next call finishes one that is cut off afterwards, and goes no step further.
        set_tags(account, deployed, {STEP_TAG: digest})
        job.say(f"endpoint {name}: {deployed.config_name} → {config_name}")
        update_endpoint(job, config_name, None, keep_count=config.autoscaling is not None)
    finish(job, config_name, make_target(config), make_policy(config))
    # Tried again if no answer comes: whoever calls again after an error would go one step too far.
    call_patiently(
        lambda: set_tags(account, require_deployed(account, name), {STEP_TAG: ""}), NoAnswer
    )


def _require_serving(job: Job) -> Deployed:
    deployed = find_settled(job)
    if deployed is None:
        raise no_endpoint(job.account, job.name)
    if deployed.status == FAILED:
        raise Refused(f"the endpoint {job.name} is Failed, and can only be made anew: `up` does it")
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
    """Raises Refused if the configuration or its model was deleted."""
    config = describe_config(account, config_name)
    if config is None:
        raise _deleted(f"configuration {config_name}")
    model = variant_of(config)["ModelName"]
    if account.find("sagemaker", "DescribeModel", ModelName=model) is None:
        raise _deleted(f"model {model}")


def _deleted(what: str) -> Refused:
    return Refused(
        f"the {what}, which the endpoint had before, was deleted; `up` with the CONFIG.toml of "
        "that time makes it again"
    )
