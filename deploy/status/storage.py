"""What lies in S3 and in ECR for an endpoint."""

from __future__ import annotations

from deploy.archives.places import Place
from deploy.archives.table import read_aliases
from deploy.aws.account import Account
from deploy.config.ecr import read_ecr_image
from deploy.endpoint.facts import find_image_detail
from deploy.errors import Refused
from deploy.status.report import Alias, ArchivesPart


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
    found = read_ecr_image(image or "")
    if found is None:
        raise Refused("not in ECR" if image else "the image is not known")
    detail = find_image_detail(account, found)
    if detail is None:
        raise Refused("ECR does not have the image")
    return int(detail["imageSizeInBytes"])
