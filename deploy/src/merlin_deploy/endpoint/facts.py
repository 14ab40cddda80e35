"""Facts for the requests that only AWS knows: the image's digest, the archive that a name means."""

from __future__ import annotations

from merlin_deploy.archives.aliases import read_aliases, read_place, require_target
from merlin_deploy.aws.account import Account, Answer
from merlin_deploy.config.catalog import EcrImage, read_ecr_image
from merlin_deploy.config.sections import Config
from merlin_deploy.desired.requests import Facts
from merlin_deploy.errors import CallRefused, MissingRight
from merlin_deploy.terminal import Say


def find_facts(account: Account, config: Config, say: Say) -> Facts:
    """Raises DeployError. say: told why an image has no digest."""
    place, single = read_place(config.endpoint.archives), config.endpoint.single_model
    url = place.archives_url
    if single is not None:
        url = place.archive_url(require_target(read_aliases(account, place), single, place))
    return Facts(_add_digest(account, config.endpoint.image, say), url)


def describe_image(account: Account, image: EcrImage) -> Answer | None:
    """DescribeImages' item, by digest or tag; None if ECR does not have it. Raises DeployError."""
    if image.digest is not None:
        image_id = {"imageDigest": image.digest}
    else:
        image_id = {"imageTag": image.tag or "latest"}
    answer = account.find(
        "ecr",
        "DescribeImages",
        registryId=image.account,
        repositoryName=image.repository,
        imageIds=[image_id],
    )
    detail: Answer | None = next(iter((answer or {}).get("imageDetails", ())), None)
    return detail


def _add_digest(account: Account, image: str, say: Say) -> str:
    """The image by its digest: then it is known what runs, and a tag that moves is a new image.

    Unchanged if ECR does not have it or does not tell: CreateModel's answer will say why.
    """
    ecr_image = read_ecr_image(image)
    if ecr_image is None or ecr_image.digest is not None:
        return image
    try:
        detail = describe_image(account, ecr_image)
    except (MissingRight, CallRefused) as error:
        say(f"the image is taken by its tag: {error}")
        return image
    if detail is None:
        say(f"the image is taken by its tag: ECR does not know {image} (yet)")
        return image
    repository = image if ecr_image.tag is None else image.removesuffix(f":{ecr_image.tag}")
    return f"{repository}@{detail['imageDigest']}"
