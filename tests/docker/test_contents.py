"""What is in the images: what is named here, what the SBOM says, and nothing else."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

import docker
import pytest
from docker.models.containers import Container
from packaging.utils import canonicalize_name

from images.__main__ import sbom_of
from images.contents import Image, cpu_image, gpu_image, simulator_image
from tests.docker.images import Built

#: Our own code.
SERVING = frozenset({"container", "serve", "ensemble_tools", "verification"})
SIMULATING = frozenset({"merlin_simulator"})

#: Prints the packages of each environment, by the metadata that pip leaves.
_INSTALLED = """
import json, sys
from importlib import metadata
from pathlib import Path
print(json.dumps({
    folder: sorted(
        [found.metadata["Name"], found.version]
        for found in metadata.distributions(path=map(str, Path(folder).glob("lib/*/site-packages")))
    )
    for folder in sys.argv[1:]
}))
"""


@dataclass(frozen=True)
class Kind:
    """An image under test: what is in it, below which folder, and what of ours."""

    contents: Image
    folder: str = "/opt/serve"
    ours: frozenset[str] = SERVING


#: By their names in Built, with the name of what each stands on. Bases are the SBOM's affair, not
#: that of these tests.
KINDS = {
    ("cpu", "base"): Kind(cpu_image("base", "torch")),
    ("gpu", "merlin"): Kind(gpu_image("base", "3.10")),
    ("plain", "triton"): Kind(gpu_image("base", "3.12")),
    ("simulator", "base"): Kind(simulator_image("base"), "/opt/simulator", SIMULATING),
}


@dataclass(frozen=True)
class Case:
    """A container of an image, in which nothing runs, and what lay in the image's base."""

    kind: Kind
    container: Container
    files: frozenset[str]
    bases_files: frozenset[str]

    @property
    def ours(self) -> list[str]:
        """The paths below our folder, from there on."""
        below = f"{self.kind.folder}/"
        return [path.removeprefix(below) for path in self.files if path.startswith(below)]


@pytest.fixture(scope="module", params=KINDS, ids=[name for name, _ in KINDS])
def case(
    request: pytest.FixtureRequest, engine: docker.DockerClient, images: Built
) -> Iterator[Case]:
    """Each image."""
    name, base = request.param
    with idle(engine, getattr(images, base)) as container:
        bases_files = files(container)
    with idle(engine, getattr(images, name)) as container:
        yield Case(KINDS[request.param], container, files(container), bases_files)


@contextlib.contextmanager
def idle(engine: docker.DockerClient, image: str) -> Iterator[Container]:
    """A container to run commands in. (What a container prints that ends may come in part.)"""
    container = engine.containers.run(image, ["infinity"], entrypoint="sleep", detach=True)
    try:
        yield container
    finally:
        container.remove(force=True)


def run(container: Container, *command: str) -> str:
    """The output of a command in the container, which must succeed."""
    code, output = container.exec_run(list(command))
    assert code == 0, output
    return str(output.decode())


def files(container: Container) -> frozenset[str]:
    """Every file and link, of Docker's own mounts none."""
    mounts = ("/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
    skipped = " -o ".join(f"-path {path}" for path in (*mounts, "/.dockerenv"))
    script = f"find / \\( {skipped} \\) -prune -o ! -type d -print"
    return frozenset(run(container, "/bin/sh", "-c", script).splitlines())


def test_the_sbom_is_what_is_installed(case: Case) -> None:
    """Each package of each environment, with its version, and none beside them."""
    folders = [it.folder for it in case.kind.contents.environments]
    python = f"{folders[0]}/bin/python"
    said = json.loads(run(case.container, python, "-I", "-c", _INSTALLED, *folders))
    installed = {
        (canonicalize_name(name), version, folder)
        for folder, packages in said.items()
        for name, version in packages
    }
    assert len(installed) > 30
    assert {*listed(case.kind.contents)} == installed


def listed(image: Image) -> Iterator[tuple[str, str, str]]:
    """Name, version and folder of each package that the SBOM has."""
    document = json.loads(sbom_of(image, datetime.now(timezone.utc)))
    for component in document["components"]:
        if component["type"] == "library":
            for place in component["evidence"]["occurrences"]:
                yield component["name"], component["version"], place["location"]


def test_nothing_unexpected(case: Case) -> None:
    """Outside of our folder the base is as it was; in it are the environments and our packages.

    No bytecode for the base's Python either, which would be another one with each build.
    """
    below = f"{case.kind.folder}/"
    others, bases = (
        {path for path in paths if not path.startswith(below)}
        for paths in (case.files, case.bases_files)
    )
    assert others - bases == set()
    assert bases - others == set()
    environments = {it.folder.removeprefix(below) for it in case.kind.contents.environments}
    of_the_base = {path.removeprefix(below) for path in case.bases_files if path.startswith(below)}
    tops = {path.partition("/")[0] for path in {*case.ours} - of_the_base}
    assert tops == environments | case.kind.ours


def test_no_tools_and_no_tests(case: Case) -> None:
    """The server's environment has no pip; our packages have no tests, nor have others' wheels."""
    names = {part for path in case.ours if path.startswith(".venv/") for part in path.split("/")}
    assert "site-packages" in names
    assert names & {"pip", "pip3", "setuptools", "pkg_resources", "wheel", "ensurepip"} == set()
    assert [path for path in case.ours if "/tests/" in path] == []
