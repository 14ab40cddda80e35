"""A tenant: may have one name's archives asked, and no other's.

SageMaker compares the request's TargetModel (sagemaker:TargetModel, "Multi-Model Endpoint
Security" in its guide) before the container sees it. A request without TargetModel matches nothing
and is refused. InvokeEndpointWithResponseStream has no TargetModel, and is not given.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from deploy.config.config import Config
from deploy.errors import Refused
from deploy.policies.arns import Where, aliases_arn, endpoint_arns
from deploy.policies.statements import (
    Document,
    Statement,
    allow,
    allow_key,
    make_document,
    through_s3,
)

_TARGET = "sagemaker:TargetModel"


def make_tenant_policy(config: Config, where: Where, name: str, *, aliases: bool) -> Document:
    """name: a name of `put --as`, which a folder of archives has, as its reader has checked it.

    aliases: it may read the table of aliases, which has every tenant's names. Raises Refused.
    """
    if config.endpoint.single_model is not None:
        raise Refused(
            f"the endpoint {config.endpoint.name} has one archive (endpoint.single_model is "
            f"{config.endpoint.single_model}): whoever may invoke it, asks that one; tenants need "
            "a multi-model endpoint, or an endpoint each"
        )
    return make_document(_make_statements(config, where, name, aliases))


def _make_statements(config: Config, where: Where, name: str, aliases: bool) -> Iterator[Statement]:
    endpoint = endpoint_arns(config, where)
    yield allow(
        "Invoke",
        ["sagemaker:InvokeEndpoint"],
        endpoint,
        {"StringLike": {_TARGET: f"{_literal(name)}/*"}},
    )
    # The asterisk matches slashes and dots, too: no path leads out of the folder.
    yield {
        "Sid": "StayInside",
        "Effect": "Deny",
        "Action": ["sagemaker:InvokeEndpoint"],
        "Resource": endpoint,
        "Condition": {"StringLike": {_TARGET: "*..*"}},
    }
    if aliases:
        yield allow("ResolveAliases", ["s3:GetObject"], aliases_arn(config, where))
        # `put` encrypts the table, too.
        if (key := config.encryption.archives_key) is not None:
            yield allow_key("DecryptAliases", ["kms:Decrypt"], key, where, through_s3(where))


def _literal(name: str) -> str:
    """As StringLike reads it: IAM's own characters stand in ${}."""
    return re.sub(r"[*?$]", r"${\g<0>}", name)
