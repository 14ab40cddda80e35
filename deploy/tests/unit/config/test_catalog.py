"""Host images with their drivers, and images of ECR."""

from __future__ import annotations

import pytest

from deploy.tests.support.grid import make_config
from merlin_deploy.config.catalog import AMIS, EcrImage, choose_ami, describe_ami, read_ecr_image
from merlin_deploy.desired import make_endpoint_config
from merlin_deploy.errors import ConfigurationRefused

NEWEST = "al2023-ami-sagemaker-inference-gpu-4-1"


@pytest.mark.parametrize("family", ["g4dn", "g5", "p4d", "p4de"])
def test_types_that_aws_starts_with_an_old_driver(family: str) -> None:
    """One whose driver runs every base is named, and the choice is told."""
    instance_type = f"ml.{family}.24xlarge"
    assert choose_ami(instance_type, None) == NEWEST
    sentence = describe_ami(instance_type, None)
    assert sentence.startswith(
        f"instances.ami is unset, so {NEWEST} is taken (driver 580): AWS starts "
    )
    assert f"{instance_type} with driver 470" in sentence
    assert 'ami = "aws" leaves it to AWS' in sentence


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


HOST = "123456789012.dkr.ecr.us-east-1.amazonaws.com"
DIGEST = f"sha256:{'01' * 32}"


@pytest.mark.parametrize(
    ("image", "region", "repository", "tag", "digest"),
    [
        (f"{HOST}/merlin", "us-east-1", "merlin", None, None),
        (f"{HOST}/team/merlin:1", "us-east-1", "team/merlin", "1", None),
        (f"{HOST}/merlin@{DIGEST}", "us-east-1", "merlin", None, DIGEST),
        (f"{HOST}/mer--lin:1@{DIGEST}", "us-east-1", "mer--lin", "1", DIGEST),
        *(
            (f"123456789012.dkr{host}/merlin:1", region, "merlin", "1", None)
            for host, region in (
                (".ecr.cn-north-1.amazonaws.com.cn", "cn-north-1"),
                (".ecr-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"),
                (".ecr.eusc-de-east-1.amazonaws.eu", "eusc-de-east-1"),
                (".ecr.us-iso-east-1.c2s.ic.gov", "us-iso-east-1"),
                ("-ecr.eu-west-1.on.aws", "eu-west-1"),
            )
        ),
    ],
)
def test_an_image_of_ecr(
    image: str, region: str, repository: str, tag: str | None, digest: str | None
) -> None:
    """In each partition: its parts, which make the same image again."""
    read = read_ecr_image(image)
    assert read == EcrImage(
        image.partition("/")[0], "123456789012", region, repository, tag, digest
    )
    assert str(read) == image


@pytest.mark.parametrize(
    "image",
    [
        "",
        "merlin:1",
        "127.0.0.1:5000/merlin:1",
        "ghcr.io/a/merlin:1",
        "public.ecr.aws/a/merlin:1",
        f"https://{HOST}/merlin:1",
        f"{HOST}:443/merlin:1",
        HOST,
        f"{HOST}/",
        f"{HOST}/Merlin:1",
        f"{HOST}/a//b",
        f"{HOST}/merlin:",
        f"{HOST}/merlin:.1",
        f"{HOST}/merlin@{DIGEST[:-1]}",
        f"{HOST}/merlin@{DIGEST}:1",
        f"{HOST}/merlin:1 ",
        f"{HOST}/merlin:1\n",
        f"1{HOST}/merlin:1",
        "123456789012.dkr.ecr.us-eats-1.amazonaws.com/merlin:1",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com.cn/merlin:1",
        "123456789012.dkr.ecr.us-east-1.example.com/merlin:1",
    ],
)
def test_no_image_of_ecr(image: str) -> None:
    """CONFIG.toml is refused where it names one: SageMaker's instances could not pull it."""
    assert read_ecr_image(image) is None
    with pytest.raises(ConfigurationRefused, match=r"line 3: endpoint.image: .*expected an image"):
        make_config(image=image.replace("\n", "\\n"))
