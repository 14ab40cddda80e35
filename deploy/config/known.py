"""What AWS has, as the installed botocore knows it: regions and instance types."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from functools import cache
from typing import Any

from botocore.loaders import create_loader

#: Partitions list their global services as a region of their own: aws-global.
_NO_REGION = "-global"


@cache
def loader() -> Any:
    """botocore's, one for the process: a service model takes tenths of a second to be read."""
    return create_loader()


@cache
def regions() -> frozenset[str]:
    """Of all partitions."""
    partitions = loader().load_data("partitions")["partitions"]
    return frozenset(
        name for one in partitions for name in one["regions"] if not name.endswith(_NO_REGION)
    )


@cache
def instance_types() -> frozenset[str]:
    """That an endpoint may have: ProductionVariantInstanceType of SageMaker's service model."""
    shapes = loader().load_service_model("sagemaker", "service-2")["shapes"]
    return frozenset(shapes["ProductionVariantInstanceType"]["enum"])


def nearest(name: str, known: Collection[str]) -> str:
    """For the end of a sentence: what may have been meant, and that botocore may be older."""
    near = difflib.get_close_matches(name, sorted(known), 1)
    meant = f"did you mean {near[0]}? " if near else ""
    return f"{meant}a newer one is known to a newer boto3"
