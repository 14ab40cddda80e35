"""`policy CONFIG.toml`: the least rights of IAM, for whom they are."""

from __future__ import annotations

import argparse
import json
from typing import Any

from deploy.commands.options import add_config, open_account
from deploy.config.config import Config
from deploy.config.reading import read_config
from deploy.config.values import archive_name
from deploy.errors import Refused
from deploy.policies.arns import Where, make_where
from deploy.policies.deployer import make_deployer_policy
from deploy.policies.role import make_role_policy, make_trust_policy
from deploy.policies.tenant import make_tenant_policy

_WHOM = ("trust", "role", "deploy", "tenant")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`policy` and its options."""
    parser = commands.add_parser(
        "policy",
        help="print the least rights of IAM: the role's, yours, a tenant's",
        description="Print policies of IAM, in JSON, with nothing that is not needed. trust: who "
        "may take the endpoint's role. role: what it may do. deploy: what these commands need. "
        "tenant NAME: to have the archives of one name asked, and no others. Without any of "
        "these: the first three. AWS is not asked.",
    )
    add_config(parser)
    parser.add_argument("whom", nargs="?", choices=_WHOM, help="whose rights")
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="the tenant's, as `put --as` has it"
    )
    parser.add_argument(
        "--aliases",
        action="store_true",
        help="the tenant may read which archive each name means; it sees all names then",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one document, or an object of several."""
    config = read_config(options.config)
    where = make_where(config, open_account(config, options).region)
    print(json.dumps(_make(config, where, options), indent=2))
    return 0


def _make(config: Config, where: Where, options: argparse.Namespace) -> dict[str, Any]:
    if options.whom == "tenant":
        name = _read_tenant(options.name)
        return make_tenant_policy(config, where, name, aliases=options.aliases)
    if options.name is not None or options.aliases:
        raise Refused(
            f"found {'--aliases' if options.name is None else options.name}, which is about a "
            "tenant's policy: `policy CONFIG.toml tenant NAME` prints one"
        )
    made = {
        "trust": make_trust_policy(),
        "role": make_role_policy(config, where),
        "deploy": make_deployer_policy(config, where),
    }
    return made if options.whom is None else made[options.whom]


def _read_tenant(raw: str | None) -> str:
    try:
        return archive_name(raw)
    except ValueError as error:
        found = "no name" if raw is None else raw
        raise Refused(f"tenant: found {found}, expected {error}") from error
