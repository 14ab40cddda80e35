"""Names in the serving repository: unique, reversible, legal."""

from __future__ import annotations

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ensemble_tools.errors import IllegalName
from ensemble_tools.serving.namespace import (
    NAME_MAX,
    Namespace,
    drop_number,
    name_candidate,
    parse_published,
)

LETTERS = "ab.-_9"
#: That the Python backend refuses in a model's name (python_backend r25.08, src/pb_utils.h).
REFUSED = set(";|&$`<>()[]{}\\\"'*?~#!")
plain_names = st.text(LETTERS, min_size=1, max_size=8).filter(lambda name: name not in {".", ".."})
model_names = plain_names | plain_names.map(name_candidate)
step_names = st.text(LETTERS + "=~ ü$;&\n'", min_size=1, max_size=8)
pairs = st.tuples(model_names, st.none() | step_names)

ILLEGAL = (
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "a b",
    " a",
    "a\n",
    "a\0b",
    "ü",
    "a~b",
    "a:b",
    "%2e",
    "٣",
    "a\ud800",
    "x" * 5000,
    "=candidate",
    "..=candidate",
    "a=candidate=candidate",
    "a=candidates",
)


def published(pair: tuple[str, str | None]) -> str:
    model, step = pair
    return Namespace(model).entry if step is None else Namespace(model).step(step)


@given(one=pairs, other=pairs)
def test_unique(one: tuple[str, str | None], other: tuple[str, str | None]) -> None:
    """Two models, or two steps, or a model and a step, never have one Triton name."""
    assert (published(one) == published(other)) == (one == other)


@given(pair=pairs)
def test_reversible(pair: tuple[str, str | None]) -> None:
    """Every Triton name is read back into the model name and the step that it was made of."""
    assert parse_published(published(pair)) == pair


@given(pair=pairs)
def test_legal_directory(pair: tuple[str, str | None]) -> None:
    """A Triton name is one path component, and not a hidden one."""
    assert re.fullmatch(r"[A-Za-z0-9_.=-]+", published(pair))  # also as a word of a shell
    assert not published(pair).startswith(".")


def test_every_short_name() -> None:
    """All short names are published differently, read back, and refused by no tritonserver."""
    models = [
        "".join(it) for size in (1, 2, 3) for it in product("a._2", repeat=size) if it != (".", ".")
    ]
    models.remove(".")
    steps = ["".join(it) for size in (1, 2, 3) for it in product("a._2e=~", repeat=size)]
    pairs = [*product(models, [None, *steps])]
    names = [published(pair) for pair in pairs]
    assert len(set(names)) == len(pairs)
    assert [parse_published(name) for name in names] == pairs
    assert not any(".." in name or REFUSED & set(name) for name in names)


@pytest.mark.parametrize(
    "step", [*sorted(REFUSED), "".join(sorted(REFUSED)), "..", "...", "..a", "a..b", "ü", " ", "="]
)
@pytest.mark.parametrize("model", ["m", "m.", ".m", "a..b", "..m"])
def test_names_of_today(model: str, step: str) -> None:
    """tritonservers from 25.08 on take any name that an archive may have: none of it is refused."""
    for name in (published((model, None)), published((model, step))):
        assert not REFUSED & set(name)
        assert ".." not in name
    assert parse_published(Namespace(model).step(step)) == (model, step)


@pytest.mark.parametrize("name", ILLEGAL, ids=lambda name: ascii(name)[:20])
def test_illegal_names(name: str) -> None:
    """A name that is no safe path component is refused with a short sentence."""
    with pytest.raises(IllegalName) as refusal:
        Namespace(name)
    assert refusal.value.name == name
    assert len(str(refusal.value)) < 300
    assert str(refusal.value).isprintable()


def test_longest_names() -> None:
    """What fits a directory name is taken, one byte more is refused, dots and steps included."""
    assert Namespace("x" * NAME_MAX).entry == "x" * NAME_MAX
    assert len(Namespace("." * 127).entry) == 254
    assert len(Namespace("m").step("s" * 253)) == NAME_MAX
    for attempt in (
        lambda: Namespace("x" * (NAME_MAX + 1)),
        lambda: Namespace("." * 128),
        lambda: Namespace("m").step("s" * 254),
        lambda: Namespace("m").step("ü" * 127),
    ):
        with pytest.raises(IllegalName):
            attempt()


def test_long_step_is_named() -> None:
    """Nobody can shorten the hash that SageMaker calls a model: the step's name is told."""
    with pytest.raises(IllegalName, match=r"the model name 'ü+'"):
        Namespace("3f" * 16).step("ü" * 75)


@pytest.mark.parametrize("step", ["", "a/b", "a\0", "\udcff"], ids=ascii)
def test_illegal_steps(step: str) -> None:
    """A step whose name no directory and no message can bear is refused as well."""
    with pytest.raises(IllegalName):
        Namespace("m").step(step)


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "=", "a=b", "=2e", "=_", "=_=_", "=_.a", ".a", "a.", "=.=", "a=", "a.b c"),
        *("a.=", "a.=ff", "a.=7E", "a.=61", "a.b=_c", "a..b", "a.=2e", "a~.b", "a.b~20c", "a=20"),
        *("a=-", "a=-0", "a=-01", "a=-x", "=-1", "a=-1=-2", "a=-1_", "a.b=-1", "a=-1234567"),
    ],
)
def test_foreign_names(name: str) -> None:
    """What was not published by us is not read."""
    with pytest.raises(ValueError, match="was not published"):
        parse_published(name)


@given(one=pairs, other=pairs, numbers=st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_a_name_that_comes_back(
    one: tuple[str, str | None], other: tuple[str, str | None], numbers: tuple[int, int]
) -> None:
    """Names with a number are read back as without it, and are nobody else's."""
    namespaces = (Namespace(one[0], numbers[0]), Namespace(other[0], numbers[1]))
    first, second = (
        space.entry if step is None else space.step(step)
        for space, (_, step) in zip(namespaces, (one, other), strict=True)
    )
    assert parse_published(first) == one
    assert re.fullmatch(r"[A-Za-z0-9_.=-]+", first)
    assert (first == second) == ((one, numbers[0]) == (other, numbers[1]))
    assert drop_number(namespaces[0].entry) == Namespace(one[0]).entry
    path = f"/v2/models/{namespaces[0].entry}/infer"
    assert drop_number(path) == f"/v2/models/{Namespace(one[0]).entry}/infer"


def test_hashes_come_through() -> None:
    """SageMaker's own names, and their steps, are readable as they are."""
    assert Namespace("d6f1c9").entry == "d6f1c9"
    assert Namespace("d6f1c9").step("0_workflow") == "d6f1c9.0_workflow"
