"""Pages of Describe* as Application Auto Scaling gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from merlin_simulator.control.autoscaling.names import DIMENSION, NAMESPACE, InvalidNextToken
from merlin_simulator.control.errors import ServiceError
from merlin_simulator.control.pages import page
from merlin_simulator.control.records import Record

#: AWS: at most 50 on a page, which is the default, too.
_ON_A_PAGE = 50


def about_variants(members: Mapping[str, Any]) -> bool:
    """Whether what is asked for can be found here: nothing else is registered.

    Raises ServiceError for a dimension without a resource.
    """
    dimension = members.get("ScalableDimension")
    if dimension and not (members.get("ResourceId") or members.get("ResourceIds")):
        # AWS, "DescribeScalingPolicies": the one needs the other.
        raise ServiceError(
            "If you specify a scalable dimension, you must also specify a resource ID"
        )
    return members["ServiceNamespace"] == NAMESPACE and dimension in (None, DIMENSION)


def answer(
    kind: str, found: Sequence[Record], members: Mapping[str, Any], left_out: Sequence[str] = ()
) -> Mapping[str, Any]:
    """One page. kind: the output's member; left_out: members of records that are ours alone."""
    most = members.get("MaxResults")
    most = _ON_A_PAGE if most is None else most
    if not 1 <= most <= _ON_A_PAGE:
        raise ServiceError(f"MaxResults is {most}: expected 1 to {_ON_A_PAGE}.")
    shown, token = page(found, members.get("NextToken"), most, code=InvalidNextToken.code)
    return {kind: described(shown, left_out), **({"NextToken": token} if token else {})}


def described(found: Sequence[Record], left_out: Sequence[str]) -> list[Record]:
    """Records as they are shown: without members that are ours alone."""
    return [{key: one[key] for key in one if key not in left_out} for one in found]
