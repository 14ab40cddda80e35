"""What AWS has of an endpoint now, and waiting until it stops changing.

A tag of the endpoint keeps which configurations it had, newest first. It works like a browser's
history: going back leaves it as it is; deploying then drops everything newer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from merlin_deploy.account import Account
from merlin_deploy.desired import DIGEST_CHARACTERS, ENDPOINT_TAG, HISTORY_TAG, STEP_TAG
from merlin_deploy.errors import DeployError, DeploymentFailed, NoAnswer, NotThere, Refused
from merlin_deploy.terminal import Say

#: EndpointStatus: what passes by itself, what can only be deleted, what serves.
CHANGING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
FAILED = "Failed"
IN_SERVICE = "InService"
#: AWS's reads lag behind its writes (CreateEndpoint in its reference). What was made or changed a
#: moment ago is looked for during so many seconds.
PATIENCE_S = 15.0
#: Seconds between two looks; the first ones come soon, for an endpoint that is quick.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.2, 10.0, 1.3
#: Seconds that the network may be gone while an endpoint is waited for.
_LONGEST_OUTAGE_S = 300.0
#: Seconds before each look at the tags.
_TAG_PAUSES_S = (0.0, 0.5, 1.5)
#: A tag's value has 256 characters.
_MOST_DIGESTS = 256 // (DIGEST_CHARACTERS + 1)
Description = Mapping[str, Any]
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Job:
    """A command's work on one endpoint."""

    account: Account
    name: str
    say: Say  # told of each step
    timeout_s: float  # of waiting for it


@dataclass(frozen=True)
class History:
    """Digests of the names of configurations, newest first."""

    digests: tuple[str, ...] = ()

    def with_newest(self, current: str | None, newest: str, keep: int) -> History:
        """Put the next one in front of the current one; keep: how many former ones stay."""
        older = self.digests
        if current in older:
            older = older[older.index(current) :]
        elif current is not None:
            older = (current, *older)
        rest = tuple(digest for digest in older if digest != newest)
        return History((newest, *rest)[: min(keep + 1, _MOST_DIGESTS)])

    def before(self, current: str) -> str | None:
        """The digest that was deployed before the current one; None if there is none."""
        if current not in self.digests:
            return next(iter(self.digests), None)
        index = self.digests.index(current) + 1
        return self.digests[index] if index < len(self.digests) else None


def read_history(value: str | None) -> History:
    """value: a tag's. Words in it that are no digests are left out."""
    digests = (value or "").split()
    return History(tuple(digest for digest in digests if len(digest) == DIGEST_CHARACTERS))


def write_history(history: History) -> str:
    """The history as a tag's value."""
    return " ".join(history.digests)


def digest_of(config_name: str) -> str:
    return config_name.rpartition("-")[2]


@dataclass(frozen=True)
class Deployed:
    """An endpoint that `up` made."""

    description: Description  # DescribeEndpoint's answer
    tags: Mapping[str, str]

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
        """The digest in that configuration's name."""
        return digest_of(self.config_name)

    @property
    def history(self) -> History:
        """The configurations that the endpoint had."""
        return read_history(self.tags.get(HISTORY_TAG))

    @property
    def unfinished_step(self) -> str | None:
        """The digest to which an interrupted rollback was going; None if there was none."""
        return self.tags.get(STEP_TAG) or None


def desired_count(description: Description) -> int | None:
    """DesiredInstanceCount of the one variant; None while SageMaker does not say."""
    count = variant_of(description).get("DesiredInstanceCount")
    return None if count is None else int(count)


def variant_of(description: Mapping[str, Any] | None) -> Description:
    """The one production variant of an endpoint or a configuration; empty if there is none."""
    variants = (description or {}).get("ProductionVariants") or [{}]
    variant: Description = variants[0]
    return variant


def describe(account: Account, endpoint_name: str) -> Description | None:
    """DescribeEndpoint; None if there is no such endpoint."""
    return account.find("sagemaker", "DescribeEndpoint", EndpointName=endpoint_name)


def describe_config(account: Account, config_name: str) -> Description | None:
    """DescribeEndpointConfig; None if there is no such configuration."""
    return account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=config_name)


def find_deployed(account: Account, endpoint_name: str) -> Deployed | None:
    """The endpoint, or None if there is none of this name.

    Raises Refused if `up` did not make the endpoint: no command changes it then.
    """
    description, tags = _look(account, endpoint_name)
    if description is None:
        return None
    if tags.get(ENDPOINT_TAG) != endpoint_name:
        raise Refused(
            f"the endpoint {endpoint_name} was not made by `up` (it has no tag {ENDPOINT_TAG}); "
            "choose another endpoint.name, or give it that tag with its name as the value, "
            "to hand it over"
        )
    return Deployed(description, tags)


