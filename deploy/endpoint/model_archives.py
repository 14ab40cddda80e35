"""Archives that models of an endpoint have as their only one."""

from __future__ import annotations

from deploy.aws.account import Account
from deploy.wanted.names import is_ours


def find_model_archives(account: Account, endpoint_name: str) -> frozenset[str]:
    """Their URLs, of all models that `up` made and that are still there. Raises DeployError."""
    listed = account.ask_all("sagemaker", "ListModels", "Models", NameContains=f"{endpoint_name}-")
    names = [one["ModelName"] for one in listed if is_ours(endpoint_name, one["ModelName"])]
    found = (account.find("sagemaker", "DescribeModel", ModelName=name) for name in names)
    containers = (one.get("PrimaryContainer", {}) for one in found if one is not None)
    return frozenset(one["ModelDataUrl"] for one in containers if "ModelDataUrl" in one)
