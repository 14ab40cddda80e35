"""What `pip install . ./deploy` brings: wheels with all that lies in the packages, and commands."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import httpx
import pytest

from tests.support.container import ROOT, Container, free_port, until

pytestmark = pytest.mark.thorough

MODELS_PYTHON = ROOT / ".venv-merlin/bin/python"
DENSE = ROOT / "examples/merlin/dense"
PACKAGES = (
    "container",
    "ensemble_tools",
    "serve",
    "verification",
)
BESIDE = ("pyproject.toml", "README.md", "requirements")
#: Of the projects beside it: what their wheels are built from.
DEPLOYS = ("src", "pyproject.toml", "README.md", "requirements.in", "tools.in")
SIMULATORS = ("src", "pyproject.toml", "README.md")
TIMEOUT_S = 600


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By project. Built from copies, since a build writes into its sources; without network."""
    sources, built = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheels")
    projects = {".": (*PACKAGES, *BESIDE), "deploy": DEPLOYS, "simulator": SIMULATORS}
    for project, names in projects.items():
        (sources / project).mkdir(exist_ok=True)
        for name in names:
            path = ROOT / project / name
            (shutil.copytree if path.is_dir() else shutil.copy)(path, sources / project / name)
    # setuptools is the models': they build Merlin's source archives with it.
    pip = (str(MODELS_PYTHON), "-m", "pip", "wheel", "--no-index", "--no-deps")
    paths = [str(sources / project) for project in projects]
    run(*pip, "--no-build-isolation", "--wheel-dir", str(built), *paths)
    deploys, image, simulators = sorted(built.iterdir())
    assert deploys.name.startswith("merlin_deploy-")
    assert simulators.name.startswith("merlin_simulator-")
    return {".": image, "deploy": deploys, "simulator": simulators}


@pytest.fixture(scope="module")
def wheel(wheels: dict[str, Path]) -> Path:
    """The image's."""
    return wheels["."]


