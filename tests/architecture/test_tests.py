"""Tests know of the code what its callers know, and change it by its own doors."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = (
    "bench",
    "container",
    "ensemble_tools",
    "merlin_deploy",
    "merlin_simulator",
    "serve",
    "verification",
)
OURS = (*CODE, "tests", "deploy", "simulator")
#: Where tests are.
SUITES = ("tests", "deploy/tests", "simulator/tests")
#: Archives as other programs wrote them.
FOREIGN = "tests/golden/merlin_releases/"
#: What the libraries themselves leave without another name.
THEIRS = {"os._exit", "torch._C", "pickle._Unpickler"}

#: A store that hangs is to be asked no more for a while: twenty who queued would take 40 s.
TIMED = {"tests/end_to_end/test_feature_store.py": 1}
#: What tells the time of day or of the machine, in `time` or an event loop.
CLOCKS = {"monotonic", "perf_counter", "time"}
#: Shares of a fault's time, and connections of a flood, of which some may fail.
SHORT = {"tests/reliability/faults.py": 4}
#: What waits, and the place of its limit among its arguments, where it need not be named.
WAITS = {
    "wait": 0,
    "join": 0,
    "result": 0,
    "settimeout": 0,
    "wait_for": 1,
    "acquire": 1,
    "communicate": 1,
    "create_connection": 1,
    "until": 3,
    **dict.fromkeys(("run", "check_output", "get", "post", "Client"), None),
}
#: In a moment nothing is to happen; what is to happen has half a minute or more.
MOMENT_S, ENOUGH_S = 0.1, 30

Look = Callable[[ast.Module], Iterator[str]]


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(path for suite in SUITES for path in (ROOT / suite).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(FOREIGN):
            yield name, ast.parse(path.read_text())


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def private_names(tree: ast.Module) -> Iterator[str]:
    """Names with an underscore in front that are read off something else than self, or imported."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_ours(node.module):
            yield from (alias.name for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in ("self", "cls", "super()") and f"{owner}.{node.attr}" not in THEIRS:
                yield f"{owner}.{node.attr}"


def is_ours(module: str | None, packages: Collection[str] = OURS) -> bool:
    return (module or "").split(".")[0] in packages


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The names under which the file knows modules, and what is in them; and the modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (alias.asname or alias.name).split(".")[0], alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield alias.asname or alias.name, node.module or ""


def patches(tree: ast.Module) -> Iterator[str]:
    """What the file changes from outside: with pytest's monkeypatch, unittest.mock or by hand.

    What monkeypatch sets counts as ours unless the file has imported it from others: an object that
    a test has made is nearly always one of ours.
    """
    names = list(imported(tree))
    code = {name for name, module in names if is_ours(module, CODE)}
    others = {name for name, module in names if not is_ours(module)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("unittest", "unittest.mock"):
            yield from (alias.name for alias in node.names if alias.name in ("mock", "patch"))
        elif isinstance(node, ast.Assign):
            targets = [ast.unparse(it) for it in node.targets if isinstance(it, ast.Attribute)]
            yield from (target for target in targets if target.split(".")[0] in code)
        elif isinstance(node, ast.Call) and _sets(node) and _is_of_ours(node.args[0], others):
            yield ast.unparse(node.args[0])


def _sets(node: ast.Call) -> bool:
    named = isinstance(node.func, ast.Attribute) and node.func.attr == "setattr"
    return named and bool(node.args)


def _is_of_ours(target: ast.expr, others: set[str]) -> bool:
    if isinstance(target, ast.Constant):  # a dotted path
        return is_ours(str(target.value))
    return ast.unparse(target).split(".")[0] not in others


def timings(tree: ast.Module) -> Iterator[str]:
    """Assertions that something took less than a time: a busy machine takes longer."""
    for node in ast.walk(tree):
        for asserted in ast.walk(node.test) if isinstance(node, ast.Assert) else ():
            if isinstance(asserted, ast.Compare):
                sides = [asserted.left, *asserted.comparators]
                less = [
                    left if isinstance(op, (ast.Lt, ast.LtE)) else right
                    for op, left, right in zip(asserted.ops, sides, sides[1:], strict=False)
                    if isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE))
                ]
                if any(_is_duration(side) for side in less):
                    yield ast.unparse(asserted)