def require_deployed(account: Account, endpoint_name: str) -> Deployed:
    """The endpoint; raises Refused if there is none, or `up` did not make it."""
    deployed = find_deployed(account, endpoint_name)
    if deployed is None:
        raise no_endpoint(account, endpoint_name)
    return deployed


def no_endpoint(account: Account, endpoint_name: str) -> Refused:
    """The refusal of a command that needs an endpoint."""
    return Refused(
        f"there is no endpoint {endpoint_name} in {account.region}; `up CONFIG.toml` makes it"
    )


def find_settled(job: Job) -> Deployed | None:
    """The endpoint once an earlier call's change is done; with --dry-run, as it is now."""
    deployed = find_deployed(job.account, job.name)
    if deployed is None or deployed.status not in CHANGING:
        return deployed
    job.say(f"the endpoint {job.name} is {deployed.status}: this waits until it is done")
    if job.account.dry_run:
        return deployed
    wait_until_settled(job)
    return find_deployed(job.account, job.name)


def wait_until_settled(job: Job, *, appears: bool = False) -> Description | None:
    """The endpoint once its status does not change any more; None once it is gone.

    appears: it was made a moment ago, and AWS may not show it yet. A network outage of some minutes
    ends nothing, and each change is told, which boto3's waiters do not do. Raises DeploymentFailed
    after the job's timeout: the endpoint goes on changing.
    """
    start = seen = time.monotonic()
    last_progress = ""
    for pause in pauses():
        try:
            endpoint = describe(job.account, job.name)
        except NoAnswer as error:
            if time.monotonic() - seen > min(_LONGEST_OUTAGE_S, job.timeout_s):
                raise
            job.say(str(error))
            time.sleep(pause)
            continue
        seen = time.monotonic()
        if endpoint is None and appears and seen - start < PATIENCE_S:
            time.sleep(pause)
            continue
        appears = False
        progress = "gone" if endpoint is None else _describe_progress(endpoint)
        if progress != last_progress:
            job.say(f"{seen - start:5.0f} s  {progress}")
            last_progress = progress
        if endpoint is None or endpoint["EndpointStatus"] not in CHANGING:
            return endpoint
        if seen - start > job.timeout_s:
            raise DeploymentFailed(
                f"the endpoint {job.name} is {endpoint['EndpointStatus']} after "
                f"{job.timeout_s:.0f} s (--timeout); it goes on: the same command waits on"
            )
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def call_patiently(call: Callable[[], _Answer], *refusals: type[DeployError]) -> _Answer:
    """Call again for some seconds while AWS refuses in one of these ways; raises the last one."""
    start = time.monotonic()
    for pause in pauses():
        try:
            return call()
        except refusals:
            if time.monotonic() - start > PATIENCE_S:
                raise
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def pauses() -> Iterator[float]:
    """Seconds between two looks, without end."""
    pause = _FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(_LONGEST_PAUSE_S, pause * _GROWTH)


def read_tags(account: Account, arn: str) -> dict[str, str]:
    """Tags of any resource of SageMaker."""
    tags = account.ask_all("sagemaker", "ListTags", "Tags", ResourceArn=arn)
    return {tag["Key"]: tag["Value"] for tag in tags}


def is_tagged(account: Account, arn: str, endpoint_name: str) -> bool:
    """Whether `up` made this model or configuration for the endpoint, and it is still there."""
    try:
        return read_tags(account, arn).get(ENDPOINT_TAG) == endpoint_name
    except NotThere:
        return False


def set_tags(account: Account, deployed: Deployed, tags: Mapping[str, str]) -> None:
    """Write the tags of the endpoint that differ. An empty tag need not be there."""
    differing = [
        {"Key": key, "Value": value}
        for key, value in tags.items()
        if deployed.tags.get(key, "") != value
    ]
    if differing:
        arn = deployed.description["EndpointArn"]
        account.change("sagemaker", "AddTags", ResourceArn=arn, Tags=differing)


def _look(account: Account, name: str) -> tuple[Description | None, Mapping[str, str]]:
    """The description and the tags, which may lag behind it. It may go between the two calls."""
    description: Description | None = None
    for pause in _TAG_PAUSES_S:
        time.sleep(pause)
        description = describe(account, name)
        if description is None:
            break
        with suppress(NotThere):
            if tags := read_tags(account, description["EndpointArn"]):
                return description, tags
    return description, {}


def _describe_progress(endpoint: Description) -> str:
    """Status, and how many instances there are of how many."""
    parts = [str(endpoint["EndpointStatus"])]
    for variant in endpoint.get("ProductionVariants", ()):
        count, desired = variant.get("CurrentInstanceCount"), variant.get("DesiredInstanceCount")
        if desired is not None:
            parts.append(f"{count or 0} of {desired} instances")
        parts += [status["Status"] for status in variant.get("VariantStatus", ())]
    if reason := endpoint.get("FailureReason"):
        parts.append(f"({reason})")
    return "  ".join(parts)
