"""What the policies allow and what they do not, by IAM's own way to decide; and the calls."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from deploy.tests.support.cfn_lint import lint_template, read_actions
from deploy.tests.support.grid import make_config, make_grid
from examples.tenants.iam import as_list, is_allowed
from merlin_deploy.config.catalog import regions
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import Refused
from merlin_deploy.policies import (
    Location,
    make_deployer_policy,
    make_location,
    make_role_policy,
    make_tenant_policy,
    make_trust_policy,
)

WHERE = Location("aws", "us-east-1", "123456789012")
SAGEMAKER = "arn:aws:sagemaker:us-east-1:123456789012"
ENDPOINT = f"{SAGEMAKER}:endpoint/shop"
#: Resources of which an endpoint's have none: its metrics lie in no data set.
OUTSIDE = {"dataset"}
#: Of a managed policy, without blanks.
MOST_CHARACTERS = 6144


@pytest.mark.parametrize(
    ("target", "is_given"),
    [
        ("shop-a/1.tar.gz", True),
        ("shop-a/0123/model.tar.gz", True),
        ("shop-b/1.tar.gz", False),
        ("shop-a-evil/1.tar.gz", False),
        ("Shop-a/1.tar.gz", False),
        ("x/shop-a/1.tar.gz", False),
        ("shop-a/../shop-b/1.tar.gz", False),
        ("shop-a", False),
    ],
)
def test_a_tenant_has_one_names_archives_asked(target: str, is_given: bool) -> None:
    """Those in its folder, and none that a path or a longer name leads to."""
    policy = make_tenant_policy(make_config(), WHERE, "shop-a", aliases=False)
    allowed = is_allowed(
        policy, "sagemaker:InvokeEndpoint", ENDPOINT, sagemaker__TargetModel=target
    )
    assert allowed is is_given


@pytest.mark.parametrize("name", ["*", "a?c", "${aws:username}", "shop_a", "$", "a b"])
def test_a_tenant_whose_name_has_characters_of_iam(name: str) -> None:
    """They stand for themselves."""
    policy = make_tenant_policy(make_config(), WHERE, name, aliases=False)
    invoke = "sagemaker:InvokeEndpoint"
    own = f"{name}/0123456789abcdef.tar.gz"
    assert is_allowed(policy, invoke, ENDPOINT, sagemaker__TargetModel=own)
    for other in ("abc/1.tar.gz", "b/1.tar.gz", f"x{own}"):
        assert not is_allowed(policy, invoke, ENDPOINT, sagemaker__TargetModel=other)
    (pattern,) = (it["Condition"]["StringLike"].values() for it in policy["Statement"][:1])
    assert "${aws" not in str(pattern)


def test_a_tenant_has_nothing_else() -> None:
    """No request without TargetModel, no stream, no other endpoint, no archive, and aliases only
    where that was asked for."""
    config = make_config()
    policy = make_tenant_policy(config, WHERE, "shop-a", aliases=False)
    target = {"sagemaker__TargetModel": "shop-a/1.tar.gz"}
    invoke = "sagemaker:InvokeEndpoint"
    assert not is_allowed(policy, invoke, ENDPOINT)
    assert not is_allowed(policy, invoke, f"{ENDPOINT}-2", **target)
    assert not is_allowed(policy, f"{invoke}WithResponseStream", ENDPOINT, **target)
    aliases = "arn:aws:s3:::models/shop/aliases.json"
    assert not is_allowed(policy, "s3:GetObject", aliases)
    wider = make_tenant_policy(config, WHERE, "shop-a", aliases=True)
    assert is_allowed(wider, "s3:GetObject", aliases)
    assert not is_allowed(
        wider, "s3:GetObject", "arn:aws:s3:::models/shop/archives/shop-a/1.tar.gz"
    )


def test_a_single_model_endpoint_has_no_tenants() -> None:
    """Its requests have no TargetModel: a condition on it would lock everybody out."""
    with pytest.raises(Refused, match="single_model"):
        make_tenant_policy(make_config(single_model="shop-a"), WHERE, "shop-a", aliases=False)


def test_the_role_reads_archives_of_its_prefix_alone() -> None:
    """Neither aliases nor what lies beside them, and it writes nothing into the bucket."""
    policy = make_role_policy(make_config(), WHERE)
    objects = "arn:aws:s3:::models/shop/archives/shop-a/1.tar.gz"
    assert is_allowed(policy, "s3:GetObject", objects)
    assert not is_allowed(policy, "s3:PutObject", objects)
    assert not is_allowed(policy, "s3:GetObject", "arn:aws:s3:::models/shop/aliases.json")
    report = "arn:aws:s3:::models/shop/comparisons/shop-a/1.json"
    assert not is_allowed(policy, "s3:GetObject", report)
    assert not is_allowed(policy, "s3:GetObject", "arn:aws:s3:::models/other/archives/a.tar.gz")
    for prefix, is_given in (
        ("shop/archives/", True),
        ("shop/archives", True),
        ("shop/archives-old/", False),
        ("", False),
    ):
        listed = is_allowed(policy, "s3:ListBucket", "arn:aws:s3:::models", s3__prefix=prefix)
        assert listed is is_given


def test_the_role_has_rights_of_what_is_configured_only() -> None:
    """Network interfaces with [network], keys with [encryption]."""
    plain = actions(make_role_policy(make_config(), WHERE))
    assert not {action.partition(":")[0] for action in plain} & {"ec2", "kms"}
    for config in make_grid().values():
        services = {item.partition(":")[0] for item in actions(make_role_policy(config, WHERE))}
        assert ("ec2" in services) is bool(config.network.subnets)
        assert ("kms" in services) is (config.encryption.archives_key is not None)


def test_keys_by_alias_are_known_by_their_alias() -> None:
    """IAM does not resolve an alias in a resource: it compares the aliases of the key."""
    config = make_config('[encryption]\narchives_key = "alias/shop"')
    policy = make_role_policy(config, WHERE)
    key = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
    through_s3 = {"kms__ViaService": "s3.us-east-1.amazonaws.com"}
    assert is_allowed(policy, "kms:Decrypt", key, kms__ResourceAliases="alias/shop", **through_s3)
    assert not is_allowed(policy, "kms:Decrypt", key, kms__ResourceAliases="alias/b", **through_s3)
    assert not is_allowed(policy, "kms:Decrypt", key, kms__ResourceAliases="alias/shop")


def test_a_tenant_that_may_read_the_table_may_decrypt_it() -> None:
    """And one that may not has no right of the key."""
    config = make_config('[encryption]\narchives_key = "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"')
    key = "arn:aws:kms:us-east-1:123456789012:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
    through_s3 = {"kms__ViaService": "s3.us-east-1.amazonaws.com"}
    for aliases in (True, False):
        policy = make_tenant_policy(config, WHERE, "shop-a", aliases=aliases)
        assert is_allowed(policy, "kms:Decrypt", key, **through_s3) is aliases


def test_the_deployer_deletes_archives_alone() -> None:
    """And their reports; not the table."""
    policy = make_deployer_policy(make_config(), WHERE)
    bucket = "arn:aws:s3:::models"
    assert is_allowed(policy, "s3:DeleteObject", f"{bucket}/shop/archives/a/0.tar.gz")
    assert is_allowed(policy, "s3:DeleteObject", f"{bucket}/shop/comparisons/a/0.json")
    assert not is_allowed(policy, "s3:DeleteObject", f"{bucket}/shop/aliases.json")
    assert is_allowed(policy, "s3:PutObject", f"{bucket}/shop/aliases.json")


def test_the_deployer_has_this_endpoint_alone() -> None:
    """Its models, its alarms, its role, which it passes to SageMaker and to nobody else."""
    policy = make_deployer_policy(make_config(), WHERE)
    assert is_allowed(policy, "sagemaker:CreateModel", f"{SAGEMAKER}:model/shop-0123abcd")
    assert not is_allowed(policy, "sagemaker:CreateModel", f"{SAGEMAKER}:model/other-0123abcd")
    assert not is_allowed(policy, "sagemaker:DeleteEndpoint", f"{SAGEMAKER}:endpoint/shop-2")
    alarms = "arn:aws:cloudwatch:us-east-1:123456789012:alarm"
    assert is_allowed(policy, "cloudwatch:DeleteAlarms", f"{alarms}:shop/errors-5xx")
    assert not is_allowed(policy, "cloudwatch:DeleteAlarms", f"{alarms}:shop-2/errors-5xx")
    role = "arn:aws:iam::123456789012:role/service/sagemaker"
    to = {"iam__PassedToService": "sagemaker.amazonaws.com"}
    assert is_allowed(policy, "iam:PassRole", role, **to)
    assert not is_allowed(policy, "iam:PassRole", f"{role}-admin", **to)
    assert not is_allowed(policy, "iam:PassRole", role, iam__PassedToService="lambda.amazonaws.com")


def test_names_are_also_in_lower_case() -> None:
    """As SageMaker writes them into ARNs."""
    policy = make_tenant_policy(make_config(name="Shop"), WHERE, "shop-a", aliases=False)
    target = {"sagemaker__TargetModel": "shop-a/1.tar.gz"}
    for name in ("shop", "Shop"):
        resource = f"{SAGEMAKER}:endpoint/{name}"
        assert is_allowed(policy, "sagemaker:InvokeEndpoint", resource, **target)


@pytest.mark.slow
def test_actions_are_real_and_wildcards_are_where_nothing_else_is_possible() -> None:
    """No action has an asterisk. A resource is * only for actions that know no resources, by the
    list of IAM's actions that cfn-lint has."""
    for config in make_grid().values():
        for policy in all_policies(config):
            for statement in policy["Statement"]:
                for action in statement["Action"]:
                    service, _, name = action.partition(":")
                    known = read_actions()[service]["Actions"][name.lower()]
                    resources = set(known.get("Resources", ())) - OUTSIDE
                    assert (statement["Resource"] == "*") is not bool(resources), action