def _is_duration(node: ast.expr) -> bool:
    """Whether it is a clock's time less an earlier one."""
    now = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) else None
    named = isinstance(now, ast.Call) and isinstance(now.func, ast.Attribute)
    return named and now.func.attr in CLOCKS  # type: ignore[union-attr]


def short_waits(tree: ast.Module) -> Iterator[str]:
    """Waits for what is to happen that a busy machine may outlast."""
    for node in ast.walk(tree):
        name = _called(node) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in WAITS:
            place = WAITS[name]
            limits = [it.value for it in node.keywords if it.arg in ("timeout", "timeout_s")]
            limits += [] if place is None else node.args[place : place + 1]
            if any(_is_short(limit) for limit in limits):
                yield ast.unparse(node)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)


def _is_short(limit: ast.expr) -> bool:
    value = limit.value if isinstance(limit, ast.Constant) else None
    return isinstance(value, (int, float)) and MOMENT_S < value < ENOUGH_S


@pytest.fixture(scope="module")
def seen() -> dict[Look, dict[str, list[str]]]:
    """What each look finds in each file, read once."""
    looks = (private_names, patches, timings, short_waits)
    found: dict[Look, dict[str, list[str]]] = {look: {} for look in looks}
    for name, tree in sources():
        for look in found:
            found[look][name] = list(look(tree))
    return found


@pytest.mark.parametrize(
    ("look", "known"),
    [(private_names, {}), (patches, {}), (timings, TIMED), (short_waits, SHORT)],
)
def test_tests_go_through_the_front_door(
    look: Look, known: dict[str, int], seen: dict[Look, dict[str, list[str]]]
) -> None:
    """None touches private names of ours, none patches ours, none goes by how long things took, and
    none gives what is to happen less time than a busy machine takes.
    """
    found = seen[look]
    assert {name: len(each) for name, each in found.items() if each} == known, found


@pytest.mark.parametrize(
    ("text", "private", "patched"),
    [
        ("from serve.errors import _hidden", ["_hidden"], []),
        ("x._y = 1", ["x._y"], []),
        ("self._y = cls._z = 1; super()._w", [], []),
        ("from serve import errors\nmonkeypatch.setattr(errors, 'x', 1)", [], ["errors"]),
        ("import serve.errors\nserve.errors.X = 1", [], ["serve.errors.X"]),
        ("monkeypatch.setattr('serve.errors.X', 1)", [], ["'serve.errors.X'"]),
        ("client = make()\nmonkeypatch.setattr(client, 'x', 1)", [], ["client"]),
        ("import os\nmonkeypatch.setattr(os, 'getuid', 1)", [], []),
        ("from unittest import mock", [], ["mock"]),
    ],
)
def test_what_is_found(text: str, private: list[str], patched: list[str]) -> None:
    """The looks see what they are for, and let others' things be."""
    tree = ast.parse(text)
    assert (list(private_names(tree)), list(patches(tree))) == (private, patched)


@pytest.mark.parametrize(
    ("look", "text", "found"),
    [
        (timings, "assert time.monotonic() - began < 5", True),
        (timings, "assert 5 > time.perf_counter() - began", True),
        (timings, "assert 1 <= loop.time() - began <= 5, why", True),
        (timings, "assert time.monotonic() - began >= 5", False),
        (timings, "assert time.process_time() - began < 5", False),
        (timings, "assert time.monotonic() < deadline", False),
        (timings, "if time.monotonic() - began < 5: pass", False),
        (short_waits, "asyncio.wait_for(ended, 5)", True),
        (short_waits, "done.wait(timeout=2.0)", True),
        (short_waits, "thread.join(5)", True),
        (short_waits, "subprocess.run(command, timeout=20)", True),
        (short_waits, "httpx.get(url, timeout=1)", True),
        (short_waits, "until(ends, 'it ends', container, 10)", True),
        (short_waits, "asyncio.wait_for(ended, 60)", False),
        (short_waits, "asyncio.wait({asked}, timeout=0.1)", False),
        (short_waits, "process.wait(0)", False),
        (short_waits, "', '.join(names)", False),
        (short_waits, "thread.join()", False),
    ],
)
def test_which_lines_go_by_time(look: Look, text: str, found: bool) -> None:
    """A least time is no timing, nor is the processor's time, nor the end of a wait; a short wait
    has a limit in numbers, above a moment and below half a minute."""
    assert bool(list(look(ast.parse(text)))) is found
