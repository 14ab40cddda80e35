"""What lies in S3, by what names say of it."""

from __future__ import annotations

from datetime import datetime, timezone

from deploy.archives.aliases import Aliases
from deploy.archives.bucket import Stored
from deploy.status.collect import make_archives
from deploy.status.report import Alias

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)


def test_former_archives_are_not_without_an_alias() -> None:
    """Each archive counts once: current, former, or of no name; one that is another name's current
    one is not former."""
    named = Aliases({"a": ("a/3", "a/2", "b/1", "gone"), "b": ("b/1",), "c": ("c/1",)})
    stored = {target: Stored(target, 10, NOW) for target in ("a/1", "a/2", "a/3", "b/1")}
    found = make_archives(named, stored)
    assert (found.count, found.bytes) == (4, 40)
    assert (found.former, found.without_alias) == (1, 1)
    assert found.aliases == (
        Alias("a", "a/3", True),
        Alias("b", "b/1", True),
        Alias("c", "c/1", False),
    )
