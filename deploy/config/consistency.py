"""What two choices cannot be together."""

from __future__ import annotations

from collections.abc import Iterator

from deploy.config.config import Config

#: Application Auto Scaling's own tags begin so, and no tag of an account may.
_RESERVED = "aws:"
_MOST_TAGS = 50 - 3


def find_contradictions(config: Config) -> Iterator[tuple[str, str, str]]:
    """(section, key, sentence) of each."""
    network, scaling = config.network, config.autoscaling
    if bool(network.subnets) != bool(network.security_groups):
        yield (
            "network",
            "subnets" if network.subnets else "security_groups",
            "subnets and security_groups are given together or not at all",
        )
    if scaling is not None and scaling.min > scaling.max:
        yield "autoscaling", "min", f"min is {scaling.min}, more than max, which is {scaling.max}"
    if scaling is not None and not scaling.min <= config.instances.count <= scaling.max:
        yield (
            "instances",
            "count",
            f"count is {config.instances.count}, expected a number from autoscaling.min to "
            f"autoscaling.max ({scaling.min} to {scaling.max})",
        )
    if not config.container.model_cache and config.endpoint.single_model:
        yield (
            "container",
            "model_cache",
            "model_cache is about multi-model endpoints, and endpoint.single_model is given",
        )
    yield from _of_environment(config)
    yield from _of_tags(config)


def _of_environment(config: Config) -> Iterator[tuple[str, str, str]]:
    variables = config.container.environment or {}
    reserve = "SERVE_MEMORY_RESERVE_MB"
    if reserve in variables and config.container.memory_reserve_mb is not None:
        yield "container", "environment", f"{reserve} and memory_reserve_mb are both given"
    for name in ("SAGEMAKER_MULTI_MODEL", "SAGEMAKER_BIND_TO_PORT"):
        if name in variables:
            yield "container", "environment", f"{name} is SageMaker's own to set; leave it out"


def _of_tags(config: Config) -> Iterator[tuple[str, str, str]]:
    if len(config.tags) > _MOST_TAGS:
        yield "tags", "", f"found {len(config.tags)} tags, expected at most {_MOST_TAGS}"
    for name in config.tags:
        if name.lower().startswith(_RESERVED):
            yield "tags", name, f"found the tag {name}: names with {_RESERVED} are AWS's own"
