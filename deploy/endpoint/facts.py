"""What only AWS knows of what an endpoint is to be: the image's digest, the archive's place."""

from __future__ import annotations

from deploy.archives.aliases import read_aliases, require_target
from deploy.archives.places import read_place
from deploy.aws.account import Account, Say
from deploy.config.config import Config
from deploy.config.ecr import read_ecr_image
from deploy.errors import CallRefused, MissingRight
from deploy.wanted.wanted import Facts


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
    tag = found.tag or "latest"
    try:
        answer = account.find(
            "ecr",
            "DescribeImages",
            registryId=found.account,
            repositoryName=found.repository,
            imageIds=[{"imageTag": tag}],
        )
    except (MissingRight, CallRefused) as error:
        say(f"the image is taken by its tag: {error}")
        return image
    if not answer or not answer["imageDetails"]:
        say(f"the image is taken by its tag: ECR does not know {image} (yet)")
        return image
    repository = image.partition("@")[0].removesuffix(f":{tag}")
    return f"{repository}@{answer['imageDetails'][0]['imageDigest']}"
