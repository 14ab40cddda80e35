"""Models and configurations of an endpoint that nothing leads back to."""

from __future__ import annotations

from collections.abc import Collection

from deploy.aws.account import Account, Say
from deploy.endpoint.history import digest_of
from deploy.endpoint.state import find_deployed, is_tagged
from deploy.wanted.names import is_ours


def prune(account: Account, endpoint_name: str, say: Say) -> None:
    """Remove what neither the endpoint nor its history has."""
    deployed = find_deployed(account, endpoint_name)
    if deployed is None:
        return
    remove_configs(account, endpoint_name, {*deployed.history.digests, deployed.digest}, say)


def remove_configs(
    account: Account, endpoint_name: str, kept_digests: Collection[str], say: Say
) -> None:
    """Configurations of other digests go, and models that no kept configuration has.

    What others made stays, whatever its name is: shop-20261125 looks like a digest of ours.
    """
    kept_models: set[str] = set()
    for name, arn in _listed(account, endpoint_name, "EndpointConfig"):
        if digest_of(name) in kept_digests:
            found = account.find("sagemaker", "DescribeEndpointConfig", EndpointConfigName=name)
            kept_models |= {one["ModelName"] for one in (found or {}).get("ProductionVariants", ())}
        elif is_tagged(account, arn, endpoint_name) and account.remove(
            "sagemaker", "DeleteEndpointConfig", EndpointConfigName=name
        ):
            say(f"endpoint configuration {name}: removed")
    for name, arn in _listed(account, endpoint_name, "Model"):
        if (
            name not in kept_models
            and is_tagged(account, arn, endpoint_name)
            and account.remove("sagemaker", "DeleteModel", ModelName=name)
        ):
            say(f"model {name}: removed")


def _listed(account: Account, endpoint_name: str, what: str) -> list[tuple[str, str]]:
    """Names and ARNs."""
    listed = account.ask_all(
        "sagemaker", f"List{what}s", f"{what}s", NameContains=f"{endpoint_name}-"
    )
    return [
        (one[f"{what}Name"], one[f"{what}Arn"])
        for one in listed
        if is_ours(endpoint_name, one[f"{what}Name"])
    ]
