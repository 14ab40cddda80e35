"""What AWS bounds is bounded here, at the same place: nothing is refused that AWS would take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from deploy.tests.support.grid import make_config
from deploy.tests.support.requests import check_config
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import ConfigurationRefused

ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/"
DIGEST = f"sha256:{'0' * 64}"
ROLE = "arn:aws:iam::123456789012:role/"
TOPIC = "arn:aws:sns:us-east-1:123456789012:"


def table(name: str, members: dict[str, str]) -> str:
    """A table of TOML."""
    return "\n".join([f"[{name}]", *(f'"{key}" = "{one}"' for key, one in members.items())])


def environment(**more: str) -> str:
    """The table [container.environment]."""
    return table("container.environment", more)


def numbered(count: int, value: str = "x") -> dict[str, str]:
    """A table of so many names."""
    return {f"n{number}": value for number in range(count)}


def network(subnets: int = 1, groups: int = 1, subnet: str = "", group: str = "") -> str:
    """A section with so many subnets and groups, or with these names."""
    given = [subnet or f"subnet-{number}" for number in range(subnets)]
    groups_given = [group or f"sg-{number}" for number in range(groups)]
    return f"[network]\nsubnets = {given}\nsecurity_groups = {groups_given}"


def topics(count: int, length: int = 10) -> str:
    """A section with so many topics."""
    return f"[alarms]\ntopics = {[TOPIC + str(n) * length for n in range(count)]}"


SCALING = "[autoscaling]\nmin = 1\n"


@pytest.mark.parametrize(
    ("most", "beyond", "expected"),
    [
        (environment(**numbered(100)), environment(**numbered(101)), "at most 100"),
        (environment(**{"a" * 1024: ""}), environment(**{"a" * 1025: ""}), "at most 1024"),
        (environment(_1="x" * 1024), environment(_1="x" * 1025), "at most 1024"),
        (environment(_1="x"), environment(**{"1_": "x"}), "no digit first"),
        (network(subnets=16), network(subnets=17), "at most 16"),
        (network(groups=5), network(groups=6), "at most 5"),
        (
            network(subnet=f"subnet-{'0' * 25}"),
            network(subnet=f"subnet-{'0' * 26}"),
            "a subnet",
        ),
        (network(group=f"sg-{'0' * 29}"), network(group=f"sg-{'0' * 30}"), "a security group"),
        (topics(5), topics(6), "at most 5"),
        (table("tags", numbered(47)), table("tags", numbered(48)), "at most 47"),
        (table("tags", {"k" * 128: ""}), table("tags", {"k" * 129: ""}), "1 to 128"),
        (table("tags", {"k": "v" * 256}), table("tags", {"k": "v" * 257}), "at most 256"),
        (table("tags", {"ä 日_.:/=+-@": "½"}), table("tags", {"a*": "x"}), "letters, digits"),
        (table("tags", {"a": "\u00a0"}), table("tags", {"a": "#"}), "letters, digits"),
        ("[metrics]\nevery = 300", "[metrics]\nevery = 301", "from 10 to 300"),
        ("[metrics]\nevery = 10", "[metrics]\nevery = 9", "from 10 to 300"),
        (
            f"[metrics]\npath = '/{'m' * 255}'",
            f"[metrics]\npath = '/{'m' * 256}'",
            "a path",
        ),
        ("[metrics]\npath = '/a.b'", "[metrics]\npath = '/a..b'", "a path"),
        ("[deployment]\nwait = 3600", "[deployment]\nwait = 3601", "from 0 to 3600"),
        (
            "[deployment]\ntermination_wait = 3600",
            "[deployment]\ntermination_wait = 3601",
            "from 0 to 3600",
        ),
        (
            SCALING + "max = 2147483647\ninvocations_per_instance = 1e100",
            SCALING + "max = 2147483648\ninvocations_per_instance = 1e100",
            "from 1 to 2147483647",
        ),
        (
            SCALING + "max = 2\ninvocations_per_instance = 1\nscale_in_cooldown = 2147483647",
            SCALING + "max = 2\ninvocations_per_instance = 1\nscale_in_cooldown = 2147483648",
            "from 0 to 2147483647",
        ),
    ],
)
def test_bounds_of_sections(most: str, beyond: str, expected: str) -> None:
    """At the bound every request is one that AWS takes; beyond it the file is refused."""
    check_config(make_config(most))
    with pytest.raises(ConfigurationRefused, match=expected):
        make_config(beyond)


@pytest.mark.parametrize(
    ("key", "most", "beyond", "expected"),
    [
        ("name", "n" * 54, "n" * 55, "1 to 54"),
        ("name", "a--b", "a-", "1 to 54"),
        (
            "image",
            f"{ECR}{'r' * 10}:{'t' * 127}@{DIGEST}",
            f"{ECR}{'r' * 11}:{'t' * 127}@{DIGEST}",
            "at most 255",
        ),
        ("image", f"{ECR}{'r' * 138}:tag", f"{ECR}{'r' * 139}:tag", "at most 183"),
        ("image", f"{ECR}rr@{DIGEST}", "two words", "an image"),
        ("role", ROLE + "r" * 2017, ROLE + "r" * 2018, "the ARN of an IAM role"),
        ("archives", f"s3://models/{'p' * 675}/", f"s3://models/{'p' * 676}/", "an S3 prefix"),
        ("archives", "s3://a.b/", "s3://a..b/", "an S3 prefix"),
        ("archives", "s3://models/a..b/", "s3://models/a", "an S3 prefix"),
    ],
)
def test_bounds_of_the_endpoint(key: str, most: str, beyond: str, expected: str) -> None:
    """What is too long, or has characters that AWS does not take."""
    check_config(make_config(**{key: most}))
    with pytest.raises(
        ConfigurationRefused, match=rf"line \d: endpoint.{key}.*expected.*{expected}"
    ):
        make_config(**{key: beyond})


@pytest.mark.parametrize(
    ("instances", "beyond", "expected"),
    [
        ("volume_gb = 512", "volume_gb = 513", "from 1 to 512"),
        ("startup_timeout = 3600", "startup_timeout = 3601", "from 60 to 3600"),
        ("download_timeout = 60", "download_timeout = 59", "from 60 to 3600"),
    ],
)
def test_bounds_of_instances(instances: str, beyond: str, expected: str) -> None:
    """Of CreateEndpointConfig."""
    check_config(make_config(instances=instances))
    with pytest.raises(ConfigurationRefused, match=expected):
        make_config(instances=beyond)


@pytest.mark.parametrize(
    "change",
    [
        lambda it: with_part(it, "container", environment=numbered(101)),
        lambda it: with_part(it, "container", environment={"a" * 1025: ""}),
        lambda it: with_part(it, "container", environment={"a": "x" * 1025}),
        lambda it: with_part(it, "container", environment={"1": ""}),
        lambda it: it.model_copy(update={"tags": numbered(48)}),
        lambda it: it.model_copy(update={"tags": {"k" * 129: ""}}),
        lambda it: it.model_copy(update={"tags": {"k": "v" * 257}}),
        lambda it: it.model_copy(update={"tags": {"a*": ""}}),
        lambda it: with_part(it, "alarms", topics=tuple(numbered(6))),
        lambda it: with_part(it, "network", subnets=tuple(numbered(17)), security_groups=("sg",)),
        lambda it: with_part(it, "network", subnets=("s",), security_groups=tuple(numbered(6))),
        lambda it: with_part(it, "network", subnets=("s" * 33,), security_groups=("sg",)),
        lambda it: with_part(it, "endpoint", name="n" * 64),
        lambda it: with_part(it, "endpoint", image="i" * 256),
        lambda it: with_part(it, "endpoint", role=ROLE + "r" * 2018),
        lambda it: with_part(it, "metrics", path="/" + "m" * 256),
        lambda it: with_part(it, "instances", count=2**31),
        lambda it: with_part(it, "instances", volume_gb=513),
        lambda it: with_part(it, "instances", type="ml.g5.xlrge"),
        lambda it: with_part(it, "encryption", volume_key="my key"),
    ],
)
def test_what_is_beyond_is_beyond_for_aws(change: Callable[[Config], Config]) -> None:
    """These bounds stand in its service models: what is read past our reader is refused by them."""
    with pytest.raises(AssertionError):
        check_config(change(make_config()))


def with_part(config: Config, part: str, **choices: Any) -> Config:
    """With other choices in one section."""
    changed = getattr(config, part).model_copy(update=choices)
    return config.model_copy(update={part: changed})


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("1234abcd-12ab-34cd-56ef-1234567890ab", True),
        ("mrk-1234abcd12ab34cd56ef1234567890ab", True),
        ("alias/recommenders", True),
        ("arn:aws:kms:eu-west-1:123456789012:alias/a", True),
        ("arn:aws-cn:kms:cn-north-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab", True),
        ("recommenders", False),
        ("alias/", False),
        ("1234abcd-12ab-34cd-56ef-1234567890a", False),
        ("arn:aws:kms:eu-west-1:123456789012:1234abcd-12ab-34cd-56ef-1234567890ab", False),
        ("arn:aws:iam::123456789012:role/r", False),
    ],
)
def test_forms_of_keys(key: str, is_one: bool) -> None:
    """The four of KMS, and no other one."""
    more = f'[encryption]\nvolume_key = "{key}"\narchives_key = "{key}"'
    if is_one:
        check_config(make_config(more))
        return
    with pytest.raises(ConfigurationRefused, match="a KMS key") as refused:
        make_config(more)
    assert len(refused.value.mistakes) == 2


def test_environment_as_a_whole_has_32_kb() -> None:
    """In bytes, with the variable that memory_reserve_mb is."""
    reserve = len("SERVE_MEMORY_RESERVE_MB1")
    full = {f"n{number:02}": "x" * 1021 for number in range(31)}
    full["last"] = "ö" * 498 + "o" * (1024 - 4 - 996 - reserve)
    fits = f"[container]\nmemory_reserve_mb = 1\n{environment(**full)}"
    check_config(make_config(fits))
    full["last"] += "o"
    with pytest.raises(ConfigurationRefused, match=r"found 32769 bytes .* at most 32768"):
        make_config(f"[container]\nmemory_reserve_mb = 1\n{environment(**full)}")
    counted = f"[container]\nmemory_reserve_mb = 1\n{environment(**numbered(100))}"
    with pytest.raises(ConfigurationRefused, match="found 101 variables"):
        make_config(counted)
