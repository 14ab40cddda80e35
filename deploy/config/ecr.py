"""Images of ECR, taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

_IMAGE = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9\-]+)\.amazonaws\.com(\.cn)?/"
    r"(?P<repository>[^:@\s]+)(:(?P<tag>[^@\s]+))?(@(?P<digest>\S+))?"
)


@dataclass(frozen=True)
class EcrImage:
    """tag: None where the image names none. digest: likewise, with its sha256: in front."""

    account: str
    region: str
    repository: str
    tag: str | None
    digest: str | None


def read_ecr_image(image: str) -> EcrImage | None:
    """None for an image of another registry."""
    found = _IMAGE.fullmatch(image)
    if found is None:
        return None
    return EcrImage(
        found["account"], found["region"], found["repository"], found["tag"], found["digest"]
    )
