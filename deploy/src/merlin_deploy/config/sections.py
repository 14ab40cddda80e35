"""The sections of a CONFIG.toml, each choice with its reason; and the example made of them.

Times are in seconds. A choice without a default is required; None leaves it to AWS.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass, field

from merlin_deploy.config import values
from merlin_deploy.config.catalog import AMIS, LEFT_TO_AWS
from merlin_deploy.config.values import choice, choices_of

#: SageMaker's names have 63 characters; models and configurations get a dash and 8 of a digest.
MOST_NAME = 63 - 9


@dataclass(frozen=True)
class EndpointSection:
    """What is served, and as whom."""

    name: str = choice(
        "The endpoint's name; its models and configurations are called NAME-<digest>.",
        values.name(MOST_NAME),
        example='"recommenders"',
    )
    image: str = choice(
        "The image that `push` printed. A digest is served for ever; a tag is looked up at each "
        "`up`.",
        values.image,
        example='"123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin-sagemaker:1"',
    )
    archives: str = choice(
        "Where `put` keeps archives; instances download them from there.",
        values.prefix,
        example='"s3://recommenders-123456789012/shop/"',
    )
    role: str = choice(
        "Whose rights the instances have: `policy CONFIG.toml` prints the least of them.",
        values.role,
        example='"arn:aws:iam::123456789012:role/sagemaker"',
    )
    region: str | None = choice(
        "Where it runs; unset: AWS_REGION, or your profile's.",
        values.region,
        default=None,
        example='"us-east-1"',
    )
    single_model: str | None = choice(
        "Serve this archive alone (a name of `put --as`) in the place of all of them. Its memory "
        "is never taken by others, and a new archive is a blue/green update.",
        values.archive_name,
        default=None,
        example='"shop-a"',
    )


@dataclass(frozen=True)
class InstancesSection:
    """What it runs on."""

    type: str = choice(
        "All archives that get traffic should fit its memory (CPU) or GPU memory: what does not "
        "is loaded again and again.",
        values.instance_type,
        example='"ml.g5.xlarge"',
    )
    count: int = choice(
        "Instances at the start; autoscaling moves it later. Two, in two zones, survive the loss "
        "of one.",
        values.whole(1),
        default=1,
        example="2",
    )
    volume_gb: int | None = choice(
        "Disk for downloaded archives, where the type has no disk of its own; unset: AWS's choice.",
        values.whole(1, 512),
        default=None,
        example="64",
    )
    ami: str | None = choice(
        "The host's image, which chooses its NVIDIA driver. gpu-2 and gpu-3 are for CUDA 12, gpu-4 "
        "is for CUDA 13 and 12. Unset: gpu-4 where AWS would take a driver that is too old (g4dn, "
        f"g5, p4d, p4de), else AWS's choice; \"{LEFT_TO_AWS}\": AWS's choice.",
        values.one_of(*AMIS, LEFT_TO_AWS),
        default=None,
        example='"al2-ami-sagemaker-inference-gpu-3-1"',
    )
    startup_timeout: int = choice(
        "How long a container may take until /ping answers.",
        values.whole(60, 3600),
        default=600,
    )
    download_timeout: int = choice(
        "How long a single model's archive may take to be downloaded and extracted.",
        values.whole(60, 3600),
        default=600,
    )
    routing: str = choice(
        '"least-outstanding-requests" evens out slow requests; "random" is AWS\'s default.',
        values.one_of("least-outstanding-requests", "random"),
        default="least-outstanding-requests",
    )


@dataclass(frozen=True)
class ContainerSection:
    """How the container behaves."""

    model_cache: bool = choice(
        "false: an instance keeps no archive that is not in use (ModelCacheSetting Disabled), "
        "for archives that are asked once in a long time.",
        values.boolean,
        default=True,
    )
    memory_reserve_mb: int | None = choice(
        "Memory that loads leave free: what would not fit is refused, and SageMaker unloads "
        "others; unset: the container's own (256).",
        values.whole(0),
        default=None,
        example="1024",
    )
    environment: dict[str, str] | None = choice(
        "Variables of the container, as docs/settings.md has them.",
        values.table,
        default=None,
        example='{ SERVE_LOG_FORMAT = "json" }',
    )


@dataclass(frozen=True)
class NetworkSection:
    """Where it may connect to."""

    subnets: tuple[str, ...] = choice(
        "Subnets of your VPC, in two zones or more, with an S3 endpoint; none: SageMaker's own "
        "network.",
        values.several(values.subnet, 16),
        default=(),
        example='["subnet-0a1b2c3d", "subnet-4e5f6a7b"]',
    )
    security_groups: tuple[str, ...] = choice(
        "What those interfaces may reach; needed with subnets.",
        values.several(values.security_group, 5),
        default=(),
        example='["sg-0a1b2c3d"]',
    )
    isolated: bool = choice(
        "true: containers have no network at all; archives still come, through SageMaker.",
        values.boolean,
        default=False,
    )


@dataclass(frozen=True)
class EncryptionSection:
    """With whose keys."""

    volume_key: str | None = choice(
        "KMS key of the instances' disks; unset: AWS's. Types with disks of their own take none.",
        values.key,
        default=None,
        example='"alias/recommenders"',
    )
    archives_key: str | None = choice(
        "KMS key that `put` uploads with; the role must be allowed to decrypt with it; unset: the "
        "bucket's default.",
        values.key,
        default=None,
        example='"alias/recommenders"',
    )


@dataclass(frozen=True)
class MetricsSection:
    """What CloudWatch gets."""

    detailed: bool = choice(
        "SageMaker's detailed observability: it scrapes the container's /metrics, which is the "
        "only place that has figures of each archive.",
        values.boolean,
        default=True,
    )
    path: str = choice("Where the container's metrics are.", values.url_path, default="/metrics")
    every: int = choice(
        "How often they are scraped, in seconds; more often costs more.",
        values.whole(10, 300),
        default=60,
    )


@dataclass(frozen=True)
class AutoscalingSection:
    """When instances come and go; without this section the count stays."""

    max: int = choice("More than this never run, whatever comes.", values.whole(1), example="8")
    invocations_per_instance: float = choice(
        "Requests a minute that one instance is to have (target tracking): 60 % of what a load "
        "test says it can, since a new instance takes minutes.",
        values.number(1e-9),
        example="3000",
    )
    min: int = choice("Fewer than this never run.", values.whole(1), default=1, example="2")
    scale_out_cooldown: int = choice(
        "Wait after instances were added, so that they count.", values.whole(0), default=300
    )
    scale_in_cooldown: int = choice(
        "Wait after instances were taken away: each one that goes takes its loaded archives "
        "with it, and the others load them again.",
        values.whole(0),
        default=900,
    )
    scale_in: bool = choice("false: instances are only added.", values.boolean, default=True)


@dataclass(frozen=True)
class AlarmsSection:
    """What somebody is told; a threshold that is unset makes no alarm."""

    topics: tuple[str, ...] = choice(
        "SNS topics that alarms go to, and their ends; none: alarms are only seen.",
        values.several(values.topic, 5),
        default=(),
        example='["arn:aws:sns:us-east-1:123456789012:oncall"]',
    )
    cache_hit_below: float | None = choice(
        "Share of requests whose archive was loaded already (ModelCacheHit): below it, instances "
        "are too few or too small.",
        values.number(0, 1),
        default=0.8,
    )
    loading_wait_above_ms: float | None = choice(
        "What a request waits for its archive on average (ModelLoadingWaitTime).",
        values.number(0),
        default=10_000,
    )
    unloading_above_ms: float | None = choice(
        "What an unload takes on average (ModelUnloadingTime).",
        values.number(0),
        default=5_000,
    )
    errors_5xx_above: float | None = choice(
        "Requests in a minute that the container could not answer (Invocation5XXErrors).",
        values.number(0),
        default=0,
    )
    errors_4xx_above: float | None = choice(
        "Requests in a minute that callers got wrong (Invocation4XXErrors).",
        values.number(0),
        default=None,
        example="100",
    )
    latency_p99_above_ms: float | None = choice(
        "The container's answer at p99 (ModelLatency).",
        values.number(0),
        default=None,
        example="250",
    )
    minutes: int = choice(
        "How many minutes in a row a threshold is passed before it is an alarm.",
        values.whole(1, 1440),
        default=5,
    )


@dataclass(frozen=True)
class DeploymentSection:
    """How an update takes over; the old instances answer until then."""

    traffic: str = choice(
        '"all-at-once", or "canary": a part first; "linear": in equal steps; "rolling": no '
        "second fleet, for types that are short.",
        values.one_of("all-at-once", "canary", "linear", "rolling"),
        default="all-at-once",
    )
    step_percent: int = choice(
        "The canary's share, or that of each step.", values.whole(5, 50), default=10
    )
    wait: int = choice(
        "How long each step is watched before the next one.", values.whole(0, 3600), default=300
    )
    termination_wait: int = choice(
        "How long the old instances stay afterwards, watched by the alarms, to go back to.",
        values.whole(0, 3600),
        default=300,
    )
    roll_back_on_alarms: bool = choice(
        "true: the alarms of errors and latency bring the old instances back while they are there. "
        "SageMaker takes no update while one of them is on: false lets a cure in.",
        values.boolean,
        default=True,
    )
    keep: int = choice(
        "How many former configurations stay for `rollback`.", values.whole(1, 20), default=5
    )


@dataclass(frozen=True)
class CostsSection:
    """For `status`: prices are yours."""

    instance_hour: float | None = choice(
        "What an instance costs in an hour; unset: hours are counted, not money.",
        values.number(0),
        default=None,
        example="1.41",
    )
    currency: str = choice("Of that price.", values.text, default="USD")


@dataclass(frozen=True)
class Config:
    """A whole CONFIG.toml."""

    endpoint: EndpointSection
    instances: InstancesSection
    container: ContainerSection = field(default_factory=ContainerSection)
    network: NetworkSection = field(default_factory=NetworkSection)
    encryption: EncryptionSection = field(default_factory=EncryptionSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    autoscaling: AutoscalingSection | None = None
    alarms: AlarmsSection = field(default_factory=AlarmsSection)
    deployment: DeploymentSection = field(default_factory=DeploymentSection)
    costs: CostsSection = field(default_factory=CostsSection)
    tags: dict[str, str] = field(default_factory=dict)


#: Of each section its class, in the order of the file; [tags] has names of your own.
SECTIONS: dict[str, type] = {
    "endpoint": EndpointSection,
    "instances": InstancesSection,
    "container": ContainerSection,
    "network": NetworkSection,
    "encryption": EncryptionSection,
    "metrics": MetricsSection,
    "autoscaling": AutoscalingSection,
    "alarms": AlarmsSection,
    "deployment": DeploymentSection,
    "costs": CostsSection,
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


def _write_section(name: str, section: type) -> str:
    # [autoscaling] is optional as a whole: with its header alone it would be incomplete.
    is_optional = name == "autoscaling"
    lines = [f"\n# {section.__doc__}", f"{'#: ' if is_optional else ''}[{name}]"]
    for key, it in choices_of(section).items():
        lines += [f"# {line}" for line in textwrap.wrap(it.reason, _COLUMNS)]
        has_default = not it.required and it.default not in (None, ())
        value = json.dumps(it.default) if has_default else it.example
        lines.append(f"{'' if it.required and not is_optional else '#: '}{key} = {value}")
    return "\n".join(lines) + "\n"