@pytest.mark.slow
def test_cfn_lint_accepts_the_policies_and_iam_their_length() -> None:
    """As managed policies of a template; the longest names that there may be are among them."""
    long = make_config(
        name="s" * 54,
        archives=f"s3://{'b' * 63}/{'p' * 40}/",
        role=f"arn:aws:iam::123456789012:role/{'r' * 64}",
    )
    grid = list(make_grid().values())
    for config in (grid[0], grid[-1], long):
        policies = list(all_policies(config))
        resources = {
            f"Policy{number}": {
                "Type": "AWS::IAM::ManagedPolicy",
                "Properties": {"PolicyDocument": policy},
            }
            for number, policy in enumerate(policies)
        }
        assert lint_template({"Resources": resources}) == []
        for policy in policies:
            assert len(json.dumps(policy, separators=(",", ":"))) <= MOST_CHARACTERS


def test_only_sagemaker_takes_the_role() -> None:
    """The trust policy names its service, in every partition."""
    (statement,) = make_trust_policy()["Statement"]
    assert statement["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert statement["Action"] == "sts:AssumeRole"


def test_partitions_are_those_of_botocore() -> None:
    """Of all regions that it knows; ARNs begin with them, and with the role's account."""
    session = boto3.Session()
    for partition in session.get_available_partitions():
        for region in session.get_available_regions("ec2", partition_name=partition):
            assert regions()[region].name == partition
    role = "arn:aws-cn:iam::210987654321:role/sagemaker"
    where = make_location(make_config(role=role), "cn-north-1")
    assert where == Location("aws-cn", "cn-north-1", "210987654321")


def all_policies(config: Config) -> Iterator[dict[str, Any]]:
    """The policies of a configuration."""
    yield make_role_policy(config, WHERE)
    yield make_deployer_policy(config, WHERE)
    if config.endpoint.single_model is None:
        yield make_tenant_policy(config, WHERE, "shop-a", aliases=True)


def actions(policy: dict[str, Any]) -> set[str]:
    """The actions that a policy names."""
    return {item for statement in policy["Statement"] for item in as_list(statement["Action"])}


ROOT = Path(__file__).parents[3]
CALLS = {"ask", "find", "find_body", "ask_all", "ask_pieces", "change", "remove"}
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
        policy = make_deployer_policy(config, Location("aws", "us-east-1", "123456789012"))
        allowed |= {action for item in policy["Statement"] for action in item["Action"]}
    asked = set(rights())
    assert asked - allowed == set()
    assert allowed - asked - BEHIND == set()


def rights() -> Iterator[str]:
    """That the code's calls need."""
    for path in sorted((ROOT / "deploy/src").rglob("*.py")):
        # Where calls are carried out they have no names.
        tree = ast.parse(path.read_text())
        names = dict(constants(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and is_call_of_aws(node):
                service, operation = (text(item, names) for item in node.args[:2])
                for item in BUILT.get(operation, (operation,)):
                    right = f"{service.removesuffix('-runtime')}:{item}"
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
