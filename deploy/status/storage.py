"""What lies in S3 and in ECR for an endpoint."""

from __future__ import annotations

import re

from deploy.archives.aliases import read_aliases
from deploy.archives.places import Place
from deploy.aws.account import Account
from deploy.errors import Refused
from deploy.status.report import Alias, ArchivesPart

_ECR = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr\.[a-z0-9\-]+\.amazonaws\.com(?:\.cn)?/"
    r"(?P<repository>[^:@\s]+)(?::(?P<tag>[^@\s]+))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


def gather_archives(account: Account, place: Place) -> ArchivesPart:
    """Newest versions alone: what a bucket keeps besides is not seen. Raises DeployError."""
    listed = account.ask_all(
        "s3", "ListObjectsV2", "Contents", Bucket=place.bucket, Prefix=place.archives_prefix
    )
    sizes = {one["Key"].removeprefix(place.archives_prefix): int(one["Size"]) for one in listed}
    named = read_aliases(account, place)
    aliases = tuple(
        Alias(name, target, target in sizes)
        for name in sorted(named.targets)
        if (target := named.find(name)) is not None
    )
    return ArchivesPart(
        count=len(sizes),
        bytes=sum(sizes.values()),
        without_alias=len(set(sizes) - {alias.target for alias in aliases}),
        aliases=aliases,
    )


def find_image_bytes(account: Account, image: str | None) -> int:
    """As ECR bills them: compressed. Raises DeployError."""
    found = _ECR.fullmatch(image or "")
    if found is None:
        raise Refused("not in ECR" if image else "the image is not known")
    by = {"imageDigest": found["digest"]} if found["digest"] else {"imageTag": found["tag"]}
    answer = account.find(
        "ecr",
        "DescribeImages",
        registryId=found["account"],
        repositoryName=found["repository"],
        imageIds=[{name: value or "latest" for name, value in by.items()}],
    )
    if not answer or not answer["imageDetails"]:
        raise Refused("ECR does not have the image")
    return int(answer["imageDetails"][0]["imageSizeInBytes"])
