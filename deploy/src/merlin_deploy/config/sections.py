"""The sections of a CONFIG.toml, each choice with its reason; and the example made of them.

Times are in seconds. A choice without a default is required; None leaves it to AWS.
"""

from __future__ import annotations

import json
import textwrap
from typing import Annotated, get_args

from pydantic import BaseModel, ConfigDict, Field
from pydantic import PlainValidator as Reads
from pydantic.fields import FieldInfo

from merlin_deploy.config import values
from merlin_deploy.config.catalog import AMIS, LEFT_TO_AWS, EcrImage
from merlin_deploy.config.values import Table

#: SageMaker's names have 63 characters; models and configurations get a dash and 8 of a digest.
MOST_NAME = 63 - 9


class Section(BaseModel):
    """Choices of CONFIG.toml. What stands below each is its reason, for whoever chooses."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class EndpointSection(Section):
    """The endpoint: its name, archives, image and role."""

    name: Annotated[str, Reads(values.name(MOST_NAME))] = Field(examples=['"recommenders"'])
    """The endpoint's name; its models and configurations are called NAME-<digest>."""
    image: Annotated[EcrImage, Reads(values.image)] = Field(
        examples=['"123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin-sagemaker:1"']
    )
    """The image in ECR that `push` printed. A digest is served for ever; a tag is looked up at each
    `up`."""
    archives: Annotated[str, Reads(values.prefix)] = Field(
        examples=['"s3://recommenders-123456789012/shop/"']
    )
    """Where `put` keeps archives; instances download them from there."""
    role: Annotated[str, Reads(values.role)] = Field(
        examples=['"arn:aws:iam::123456789012:role/sagemaker"']
    )
    """Whose rights the instances have: `policy CONFIG.toml` prints the least of them."""
    region: Annotated[str | None, Reads(values.region)] = Field(
        default=None, examples=['"us-east-1"']
    )
    """Where it runs; unset: AWS_REGION, or your profile's."""
    single_model: Annotated[str | None, Reads(values.archive_name)] = Field(
        default=None, examples=['"shop-a"']
    )
    """Serve this archive alone (a name of `put --as`) in the place of all of them. Its memory is
    never taken by others, and a new archive is a blue/green update."""


class InstancesSection(Section):
    """Type and number of instances."""

    type: Annotated[str, Reads(values.instance_type)] = Field(examples=['"ml.g5.xlarge"'])
    """All archives that get traffic should fit its memory (CPU) or GPU memory: what does not is
    loaded again and again."""
    count: Annotated[int, Reads(values.whole(1))] = Field(default=1, examples=["2"])
    """Instances at the start; autoscaling moves it later. Two, in two zones, survive the loss of
    one."""
    volume_gb: Annotated[int | None, Reads(values.whole(1, 512))] = Field(
        default=None, examples=["64"]
    )
    """Disk for downloaded archives, where the type has no disk of its own; unset: AWS's choice."""
    ami: Annotated[str | None, Reads(values.one_of(*AMIS, LEFT_TO_AWS))] = Field(
        default=None, examples=['"al2-ami-sagemaker-inference-gpu-3-1"']
    )
    """The host's image, which chooses its NVIDIA driver. gpu-2 and gpu-3 are for CUDA 12, gpu-4 is
    for CUDA 13 and 12. Unset: gpu-4 where AWS would take a driver that is too old (g4dn, g5, p4d,
    p4de), else AWS's choice; "aws": AWS's choice."""
    startup_timeout: Annotated[int, Reads(values.whole(60, 3600))] = 600
    """How long a container may take until /ping answers."""
    download_timeout: Annotated[int, Reads(values.whole(60, 3600))] = 600
    """How long a single model's archive may take to be downloaded and extracted."""
    routing: Annotated[str, Reads(values.one_of("least-outstanding-requests", "random"))] = (
        "least-outstanding-requests"
    )
    """ "least-outstanding-requests" evens out slow requests; "random" is AWS's default."""


class ContainerSection(Section):
    """How the container behaves."""

    model_cache: Annotated[bool, Reads(values.boolean)] = True
    """false: an instance keeps no archive that is not in use (ModelCacheSetting Disabled), for
    archives that are asked once in a long time."""
    memory_reserve_mb: Annotated[int | None, Reads(values.whole(0))] = Field(
        default=None, examples=["1024"]
    )
    """Memory that loads leave free: what would not fit is refused, and SageMaker unloads others;
    unset: the container's own (256)."""
    environment: Table | None = Field(default=None, examples=['{ SERVE_LOG_FORMAT = "json" }'])
    """Variables of the container, as docs/settings.md has them, and of your own; names that begin
    with SERVE_ are the container's alone."""


