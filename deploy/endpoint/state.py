"""What AWS has of an endpoint now, and waiting until it stops changing.

A tag of the endpoint keeps which configurations it had, newest first. It works like a browser's
history: going back leaves it as it is; deploying then drops everything newer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from deploy.aws.account import Account
from deploy.desired.monitoring import DIGEST_CHARACTERS, ENDPOINT_TAG, HISTORY_TAG, STEP_TAG
from deploy.errors import DeployError, DeploymentFailed, NoAnswer, NotThere, Refused
from deploy.terminal import Say

#: A tag's value has 256 characters.
_MOST_DIGESTS = 256 // (DIGEST_CHARACTERS + 1)


@dataclass(frozen=True)
class History:
    """Digests of configurations' names, newest first."""

    digests: tuple[str, ...] = ()

    def with_newest(self, current: str | None, newest: str, keep: int) -> History:
        """What is deployed next goes in front of what is deployed now; keep: of former ones."""
        older = self.digests
        if current in older:
            older = older[older.index(current) :]
        elif current is not None:
            older = (current, *older)
        rest = tuple(digest for digest in older if digest != newest)
        return History((newest, *rest)[: min(keep + 1, _MOST_DIGESTS)])

    def before(self, current: str) -> str | None:
        """The one that was deployed before the current one; None where there is none."""
        if current not in self.digests:
            return next(iter(self.digests), None)
        place = self.digests.index(current) + 1
        return self.digests[place] if place < len(self.digests) else None


def read_history(value: str | None) -> History:
    """Of a tag's value; what is no digest is left out."""
    digests: Sequence[str] = (value or "").split()
    return History(tuple(it for it in digests if len(it) == DIGEST_CHARACTERS))


def write_history(history: History) -> str:
    """As a tag's value."""
    return " ".join(history.digests)


def digest_of(name: str) -> str:
    """Of a configuration's name."""
    return name.rpartition("-")[2]


#: Of EndpointStatus: those that pass by themselves.
CHANGING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"})
#: AWS's reads lag behind its writes (CreateEndpoint in its reference): so long, in seconds, is
#: looked again for what was made or changed a moment ago.
PATIENCE_S = 15.0
#: Between two looks, in seconds: the first ones soon, for an endpoint that is quick.
_FIRST_S, _MOST_S, _GROWTH = 0.2, 10.0, 1.3
#: So long, in seconds, a network may be gone while an endpoint is waited for.
_BLIND_S = 300.0
Endpoint = Mapping[str, Any]
_Found = TypeVar("_Found")


def describe(account: Account, endpoint_name: str) -> Endpoint | None:
    """DescribeEndpoint; None where there is none."""
    return account.find("sagemaker", "DescribeEndpoint", EndpointName=endpoint_name)


def wait_until_settled(
    account: Account, endpoint_name: str, say: Say, timeout_s: float, *, appears: bool = False
) -> Endpoint | None:
    """The endpoint once its status does not change any more; None once it is gone.

    appears: it was made a moment ago, and may not be seen yet. A network that is gone for some
    minutes ends nothing. Raises DeploymentFailed after timeout_s: the endpoint goes on changing.
    """
    start, told, seen = time.monotonic(), "", time.monotonic()
    for pause in pauses():
        try:
            endpoint = describe(account, endpoint_name)
        except NoAnswer as error:
            if time.monotonic() - seen > min(_BLIND_S, timeout_s):
                raise
            say(str(error))
            time.sleep(pause)
            continue
        seen = time.monotonic()
        if endpoint is None and appears and seen - start < PATIENCE_S:
            time.sleep(pause)
            continue
        appears = False
        words = "gone" if endpoint is None else _in_words(endpoint)
        if words != told:
            say(f"{seen - start:5.0f} s  {words}")
            told = words
        if endpoint is None or endpoint["EndpointStatus"] not in CHANGING:
            return endpoint
        if seen - start > timeout_s:
            raise DeploymentFailed(
                f"the endpoint {endpoint_name} is {endpoint['EndpointStatus']} after "
                f"{timeout_s:.0f} s (--timeout); it goes on: the same command waits on"
            )
        time.sleep(pause)
    raise AssertionError("the pauses have no end")


def with_patience(call: Callable[[], _Found], *refusals: type[DeployError]) -> _Found:
    """What a call answers, asked again for some seconds while it is refused in one of these ways.

    Raises the last refusal.
    """
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
    """Between two looks, in seconds, without end."""
    pause = _FIRST_S
    while True:
        yield pause
        pause = min(_MOST_S, pause * _GROWTH)


def _in_words(endpoint: Endpoint) -> str:
    """Status, and how many instances there are of how many."""
    words = [str(endpoint["EndpointStatus"])]
    for variant in endpoint.get("ProductionVariants", ()):
        now, then = variant.get("CurrentInstanceCount"), variant.get("DesiredInstanceCount")
        if then is not None:
            words.append(f"{now or 0} of {then} instances")
        words += [one["Status"] for one in variant.get("VariantStatus", ())]
    if reason := endpoint.get("FailureReason"):
        words.append(f"({reason})")
    return "  ".join(words)


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
