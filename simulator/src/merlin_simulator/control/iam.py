"""Roles that calls pass, and the policies that AWS manages."""

from __future__ import annotations

import json
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from merlin_simulator.control.errors import ServiceError

_Made = TypeVar("_Made")


@contextmanager
def read_late() -> Iterator[None]:
    """IAM that is made within the block has them once somebody looks."""
    from moto.iam.models import IAMBackend

    before = IAMBackend._init_aws_policies, IAMBackend._init_managed_policies
    IAMBackend._init_aws_policies = lambda iam: _Late(partial(before[0], iam))
    IAMBackend._init_managed_policies = lambda iam: _LateByArn(iam.aws_managed_policies)
    try:
        yield
    finally:
        IAMBackend._init_aws_policies, IAMBackend._init_managed_policies = before


class _Late(Sequence[Any]):
    """A list that is made when it is first looked at."""

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        self._made = _Once(make)

    def __getitem__(self, which: Any) -> Any:
        return self._made.value[which]

    def __len__(self) -> int:
        return len(self._made.value)

    def __add__(self, more: list[Any]) -> list[Any]:
        return self._made.value + more


class _LateByArn(UserDict[str, Any]):
    """All policies by their ARNs: AWS's, and then those of the user."""

    def __init__(self, policies: _Late) -> None:
        self._made = _Once(lambda: {policy.arn: policy for policy in policies})

    @property
    def data(self) -> dict[str, Any]:  # type: ignore[override]
        return self._made.value


class _Once(Generic[_Made]):
    """What is made at the first look, once for all threads."""

    def __init__(self, make: Callable[[], _Made]) -> None:
        self._make, self._making = make, Lock()
        self._made: _Made | None = None

    @property
    def value(self) -> _Made:
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made


_PRINCIPAL, _ACTION = "sagemaker.amazonaws.com", "sts:AssumeRole"
_ACCOUNT = "123456789012"


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
    return f"arn:aws:sts::{_ACCOUNT}:assumed-role/{name}/simulator"


def _policies() -> dict[str, str]:
    """Each role's ARN and trust policy."""
    from moto.iam.models import iam_backends

    roles = list(iam_backends[_ACCOUNT]["aws"].roles.values())
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
