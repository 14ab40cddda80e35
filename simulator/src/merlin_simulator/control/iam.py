"""Roles that calls pass, and the policies that AWS manages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any
from urllib.parse import unquote

from merlin_simulator.control.errors import ServiceError
from merlin_simulator.errors import ACCOUNT


@contextmanager
def read_late() -> Iterator[None]:
    """IAM that is made within the block reads AWS's policies once somebody looks at them."""
    from moto.iam.models import IAMBackend

    before = IAMBackend._init_aws_policies, IAMBackend._init_managed_policies
    IAMBackend._init_aws_policies = IAMBackend._init_managed_policies = lambda _: None
    IAMBackend.aws_managed_policies = _Late("aws", before[0])
    IAMBackend.managed_policies = _Late("all", before[1])
    try:
        yield
    finally:
        IAMBackend._init_aws_policies, IAMBackend._init_managed_policies = before
        del IAMBackend.aws_managed_policies, IAMBackend.managed_policies


class _Late:
    """An attribute that is made at the first look, once for all threads."""

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self._name, self._make, self._making = f"_late_{name}", make, Lock()

    def __get__(self, owner: Any, _: type) -> Any:
        with self._making:
            if self._name not in vars(owner):
                vars(owner)[self._name] = self._make(owner)
            return vars(owner)[self._name]

    def __set__(self, owner: Any, _: None) -> None:
        """moto sets it when it begins."""


_PRINCIPAL, _ACTION = "sagemaker.amazonaws.com", "sts:AssumeRole"
#: Of a caller who is nobody in IAM here, where it has no role that SageMaker may assume.
_CALLERS = "sagemaker"


def check_role(arn: str) -> None:
    """Raise what SageMaker answers for a role that it cannot assume.

    While IAM here holds no role at all, every ARN passes: scripts that name roles of their own
    account work unchanged.
    """
    policies = _policies()
    if policies and not (arn in policies and lets_sagemaker_assume(policies[arn])):
        raise ServiceError(
            f"Could not assume role {arn}. Please ensure that the role exists and allows principal "
            f"'{_PRINCIPAL}' to assume the role."
        )


def callers_arn() -> str:
    """Of GetCallerIdentity: as in a notebook on AWS, whose role a model may be created with."""
    fit = (arn for arn, document in _policies().items() if lets_sagemaker_assume(document))
    name = next(fit, _CALLERS).rpartition("/")[2]
    return f"arn:aws:sts::{ACCOUNT}:assumed-role/{name}/simulator"


def _policies() -> dict[str, str]:
    """Each role's ARN and trust policy."""
    from moto.iam.models import iam_backends

    roles = list(iam_backends[ACCOUNT]["aws"].roles.values())
    return {role.arn: role.assume_role_policy_document for role in roles}


def lets_sagemaker_assume(document: str) -> bool:
    """Whether a role's trust policy allows SageMaker to assume it; conditions are not looked at."""
    try:
        policy = json.loads(unquote(document))
        return any(_allows(statement) for statement in _listed(policy["Statement"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return False


def _allows(statement: Mapping[str, Any]) -> bool:
    principal = statement.get("Principal", {})
    services = principal if isinstance(principal, str) else principal.get("Service", ())
    return (
        statement.get("Effect") == "Allow"
        and any(action in (_ACTION, "sts:*", "*") for action in _listed(statement["Action"]))
        and any(service in (_PRINCIPAL, "*") for service in _listed(services))
    )


def _listed(value: Any) -> Iterable[Any]:
    """Policies have one or a list of them."""
    return value if isinstance(value, list | tuple) else [value]
