"""`down`: remove everything that `up` made, and list what stays."""

from __future__ import annotations

from merlin_deploy.archives.aliases import read_place
from merlin_deploy.config.sections import Config
from merlin_deploy.endpoint.changes import delete_endpoint
from merlin_deploy.endpoint.resources import (
    end_scaling,
    find_alarms,
    find_target,
    remove_alarms,
    remove_configs,
)
from merlin_deploy.endpoint.state import Job, find_deployed


def take_down(job: Job) -> None:
    """The endpoint first, since it costs most; then what led to it. Raises DeployError."""
    account, name = job.account, job.name
    # First of all: it refuses an endpoint that `up` did not make.
    deployed = find_deployed(account, name)
    if find_target(account, name) is not None:
        end_scaling(account, name)
        job.say("autoscaling: ended")
    if deployed is not None:
        delete_endpoint(job)
    alarms = [alarm["AlarmName"] for alarm in find_alarms(account, name)]
    remove_alarms(account, alarms, job.say)
    remove_configs(account, name, (), job.say)


def list_what_stays(config: Config) -> tuple[str, ...]:
    """What `up` did not make, each with its cost and the command that removes it."""
    place, name = read_place(config.endpoint.archives), config.endpoint.name
    return (
        "what stays, and costs until you remove it:",
        f"  archives   aws s3 rm --recursive s3://{place.bucket}/{place.prefix}",
        f"  image      {config.endpoint.image}, in ECR",
        f"  logs       aws logs delete-log-group --log-group-name /aws/sagemaker/Endpoints/{name}",
        f"and for nothing: the role {config.endpoint.role}",
    )
