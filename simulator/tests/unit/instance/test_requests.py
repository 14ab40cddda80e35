"""A target model is a path below the models' prefix and nothing else."""

from __future__ import annotations

import os.path
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from merlin_simulator.errors import InvalidRequest
from merlin_simulator.instance.requests import check_target_model, make_model_name
from merlin_simulator.rules import Rules


@pytest.mark.parametrize(
    "name",
    ["m.tar.gz", "a/b.tar.gz", "a b.tar.gz", "Straße-模型.tar.gz", "..a/b..", "~", "a", "x" * 1024],
)
def test_a_printable_relative_path_is_the_target_model(name: str) -> None:
    """Sub-folders, inner spaces and other scripts are names like any other."""
    assert check_target_model(name, Rules()) == name


def test_one_leading_slash_is_taken_off() -> None:
    """Clients in public code send it; a second one is an empty part."""
    assert check_target_model("/a/m.tar.gz", Rules()) == "a/m.tar.gz"
    with pytest.raises(InvalidRequest, match="one of its parts is ''"):
        check_target_model("//m.tar.gz", Rules())


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("", "0 characters"),
        ("x" * 1025, "1025 characters"),
        ("../x", "'..'"),
        ("/../x", "'..'"),
        ("a/../../x", "'..'"),
        ("a/./x", "'.'"),
        (".", "'.'"),
        ("/", "''"),
        ("a//x", "''"),
        ("a/", "''"),
        ("a\\..\\x", "backslash"),
        ("a\0.tar.gz", r"'\\x00'"),
        ("a\n.tar.gz", r"'\\n'"),
        ("a\x7f", r"'\\x7f'"),
        ("a\u202e", r"'\\u202e'"),
        ("a\udc80", r"'\\udc80'"),
        (" m.tar.gz", "starts with a space"),
        ("\u3000m", "starts with a space"),
    ],
)
def test_what_is_no_such_path_is_refused_and_said(name: str, found: str) -> None:
    """The message says what was found and what was expected, in one line that can be printed."""
    with pytest.raises(InvalidRequest, match=found) as refused:
        check_target_model(name, Rules())
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def test_the_length_limit_is_a_rule() -> None:
    """Rules.target_model_characters decides."""
    with pytest.raises(InvalidRequest, match="expected 1 to 3"):
        check_target_model("abcd", Rules(target_model_characters=3))


@given(st.text(st.sampled_from("a./\\ \0\n~é"), max_size=12))
@example("a/..")
def test_an_accepted_name_never_leaves_the_folder_it_is_joined_to(name: str) -> None:
    """Joined to a folder it names something strictly below it, and itself."""
    try:
        path = check_target_model(name, Rules())
    except InvalidRequest:
        return
    assert os.path.normpath(os.path.join("/models", path)) == f"/models/{path}"


def test_the_model_name_is_opaque_and_stable() -> None:
    """32 lower-case hexadecimal characters, the same each time, another for each instance."""
    name = make_model_name("instance-0", "a/m.tar.gz")
    assert re.fullmatch("[0-9a-f]{32}", name)
    assert name == make_model_name("instance-0", "a/m.tar.gz")
    assert name != make_model_name("instance-1", "a/m.tar.gz")
    assert name != make_model_name("instance-0a", "/m.tar.gz")
