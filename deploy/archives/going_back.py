"""A name means its former archive again."""

from __future__ import annotations

from deploy.archives.aliases import Aliases, require_target
from deploy.archives.places import read_place
from deploy.archives.stored import find_stored
from deploy.archives.table import change_table, read_aliases
from deploy.archives.uploading import make_encryption
from deploy.aws.account import Account
from deploy.config.config import Config
from deploy.errors import Refused


def go_back(account: Account, config: Config, name: str) -> tuple[str, str]:
    """What it meant, and what it means now; nothing else changes. One step; a second call goes
    one more. Raises DeployError; Refused where there is nothing before it."""
    place = read_place(config.endpoint.archives)
    aliases = read_aliases(account, place)
    now, former = require_target(aliases, name, place), aliases.find_former(name)
    if former is None:
        raise Refused(
            f"{name} has meant no other archive before {now}, as far as aliases.json goes back; "
            "put the content that it is to mean"
        )
    if former not in find_stored(account, place, name):
        raise Refused(
            f"the archive {former}, which {name} meant before, is not there any more; put its "
            "content again"
        )

    def step(found: Aliases) -> Aliases:
        # Its answer may be lost: a call that is sent again goes no step further.
        return found.with_former(name) if found.find(name) == now else found

    change_table(account, place, step, make_encryption(config.encryption.archives_key))
    return now, former
