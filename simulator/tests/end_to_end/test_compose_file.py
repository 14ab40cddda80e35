"""What docker-compose.yml makes the simulator say, as far as it can be read without Docker."""

from __future__ import annotations

import re

import pytest

from tests.support.container import ROOT


@pytest.mark.parametrize("service", ["simulator", "s3"])
def test_the_address_that_is_told_is_the_published_one(service: str) -> None:
    """Inside, each listens at another port of all addresses, which nobody outside can ask."""
    text = (ROOT / "docker-compose.yml").read_text("utf-8")
    block = re.search(rf"^  {service}:\n((?:    .*\n|\n)+)", text, re.MULTILINE)
    assert block is not None
    (published,) = re.findall(r'- "(.+):\d+"', block[1])
    assert f"--public-url http://{published}" in block[1]
