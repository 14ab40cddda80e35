"""Which host's image an instance starts with, and with it which NVIDIA driver."""

from __future__ import annotations

import pytest

from deploy.config.catalog import AMIS, choose_ami, describe_ami
from deploy.desired.requests import make_endpoint_config
from tests.support.deploy_grid import make_config

NEWEST = "al2023-ami-sagemaker-inference-gpu-4-1"


@pytest.mark.parametrize("family", ["g4dn", "g5", "p4d", "p4de"])
def test_types_that_aws_starts_with_an_old_driver(family: str) -> None:
    """One whose driver runs every base is named, and the choice is told."""
    instance_type = f"ml.{family}.24xlarge"
    assert choose_ami(instance_type, None) == NEWEST
    said = describe_ami(instance_type, None)
    assert said.startswith(
        f"instances.ami is unset, so {NEWEST} is taken (driver 580): AWS starts "
    )
    assert f"{instance_type} with driver 470" in said
    assert 'ami = "aws" leaves it to AWS' in said


@pytest.mark.parametrize("family", ["m5", "c6g", "g5g", "g6", "g6e", "p4", "p5", "p3", "inf2"])
def test_other_types_are_left_to_aws(family: str) -> None:
    """Without a GPU there is none to name; newer ones start with a newer driver."""
    assert choose_ami(f"ml.{family}.xlarge", None) is None
    assert describe_ami(f"ml.{family}.xlarge", None) == ""


@pytest.mark.parametrize("ami", [*AMIS, "aws"])
def test_what_is_configured_counts(ami: str) -> None:
    """On any type, and nothing is told of it."""
    chosen = None if ami == "aws" else ami
    for instance_type in ("ml.g5.xlarge", "ml.m5.xlarge"):
        assert choose_ami(instance_type, ami) == chosen
        assert describe_ami(instance_type, ami) == ""


@pytest.mark.parametrize(
    ("line", "named"), [("", NEWEST), (f'ami = "{AMIS[0]}"', AMIS[0]), ('ami = "aws"', None)]
)
def test_the_variant_has_it(line: str, named: str | None) -> None:
    """CreateEndpointConfig's InferenceAmiVersion."""
    config = make_config(instances=line)
    assert config.instances.type == "ml.g5.xlarge"
    (variant,) = make_endpoint_config(config, "m")["ProductionVariants"]
    assert variant.get("InferenceAmiVersion") == named