class NetworkSection(Section):
    """Where it may connect to."""

    subnets: Annotated[tuple[str, ...], Reads(values.several(values.subnet, 16))] = Field(
        default=(), examples=['["subnet-0a1b2c3d", "subnet-4e5f6a7b"]']
    )
    """Subnets of your VPC, in two zones or more, with an S3 endpoint; none: SageMaker's own
    network."""
    security_groups: Annotated[tuple[str, ...], Reads(values.several(values.security_group, 5))] = (
        Field(default=(), examples=['["sg-0a1b2c3d"]'])
    )
    """What those interfaces may reach; needed with subnets."""
    isolated: Annotated[bool, Reads(values.boolean)] = False
    """true: containers have no network at all; archives still come, through SageMaker."""


class EncryptionSection(Section):
    """KMS keys of disks and archives."""

    volume_key: Annotated[str | None, Reads(values.key)] = Field(
        default=None, examples=['"alias/recommenders"']
    )
    """KMS key of the instances' disks; unset: AWS's. Types with disks of their own take none."""
    archives_key: Annotated[str | None, Reads(values.key)] = Field(
        default=None, examples=['"alias/recommenders"']
    )
    """KMS key that `put` uploads with; the role must be allowed to decrypt with it; unset: the
    bucket's default."""


class MetricsSection(Section):
    """Metrics of instances and containers in CloudWatch."""

    detailed: Annotated[bool, Reads(values.boolean)] = True
    """SageMaker's detailed observability: it scrapes the container's /metrics, which is the only
    place that has figures of each archive."""
    path: Annotated[str, Reads(values.url_path)] = "/metrics"
    """Where the container's metrics are."""
    every: Annotated[int, Reads(values.whole(10, 300))] = 60
    """How often they are scraped, in seconds; more often costs more."""


class AutoscalingSection(Section):
    """When instances come and go; without this section the count stays."""

    max: Annotated[int, Reads(values.whole(1))] = Field(examples=["8"])
    """More than this never run, whatever comes."""
    invocations_per_instance: Annotated[float, Reads(values.number(1e-9))] = Field(
        examples=["3000"]
    )
    """Requests a minute that one instance is to have (target tracking): 60 % of what a load test
    says it can, since a new instance takes minutes."""
    min: Annotated[int, Reads(values.whole(1))] = Field(default=1, examples=["2"])
    """Fewer than this never run."""
    scale_out_cooldown: Annotated[int, Reads(values.whole(0))] = 300
    """Wait after instances were added, so that they count."""
    scale_in_cooldown: Annotated[int, Reads(values.whole(0))] = 900
    """Wait after instances were taken away: each one that goes takes its loaded archives with it,
    and the others load them again."""
    scale_in: Annotated[bool, Reads(values.boolean)] = True
    """false: instances are only added."""


class AlarmsSection(Section):
    """Alarms and who hears them; a threshold that is unset makes no alarm."""

    topics: Annotated[tuple[str, ...], Reads(values.several(values.topic, 5))] = Field(
        default=(), examples=['["arn:aws:sns:us-east-1:123456789012:oncall"]']
    )
    """SNS topics that alarms go to, and their ends; none: alarms are only seen."""
    cache_hit_below: Annotated[float | None, Reads(values.number(0, 1))] = 0.8
    """Share of requests whose archive was loaded already (ModelCacheHit): below it, instances are
    too few or too small."""
    loading_wait_above_ms: Annotated[float | None, Reads(values.number(0))] = 10_000
    """What a request waits for its archive on average (ModelLoadingWaitTime)."""
    unloading_above_ms: Annotated[float | None, Reads(values.number(0))] = 5_000
    """What an unload takes on average (ModelUnloadingTime)."""
    errors_5xx_above: Annotated[float | None, Reads(values.number(0))] = 0
    """Requests in a minute that the container could not answer (Invocation5XXErrors)."""
    errors_4xx_above: Annotated[float | None, Reads(values.number(0))] = Field(
        default=None, examples=["100"]
    )
    """Requests in a minute that callers got wrong (Invocation4XXErrors)."""
    latency_p99_above_ms: Annotated[float | None, Reads(values.number(0))] = Field(
        default=None, examples=["250"]
    )
    """The container's answer at p99 (ModelLatency)."""
    unseen_above_percent: Annotated[float | None, Reads(values.number(0, 100))] = Field(
        default=None, examples=["5"]
    )
    """Of an archive's values those that no vocabulary of its workflows has
    (serve_feature_unseen_total): above it, the catalogue has outgrown the model. Each archive is an
    alarm contributor of its own; needs metrics.detailed."""
    minutes: Annotated[int, Reads(values.whole(1, 1440))] = 5
    """How many minutes in a row a threshold is passed before it is an alarm."""


