"""The house's plan, held against the code."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: What Triton's stubs run, or processes beside them: it has nobody but the environment to ask.
OUTSIDE = {"backends", "models_side"}
STEPS = {"warm_model.py", "lookup_model.py"}
PACKAGES = ("verification", "container", "serve", "ensemble_tools")
#: The root, and the projects that have contracts of their own.
PROJECTS = ("", "deploy", "simulator")


def sources(*packages: str) -> list[Path]:
    return [
        path
        for package in packages
        for path in sorted((ROOT / package).rglob("*.py"))
        if not OUTSIDE & {*path.parts} and path.name not in STEPS
    ]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@dataclass(frozen=True)
class Words:
    """What a file names: of the dotted names two parts each, of the constants all."""

    attributes: frozenset[str]
    strings: frozenset[str]
    #: The strings that do not stand alone, as docstrings do.
    spoken: frozenset[str]
    numbers: frozenset[object]


@cache
def words(path: Path) -> Words:
    """The file's, read once."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    alone = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    constants = [node for node in nodes if isinstance(node, ast.Constant)]
    strings = [node for node in constants if isinstance(node.value, str)]
    return Words(
        frozenset(
            f"{node.value.id}.{node.attr}"
            for node in nodes
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ),
        frozenset(str(node.value) for node in strings),
        frozenset(str(node.value) for node in strings if id(node) not in alone),
        frozenset(node.value for node in constants if isinstance(node.value, int | float)),
    )


@pytest.mark.parametrize("project", PROJECTS)
def test_arrows_of_the_plan_hold(project: str) -> None:
    """Imports go only where pyproject's contracts let them: no cycle, no arrow back."""
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [program, "--no-cache"],
        cwd=ROOT / project,
        env={**os.environ, "PYTHONPATH": f"{ROOT / project / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("project", PROJECTS)
def test_contracts_name_every_module(project: str) -> None:
    """A new module of a folder with layers has its layer before it has code."""
    contracts = (ROOT / project / "pyproject.toml").read_text()
    folders = re.findall(r"^containers = .*\n(.*)$", contracts, re.MULTILINE)
    assert folders
    assert set(folders) == {"exhaustive = true"}


def test_one_reader_of_the_environment() -> None:
    """os.environ is read where a program begins, and handed on as a mapping."""
    readers = [
        relative(path) for path in sources(*PACKAGES) if "os.environ" in words(path).attributes
    ]
    programs = [
        "verification/__main__.py",
        "verification/compare_command.py",
        "container/__main__.py",
    ]
    hides_a_choice = ["ensemble_tools/command_start.py"]  # from protobuf, which reads it by itself
    assert readers == [*programs, *hides_a_choice]
    getters = [
        relative(path) for path in sources(*PACKAGES) if "os.getenv" in words(path).attributes
    ]
    assert getters == []


def test_wire_names_stand_in_one_place() -> None:
    """The contract's own words for its fields are known to contract_bodies.py alone."""
    wire_names = {"modelName", "modelUrl", "nextPageToken"}
    knowing = {relative(path) for path in sources(*PACKAGES) if wire_names & words(path).strings}
    assert knowing == {"serve/http/contract_bodies.py"}


#: What of the libraries may name a setting: what messages about archives send people to; commands,
#: whose words people read; steps that run in the models' Python and need a library there.
NAMING = (
    "ensemble_tools/setting_names.py",
    "ensemble_tools/commands/",
    *(f"ensemble_tools/steps/{name}_model.py" for name in ("merlin", "search", "recommend")),
)


def test_libraries_do_not_know_the_environment() -> None:
    """container/ names the variables; a library says what it was handed (limit)."""
    knowing = [
        relative(path)
        for path in sources("serve", "ensemble_tools")
        if any("SERVE_" in text for text in words(path).spoken)
    ]
    assert [name for name in knowing if not name.startswith(NAMING)] == []


@pytest.mark.parametrize("number", [404, 409, 507, 504])
def test_statuses_stand_in_one_table(number: int) -> None:
    """Nobody but the error table decides what an error is answered with."""
    deciding = {relative(path) for path in sources("serve") if number in words(path).numbers}
    assert deciding <= {"serve/http/error_responses.py"}


def test_serving_runs_without_what_the_models_need() -> None:
    """The server's process imports neither Merlin nor torch nor pandas."""
    models_own = {"merlin", "nvtabular", "torch", "pandas", "cloudpickle", "boto3"}
    assert _imported_with("container.entrypoint, container.assembly") & models_own == set()


def test_tritonserver_is_started_before_the_server_is_imported() -> None:
    """What the entry point imports comes before tritonserver's start: nothing that takes long."""
    slow = {"fastapi", "grpc", "numpy", "uvicorn", "google.protobuf"}
    assert _imported_with("container.entrypoint") & slow == set()


def _imported_with(modules: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-c", f"import sys, {modules}; print(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(result.stdout.split())
