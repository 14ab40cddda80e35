"""The table of aliases: what a name means after what was put, and what is no table."""

from __future__ import annotations

import pytest

from merlin_deploy.archives.aliases import (
    MOST_TARGETS,
    Aliases,
    Place,
    is_put,
    make_target_model,
    parse_aliases,
    require_target,
    write_aliases,
)
from merlin_deploy.errors import Refused

WHERE = "s3://bucket/shop/aliases.json"


def test_what_a_name_meant_is_kept_from_new_to_old() -> None:
    """As many as the table holds; what is put again is not there twice."""
    aliases = Aliases({"other": ("other/0",)})
    for number in range(MOST_TARGETS + 2):
        aliases = aliases.with_target("shop-a", f"shop-a/{number}")
    newest = MOST_TARGETS + 1
    assert aliases.targets["shop-a"] == tuple(f"shop-a/{it}" for it in range(newest, 1, -1))
    again = aliases.with_target("shop-a", "shop-a/5")
    assert again.targets["shop-a"][:2] == ("shop-a/5", f"shop-a/{newest}")
    assert len(set(again.targets["shop-a"])) == MOST_TARGETS
    assert again.find("other") == "other/0"


def test_a_name_goes_back_until_there_is_nothing_before() -> None:
    aliases = Aliases({"shop-a": ("shop-a/2", "shop-a/1")})
    assert aliases.find_former("shop-a") == "shop-a/1"
    back = aliases.with_former("shop-a")
    assert (back.find("shop-a"), back.find_former("shop-a")) == ("shop-a/1", None)
    assert back.mentioned == {"shop-a/1"}


def test_a_table_is_read_as_it_was_written() -> None:
    """Equal tables are equal bytes, whichever name came first."""
    aliases = Aliases({"b": ("b/1",), "a": ("a/2", "a/1")})
    assert parse_aliases(write_aliases(aliases), WHERE) == aliases
    other = Aliases(dict(reversed(list(aliases.targets.items()))))
    assert write_aliases(other) == write_aliases(aliases)


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (b"{", "Expecting property name"),
        (b"\xff", "can't decode byte"),
        (b"[]", "list indices must be"),
        (b'{"version": 2, "aliases": {}}', "its version is 2"),
        (b'{"version": 1}', "'aliases'"),
        (b'{"version": 1, "aliases": {"a": "a/1"}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": []}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": [' + b'"a",' * 1000 + b'"b"]}}', "a has 1001 archives"),
        (b'{"version": 1, "aliases": {"a": [1]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": ["a/../b/1"]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": ["\\ud800"]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"a": ["a\\n"]}}', "a has no list of archives"),
        (b'{"version": 1, "aliases": {"\\u001b[2J": ["a/1"]}}', "'\\x1b[2J' is no name"),
        (b'{"version": 1, "aliases": {"' + b"a" * 5000 + b'": ["a/1"]}}', "…' is no name"),
    ],
)
def test_what_is_no_table_is_refused(written: bytes, why: str) -> None:
    with pytest.raises(Refused, match="is no table of aliases as `put` writes it") as refused:
        parse_aliases(written, WHERE)
    assert str(refused.value).startswith(WHERE)
    assert why in str(refused.value)


def test_names_are_told_as_far_as_there_is_room() -> None:
    """A table may have thousands."""
    aliases = Aliases({f"n{number:04}": ("t",) for number in range(1000)})
    with pytest.raises(Refused, match=r"there are: n0000, n0001, .*, n0019, and 980 more; `put"):
        require_target(aliases, "c", Place("bucket", "shop/"))


def test_a_name_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(Refused, match="there are: a, b; `put CONFIG"):
        require_target(Aliases({"b": ("b/1",), "a": ("a/1",)}), "c", Place("bucket", "shop/"))


def test_places_of_put_are_known_from_others() -> None:
    target = make_target_model("shop-a", "0123456789abcdef" * 4)
    assert target == "shop-a/0123456789abcdef.tar.gz"
    assert is_put(target)
    others = ("shop-a/1.tar.gz", "0123456789abcdef.tar.gz", f"x/{target}", f"{target}.old")
    assert not any(map(is_put, others))
