"""The deployer's policy against the calls that stand in the code of deploy/."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from deploy.documents.iam import Where
from deploy.documents.policies import make_deployer_policy
from tests.support.deploy_grid import make_grid

ROOT = Path(__file__).parents[4]
CALLS = {"ask", "find", "find_body", "ask_all", "change", "remove"}
#: Names that are put together, and what comes out.
BUILT = {"List{what}s": ("ListModels", "ListEndpointConfigs")}
#: Operations whose right has another name; none is needed to ask who one is.
RIGHTS = {
    "s3:CompleteMultipartUpload": {"s3:PutObject"},
    "s3:CreateMultipartUpload": {"s3:PutObject"},
    "s3:HeadObject": {"s3:GetObject"},
    "s3:ListMultipartUploads": {"s3:ListBucketMultipartUploads"},
    "s3:ListObjectsV2": {"s3:ListBucket"},
    "s3:UploadPart": {"s3:PutObject"},
    "sts:GetCallerIdentity": set[str](),
}
#: What S3, Docker's push and the services themselves ask for on the way, with the
#: caller's rights.
BEHIND = {
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
    "iam:CreateServiceLinkedRole",
    "iam:PassRole",
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:GenerateDataKey",
    "sagemaker:InvokeEndpoint",
}


def test_the_deployer_may_do_what_the_code_asks_and_no_more() -> None:
    """Each call of the code is allowed; each right is of a call, or of what stands behind one."""
    allowed: set[str] = set()
    for config in make_grid().values():
        policy = make_deployer_policy(config, Where("aws", "us-east-1", "123456789012"))
        allowed |= {action for one in policy["Statement"] for action in one["Action"]}
    asked = set(rights())
    assert asked - allowed == set()
    assert allowed - asked - BEHIND == set()


def rights() -> Iterator[str]:
    """That the code's calls need."""
    for path in sorted((ROOT / "deploy").rglob("*.py")):
        # Where calls are carried out they have no names.
        tree = ast.parse(path.read_text())
        names = dict(constants(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and is_call_of_aws(node):
                service, operation = (text(one, names) for one in node.args[:2])
                for one in BUILT.get(operation, (operation,)):
                    right = f"{service.removesuffix('-runtime')}:{one}"
                    yield from RIGHTS.get(right, {right})


def is_call_of_aws(node: ast.Call) -> bool:
    """account.ask("sagemaker", "DescribeEndpoint", …), and its likes."""
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in CALLS
        and len(node.args) >= 2
        # The account's own methods pass on what they were asked for.
        and not (isinstance(node.args[0], ast.Name) and node.args[0].id == "service")
    )


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Strings that have a name in a file."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            yield ast.unparse(node.targets[0]), str(node.value.value)


def text(node: ast.expr, names: dict[str, str]) -> str:
    """A string as it stands in the code; what is filled in as {name}."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return ast.unparse(node)[2:-1]
    return names[ast.unparse(node)]
