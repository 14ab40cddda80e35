"""Which model a line is about."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from container.tritonserver.named_models import NamedModels
from ensemble_tools import Namespace

PUBLISHED = (
    *("shop", "shop.0_transform", "a=_b", "a=_b.step", "user_1", "user", "model", "1"),
    *("shop=-1", "shop=-1.0_transform", "a=_b=-12"),
)


@pytest.fixture
def serving(tmp_path: Path) -> Path:
    for name in PUBLISHED:
        (tmp_path / "serving" / name).mkdir(parents=True)
    return tmp_path / "serving"


@pytest.mark.parametrize(
    ("words", "model"),
    [
        ("loading: {serving}::shop:1", "shop"),
        ("failed to load '{serving}::gone' version 1: Internal", "gone"),
        ("At:\n  {serving}/a=_b.step/1/model.py(32): weights", "a.b"),
        ("At:\n  {beside}/archive-1a_b2c3d/a=_b/step/1/model.py(32): weights", "a.b"),
        ("loading: shop.0_transform:1", "shop"),
        ("successfully loaded 'a=_b'", "a.b"),
        ("unable to create stream for a=_b: no driver", "a.b"),
        ("Initialize: shop_0_0 (CPU device 0)", "shop"),
        ("Initialize: shop_0 (CPU device 0)", "shop"),
        ("Initialize: user_1_0_0 (CPU device 0)", "user_1"),
        ("Initialize: user_1_0 (CPU device 0)", "user_1"),
        ("Initialize: user_0 (CPU device 0)", "user"),
        ("for model 'a=_b.step_0_0', message: it broke", "a.b"),
        ("loading: {serving}::shop=-1:1", "shop"),
        ("loading: shop=-1.0_transform:1", "shop"),
        ("successfully loaded 'a=_b=-12'", "a.b"),
        ("Initialize: shop=-1_0_0 (CPU device 0)", "shop"),
        ("loading the model of a shop", ""),
        ("shop=-2", ""),
        ("see model.py, /shop/1/model.py or 'model.py'", ""),
        ("unable to find 'libtriton_shop.so'", ""),
        ("Timeout 1: Found 0 live models", ""),
        ("'another'", ""),
        ("", ""),
    ],
)
def test_names(words: str, model: str, serving: Path) -> None:
    """As both versions write them, with and without namespaces; a word that is one is no name."""
    said = words.format(serving=serving, beside=serving.parent)
    assert NamedModels(serving).find(said) == model


def test_what_anybody_may_have_printed(serving: Path) -> None:
    """A name in it says nothing; a path, as in a traceback, does."""
    models = NamedModels(serving)
    assert models.find("successfully loaded 'shop'", True) == ""
    assert models.find(f'  File "{serving}/shop/1/model.py", line 3', True) == "shop"


def test_models_come_and_go(serving: Path) -> None:
    """A name counts from the moment on in which it is published."""
    models = NamedModels(serving)
    assert models.find("loaded 'new'") == ""
    (serving / "new").mkdir()
    assert models.find("loaded 'new'") == "new"


def test_two_changes_at_one_time(serving: Path) -> None:
    """The kernel's clock for files is a coarse one: a time that is near is believed by nobody."""
    just_now = time.time_ns() + 10**9
    models = NamedModels(serving)
    os.utime(serving, ns=(just_now, just_now))
    assert models.find("loaded 'new'") == ""
    (serving / "new").mkdir()
    os.utime(serving, ns=(just_now, just_now))
    assert models.find("loaded 'new'") == "new"


def test_what_has_not_changed_is_not_listed_again(serving: Path) -> None:
    """A line that names nobody costs one look at the directory's time."""
    long_ago = 10**18
    models = NamedModels(serving)
    os.utime(serving, ns=(long_ago, long_ago))
    assert models.find("loaded 'new'") == ""
    (serving / "new").mkdir()
    os.utime(serving, ns=(long_ago, long_ago))
    assert models.find("loaded 'new'") == ""


def test_a_repository_that_is_gone(serving: Path) -> None:
    """Nobody is named, and nothing is raised."""
    models = NamedModels(serving)
    shutil.rmtree(serving)
    assert models.find("loaded 'shop'") == ""


@given(
    st.from_regex(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,20}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True),
)
def test_every_name_is_read_back(name: str, step: str) -> None:
    """Of a model and of its steps, from the path that tritonserver writes in front."""
    models = NamedModels(Path("/nowhere"))
    space = Namespace(name)
    for published in (space.entry, space.step(step)):
        assert models.find(f"loading: /nowhere::{published}:1") == name
        assert models.find(f"loaded '/nowhere::{published}'") == name


@given(st.text())
def test_nothing_is_raised(words: str) -> None:
    """Whatever was printed."""
    models = NamedModels(Path(os.devnull))
    assert models.find(words) == models.find(words, True) == ""
