"""AWS's managed policies as moto has them, read when they are first asked for.

moto makes its IAM at the first call to any service, and has 1,500 policies of 5 MB read then: half
a second and 28 MB, which most who start a control plane have no use for. The release of moto is
pinned in requirements.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar

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