@pytest.fixture(scope="module")
def programs(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with all wheels, and with this one's packages beside them."""
    python = install(tmp_path_factory.mktemp("installed") / "venv", *wheels.values())
    (packages,) = python.parents[1].glob("lib/python3.*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not (packages / path.name).exists():
            (packages / path.name).symlink_to(path)
    return python.parent


@pytest.fixture(scope="module")
def without_extras(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of an environment with the wheels alone."""
    return install(tmp_path_factory.mktemp("alone") / "venv", *wheels.values()).parent


def install(environment: Path, *wheels: Path) -> Path:
    """A new environment with nothing else in it; its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--python", str(python), "install")
    run(*pip, "--no-index", "--no-deps", "--no-compile", *map(str, wheels))
    return python


def run(*command: str, code: int = 0, cwd: Path | None = None) -> str:
    """What it says; its exit code is checked."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    ended = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_the_wheels_have_all_that_lies_in_the_packages(wheels: dict[str, Path]) -> None:
    """Models' code, backends, the page, styles: each file, and nothing that Python made of them."""
    assert packed_in(wheels["."]) == files_of(ROOT, *PACKAGES)
    assert packed_in(wheels["deploy"]) == files_of(ROOT / "deploy/src", "merlin_deploy")
    assert packed_in(wheels["simulator"]) == files_of(ROOT / "simulator/src", "merlin_simulator")


def packed_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def files_of(root: Path, *packages: str) -> set[str]:
    return {
        path.relative_to(root).as_posix()
        for package in packages
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_deploy_asks_for_its_libraries_and_for_the_tools(wheels: dict[str, Path]) -> None:
    """What is locked for the checkout, and the image's distribution with what checks archives."""
    asked = {line.removeprefix("Requires-Dist: ") for line in metadata_of(wheels["deploy"])}
    libraries = named_in("deploy/requirements.in", "deploy/tools.in")
    assert libraries <= asked
    assert "merlin-sagemaker-container[tools]" in libraries


def metadata_of(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (path for path in archive.namelist() if path.endswith("/METADATA"))
        return archive.read(metadata).decode().splitlines()


def named_in(*files: str) -> set[str]:
    """What requirements name, a line each."""
    lines = (line for file in files for line in (ROOT / file).read_text().splitlines())
    return {line for line in lines if line and not line.startswith("#")}


@pytest.mark.parametrize("name", ["server", "tools"])
def test_an_extra_asks_for_what_its_requirements_name(wheel: Path, name: str) -> None:
    """Nothing is written twice: what is locked for the checkout is what an extra asks for."""
    lines = metadata_of(wheel)
    mark = f'extra == "{name}"'
    asked = {
        # What has a condition of its own, as tomli has, has the extra's behind it.
        line.removeprefix("Requires-Dist: ").removesuffix(f"; {mark}").removesuffix(f" and {mark}")
        for line in lines
        if line.endswith(mark)
    }
    more = {"tools": ["server"]}
    files = (*more.get(name, ()), name)
    assert asked == named_in(*(f"requirements/{file}.in" for file in files))


@pytest.mark.parametrize(
    "name", ["merlin-serve", "merlin-tools", "merlin-simulator", "merlin-deploy"]
)
def test_each_command_knows_its_name(programs: Path, tmp_path: Path, name: str) -> None:
    """It runs from any directory, and its help calls it by the name that was typed."""
    assert run(str(programs / name), "--help", cwd=tmp_path).startswith(f"usage: {name} ")


def test_archives_are_explained_and_rewritten(programs: Path, tmp_path: Path) -> None:
    """The ensemble's generated steps come out of the wheel."""
    tools, archive = str(programs / "merlin-tools"), str(DENSE / "repository")
    assert "ensemble" in run(tools, "explain", archive, cwd=tmp_path)
    run(tools, "rewrite", archive, "rewritten", cwd=tmp_path)
    assert list(tmp_path.glob("rewritten/*/config.pbtxt"))


def test_an_endpoint_is_written_down(programs: Path, tmp_path: Path) -> None:
    """Its own example is read, and becomes a template; what is no file is told."""
    deploy, config = str(programs / "merlin-deploy"), tmp_path / "CONFIG.toml"
    config.write_text(run(deploy, "example", cwd=tmp_path))
    template = tmp_path / "template.json"
    run(deploy, "render", str(config), "--output", str(template), cwd=tmp_path)
    assert "Endpoint" in json.loads(template.read_text())["Resources"]
    said = run(deploy, "up", "none.toml", code=1, cwd=tmp_path)
    assert said.startswith("error: none.toml: No such file or directory; expected a CONFIG.toml")


@pytest.mark.tritonserver
def test_the_installed_server_serves_an_export(programs: Path, tmp_path: Path) -> None:
    """Backends and steps come out of the wheel, too, and Merlin's numbers out of the model."""
    port, work, log = free_port(), tmp_path / "work", tmp_path / "log"
    work.mkdir()
    environment = {
        "SAGEMAKER_MULTI_MODEL": "true",
        "SAGEMAKER_BIND_TO_PORT": str(port),
        "SERVE_BIND_ADDRESS": "127.0.0.1",
        "SERVE_MODEL_ROOT": str(DENSE),
        "TMPDIR": str(work),
        "SERVE_MODEL_ENVIRONMENT": "all",
    }
    process = start(log, environment, programs / "merlin-serve", "serve")
    container = Container(port, DENSE, work, process, log)
    try:
        until(lambda: container.ping() == 200, "/ping is 200", container)
        with container.loaded("dense", DENSE / "repository"):
            check(container.invoke("dense", (DENSE / "request.json").read_bytes()))
    finally:
        container.close()


@pytest.mark.tritonserver
def test_the_installed_simulator_starts_the_installed_server(
    programs: Path, tmp_path: Path
) -> None:
    """Its models see their own packages alone, none of the environment that both are in."""
    port, archives = free_port(), tmp_path / "archives"
    archives.mkdir()
    with tarfile.open(archives / "dense.tar.gz", "w:gz") as archive:
        archive.add(DENSE / "repository", ".")
    words = ("up", "--models", str(archives), "--port", str(port))
    process = start(tmp_path / "log", {}, programs / "merlin-simulator", *words)
    url, target = f"http://127.0.0.1:{port}", {"X-Amzn-SageMaker-Target-Model": "dense.tar.gz"}
    try:
        with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as client:
            until(lambda: answers(client), "an instance is in service")
            assert client.get("/simulator/static/page.js").status_code == 200
            body = (DENSE / "request.json").read_bytes()
            check(client.post("/endpoints/local/invocations", content=body, headers=target))
    finally:
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def start(log: Path, environment: dict[str, str], *command: str | Path) -> subprocess.Popen[bytes]:
    """The process, in the directory of its log."""
    ours = ("SERVE_", "SAGEMAKER_", "PYTHONPATH")
    rest = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=log.parent,
            env={**rest, "SERVE_BACKEND_PYTHON": str(MODELS_PYTHON), **environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def answers(client: httpx.Client) -> bool:
    """Whether the endpoint listens, with an instance behind it."""
    try:
        return client.get("/simulator/health").status_code == 200
    except httpx.TransportError:
        return False


def check(answer: httpx.Response) -> None:
    """The numbers are Merlin's."""
    assert answer.status_code == 200, answer.text
    (got,) = answer.json()["outputs"]
    (want,) = json.loads((DENSE / "expected.json").read_text())["outputs"]
    assert got["data"] == pytest.approx(want["data"], rel=1e-6)


@pytest.mark.parametrize("extra", ["server", "tools", "simulator", "deploy"])
def test_a_missing_extra_is_said(without_extras: Path, tmp_path: Path, extra: str) -> None:
    """Without its packages a command names the one that is missing, and what brings it."""
    command = "merlin-" + {"server": "serve"}.get(extra, extra)
    # Help of these needs no package; a command of theirs does.
    needing = {"server": ["serve"], "simulator": ["up", "--models", "."], "deploy": ["example"]}
    words = needing.get(extra, ["--help"])
    said = run(str(without_extras / command), *words, code=1, cwd=tmp_path)
    bracketed = f"'.[{extra}]'"
    assert said.count("\n") == 1
    assert "is not installed" in said
    projects = {"deploy": ". ./deploy", "simulator": "./simulator"}
    assert f"pip install {projects.get(extra, bracketed)}" in said
