"""Facts for the requests that only AWS knows: the image's digest, the archive that a name means."""

from __future__ import annotations

from deploy.archives.aliases import read_aliases, read_place, require_target
from deploy.aws.account import Account, Answer
from deploy.config.catalog import EcrImage, read_ecr_image
from deploy.config.sections import Config
from deploy.desired.requests import Facts
from deploy.errors import CallRefused, MissingRight
from deploy.terminal import Say


def find_facts(account: Account, config: Config, say: Say) -> Facts:
    """Raises DeployError."""
    place, single = read_place(config.endpoint.archives), config.endpoint.single_model
    url = place.archives_url
    if single is not None:
        url = place.archive_url(require_target(read_aliases(account, place), single, place))
    return Facts(find_image(account, config.endpoint.image, say), url)


def find_image(account: Account, image: str, say: Say) -> str:
    """With its digest: what runs is then known, and a tag that moves is a new image.

    As it stands where ECR does not have it, or does not tell: CreateModel will say.
    """
    found = read_ecr_image(image)
    if found is None or found.digest is not None:
        return image
    try:
        detail = find_image_detail(account, found)
    except (MissingRight, CallRefused) as error:
        say(f"the image is taken by its tag: {error}")
        return image
    if detail is None:
        say(f"the image is taken by its tag: ECR does not know {image} (yet)")
        return image
    repository = image if found.tag is None else image.removesuffix(f":{found.tag}")
    return f"{repository}@{detail['imageDigest']}"


def find_image_detail(account: Account, image: EcrImage) -> Answer | None:
    """What DescribeImages tells of an image: by its digest, or its tag, which is latest if none is
    named; None where ECR does not have it. Raises DeployError."""
    if image.digest is not None:
        by = {"imageDigest": image.digest}
    else:
        by = {"imageTag": image.tag or "latest"}
    answer = account.find(
        "ecr",
        "DescribeImages",
        registryId=image.account,
        repositoryName=image.repository,
        imageIds=[by],
    )
    detail: Answer | None = next(iter((answer or {}).get("imageDetails", ())), None)
    return detail
