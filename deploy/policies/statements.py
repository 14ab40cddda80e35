"""Documents of IAM, and the statements that they have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deploy.policies.arns import Where

Statement = dict[str, Any]
Document = dict[str, Any]


def make_document(statements: Iterable[Statement]) -> Document:
    """A policy."""
    return {"Version": "2012-10-17", "Statement": list(statements)}


def allow(
    sid: str,
    actions: Sequence[str],
    resources: str | Sequence[str],
    condition: Mapping[str, Mapping[str, Any]] | None = None,
) -> Statement:
    """One that allows; sid: what for."""
    made: Statement = {
        "Sid": sid,
        "Effect": "Allow",
        "Action": list(actions),
        "Resource": resources if isinstance(resources, str) else list(resources),
    }
    return made if condition is None else {**made, "Condition": dict(condition)}


def allow_key(
    sid: str,
    actions: Sequence[str],
    key: str,
    where: Where,
    condition: Mapping[str, Mapping[str, Any]],
) -> Statement:
    """Of a KMS key by its id, alias or ARN.

    IAM knows keys, not their aliases: one that is named by an alias is any key that has it
    (kms:ResourceAliases).
    """
    name = key.rpartition(":")[2]
    if name.startswith("alias/"):
        alias = {"ForAnyValue:StringEquals": {"kms:ResourceAliases": name}}
        return allow(sid, actions, where.make_arn("kms", "key/*"), {**alias, **condition})
    arn = key if key.startswith("arn:") else where.make_arn("kms", f"key/{name}")
    return allow(sid, actions, arn, condition)


def through_s3(where: Where) -> dict[str, Any]:
    """Of a key that is used for objects alone."""
    # China's services have addresses of amazonaws.com.cn.
    return {"StringLike": {"kms:ViaService": f"s3.{where.region}.amazonaws.com*"}}


#: A grant that a service makes for itself, such as for a disk.
FOR_A_SERVICE = {"Bool": {"kms:GrantIsForAWSResource": "true"}}
