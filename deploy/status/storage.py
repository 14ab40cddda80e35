"""What lies in S3 and in ECR for an endpoint."""

from __future__ import annotations

from collections.abc import Mapping

from deploy.archives.aliases import Aliases
from deploy.archives.places import Place
from deploy.archives.stored import Stored, find_stored
from deploy.archives.table import read_aliases
from deploy.aws.account import Account
from deploy.config.ecr import read_ecr_image
from deploy.endpoint.facts import find_image_detail
from deploy.errors import Refused
from deploy.status.report import Alias, ArchivesPart


def gather_archives(account: Account, place: Place) -> ArchivesPart:
    """Newest versions alone: what a bucket keeps besides is not seen. Raises DeployError."""
    return make_archives(read_aliases(account, place), find_stored(account, place))


def make_archives(named: Aliases, stored: Mapping[str, Stored]) -> ArchivesPart:
    """No I/O. stored: by TargetModel."""
    aliases = tuple(
        Alias(name, target, target in stored)
        for name in sorted(named.targets)
        if (target := named.find(name)) is not None
    )
    meant = {alias.target for alias in aliases}
    return ArchivesPart(
        count=len(stored),
        bytes=sum(one.size for one in stored.values()),
        former=len(stored.keys() & named.mentioned - meant),
        without_alias=len(stored.keys() - named.mentioned),
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
