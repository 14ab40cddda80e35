"""Which archive is asked."""

from __future__ import annotations

from deploy.archives.aliases import list_names, require_target
from deploy.archives.places import read_place
from deploy.archives.table import read_aliases
from deploy.aws.account import Account
from deploy.config.config import Config
from deploy.errors import Refused


def choose_target(
    account: Account, config: Config, model: str | None, target_model: str | None
) -> str | None:
    """TargetModel; None of a single-model endpoint. model: a name of `put --as`.

    A table with one name needs none. Raises DeployError.
    """
    single = config.endpoint.single_model
    if single is not None:
        if target_model is not None or model not in (None, single):
            raise Refused(
                f"the endpoint {config.endpoint.name} serves {single} alone "
                "(endpoint.single_model); leave --model and --target-model out"
            )
        return None
    if target_model is not None:
        return target_model
    place = read_place(config.endpoint.archives)
    aliases = read_aliases(account, place)
    if model is None and len(aliases.targets) == 1:
        model = next(iter(aliases.targets))
    if model is None:
        known = list_names(aliases)
        if not aliases.targets:
            known = "none yet: `put ARCHIVE --as NAME` makes one"
        raise Refused(f"no archive is named; give --model NAME: {known}")
    return require_target(aliases, model, place)
