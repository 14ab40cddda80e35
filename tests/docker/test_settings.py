"""What can be set: .env.example says what the compose files take."""

from __future__ import annotations

import re

from tests.docker.base_image import ROOT


def read(file: str) -> str:
    """A compose file without its comments and its dollar signs that stay."""
    text = (ROOT / file).read_text().replace("$$", "")
    return re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)


def taken(file: str) -> dict[str, str]:
    """The variables of a compose file and their defaults."""
    return dict(re.findall(r"\$\{([A-Z0-9_]+):-([^}]*)\}", read(file)))


def test_the_list_is_whole() -> None:
    """.env.example lists every variable, commented out, with the default that it has."""
    text = (ROOT / ".env.example").read_text()
    listed = dict(re.findall(r"^#([A-Z0-9_]+)=(.*)$", text, re.MULTILINE))
    wanted = taken("docker-compose.gpu.yml") | taken("docker-compose.yml")
    # Given to nobody by default; listed with the place where engines have it.
    assert wanted.pop("DOCKER_SOCKET") == "/dev/null"
    assert listed.pop("DOCKER_SOCKET") == "/var/run/docker.sock"
    assert listed == wanted


def test_no_variable_without_a_default() -> None:
    """Without a .env nothing is missing: compose would only warn, and put in nothing."""
    for file in ("docker-compose.yml", "docker-compose.gpu.yml"):
        assert re.findall(r"\$(?!\{[A-Z0-9_]+:-)", read(file)) == []