class DeploymentSection(Section):
    """How an update takes over; the old instances answer until then."""

    traffic: Annotated[str, Reads(values.one_of("all-at-once", "canary", "linear", "rolling"))] = (
        "all-at-once"
    )
    """ "all-at-once", or "canary": a part first; "linear": in equal steps; "rolling": no second
    fleet, for types that are short."""
    step_percent: Annotated[int, Reads(values.whole(5, 50))] = 10
    """The canary's share, or that of each step."""
    wait: Annotated[int, Reads(values.whole(0, 3600))] = 300
    """How long each step is watched before the next one."""
    termination_wait: Annotated[int, Reads(values.whole(0, 3600))] = 300
    """How long the old instances stay afterwards, watched by the alarms, to go back to."""
    roll_back_on_alarms: Annotated[bool, Reads(values.boolean)] = True
    """true: the alarms of errors and latency bring the old instances back while they are there.
    SageMaker takes no update while one of them is on: false lets a cure in."""
    keep: Annotated[int, Reads(values.whole(1, 20))] = 5
    """How many former configurations stay for `rollback`."""


class CostsSection(Section):
    """For `status`: prices are yours."""

    instance_hour: Annotated[float | None, Reads(values.number(0))] = Field(
        default=None, examples=["1.41"]
    )
    """What an instance costs in an hour; unset: hours are counted, not money."""
    currency: Annotated[str, Reads(values.text)] = "USD"
    """Of that price."""


class Config(BaseModel, frozen=True):
    """A whole CONFIG.toml; [tags] has names of your own."""

    endpoint: EndpointSection
    instances: InstancesSection
    container: ContainerSection = ContainerSection()
    network: NetworkSection = NetworkSection()
    encryption: EncryptionSection = EncryptionSection()
    metrics: MetricsSection = MetricsSection()
    autoscaling: AutoscalingSection | None = None
    alarms: AlarmsSection = AlarmsSection()
    deployment: DeploymentSection = DeploymentSection()
    costs: CostsSection = CostsSection()
    tags: Table = {}


#: Of each section its class, in the order of the file. [autoscaling]'s is Optional.
SECTIONS: dict[str, type[Section]] = {
    name: (*get_args(section.annotation), section.annotation)[0]
    for name, section in Config.model_fields.items()
    if name != "tags"
}


_COLUMNS = 98
_HEAD = """\
# What an endpoint is to be, for `python -m deploy up`. Lines that begin with #: are defaults, or
# examples where there is no default.
"""
_TAGS = """
# Tags of the endpoint, its models and its configurations, for your bills.
[tags]
#: team = "recommendations"
"""


def make_example() -> str:
    """A CONFIG.toml with every choice. What is not required is commented out."""
    sections = [_write_section(name, section) for name, section in SECTIONS.items()]
    return _HEAD + "".join(sections) + _TAGS


def reason_of(choice: FieldInfo) -> str:
    """The reason of a choice, on one line; empty where it has none."""
    return " ".join((choice.description or "").split())


def _write_section(name: str, section: type[Section]) -> str:
    # [autoscaling] is optional as a whole: with its header alone it would be incomplete.
    is_optional = name == "autoscaling"
    lines = [f"\n# {section.__doc__}", f"{'#: ' if is_optional else ''}[{name}]"]
    for key, it in section.model_fields.items():
        lines += [f"# {line}" for line in textwrap.wrap(reason_of(it), _COLUMNS)]
        is_required = it.is_required()
        has_default = not is_required and it.default not in (None, ())
        value = json.dumps(it.default) if has_default else (it.examples or [""])[0]
        lines.append(f"{'' if is_required and not is_optional else '#: '}{key} = {value}")
    return "\n".join(lines) + "\n"
