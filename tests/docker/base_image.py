"""The image that the cpu and simulator targets stand on: the Dockerfile's own, or one made here.

Where no registry is reached, Debian's packages give the same: debootstrap, then docker import.
Standard library only (see engine.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.docker.engine import REMEDY, NoEngine, docker
from tests.docker.pip_settings import certificates

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
#: What python:3.11-slim-bookworm has of what the Dockerfile and the container use.
PACKAGES = ("ca-certificates", "python3", "python3-venv", "libpython3.11")
#: Where a made one is kept as a file, between runs on machines whose engines are fresh each time.
CACHE = "MERLIN_TEST_BASE_CACHE"
TAG = f"merlin-sagemaker-test-base:{SUITE}"
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
PULL_TIMEOUT_S = 300.0
#: 40 s on two idle cores, most of it dpkg; ten times that beside a whole suite.
DEBOOTSTRAP_TIMEOUT_S = 1200.0


def base_image(host: str) -> str:
    """The name of an image in that engine; made or pulled unless it is there already."""
    named = _named_in_dockerfile()
    if found := there_or_pulled(host, named, TAG):
        return found
    _import(host)
    return TAG


def there_or_pulled(host: str, named: str, made: str) -> str | None:
    """The first of the two that the engine has, or the first one pulled; None to make the other."""
    for name in (named, made):
        if docker(host, "image", "inspect", name, check=False).returncode == 0:
            return name
    return named if _pulled(host, named) else None


def _named_in_dockerfile() -> str:
    found = re.search(r"^ARG CPU_BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert found is not None, "the Dockerfile names no CPU_BASE"
    return found[1]


def _pulled(host: str, name: str) -> bool:
    command = ["docker", "--host", host, "pull", "--quiet", name]
    with contextlib.suppress(subprocess.TimeoutExpired):
        return not subprocess.run(
            command, check=False, capture_output=True, timeout=PULL_TIMEOUT_S
        ).returncode
    return False


def _packed(known: Path | None) -> Path:
    """A Debian as a tar file, with this machine's certificates if pip is told to trust them."""
    made_of = hashlib.sha256(" ".join((SUITE, *PACKAGES)).encode())
    made_of.update(known.read_bytes() if known else b"")
    directory = Path(os.environ.get(CACHE) or tempfile.gettempdir())
    directory.mkdir(parents=True, exist_ok=True)
    packed = directory / f"merlin-test-base-{SUITE}-{made_of.hexdigest()[:8]}.tar"
    if CACHE not in os.environ or not packed.exists():
        with _debian() as tree, tempfile.NamedTemporaryFile(dir=directory, delete=False) as file:
            if known:
                shutil.copyfile(known, tree / _CERTIFICATES)
            _run("tar", "--create", "--file", file.name, "--directory", str(tree), ".")
        Path(file.name).rename(packed)
    return packed


@contextlib.contextmanager
def _debian() -> Iterator[Path]:
    program = shutil.which("debootstrap")
    if program is None or os.geteuid() != 0:
        found = "debootstrap is not installed" if program is None else "only root may run it"
        raise NoEngine(f"{_named_in_dockerfile()} cannot be pulled, and {found}; {REMEDY}")
    with tempfile.TemporaryDirectory(prefix="debian-") as directory:
        wanted = f"--include={','.join(PACKAGES)}"
        _run(program, "--variant=minbase", wanted, SUITE, directory)
        for litter in ("var/cache/apt/archives", "var/lib/apt/lists", "usr/share/doc"):
            shutil.rmtree(Path(directory, litter))
        yield Path(directory)


def _import(host: str) -> None:
    known = certificates()
    packed = _packed(known)
    command = ["docker", "--host", host, "import", "--change", 'CMD ["python3"]']
    if known:
        command += ["--change", f"ENV PIP_CERT=/{_CERTIFICATES}"]
    _run(*command, str(packed), TAG)
    if CACHE not in os.environ:
        packed.unlink()


def _run(*command: str) -> None:
    done = subprocess.run(
        command,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=DEBOOTSTRAP_TIMEOUT_S,
    )
    if done.returncode:
        raise NoEngine(f"{command[0]} ended with {done.returncode}:\n{done.stdout[-3000:]}")
