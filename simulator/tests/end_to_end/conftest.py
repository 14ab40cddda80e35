"""What the simulator's tests share: runtime APIs, a browser for each module that asks for one."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from simulator.tests.end_to_end.page_driver import Browser, Page, started_browser
from simulator.tests.end_to_end.runtime_server import FakeEndpoint, Served, serving

ROOT = Path(__file__).parents[3]
AWS, AWS_PYTHON = ROOT / ".venv-aws/bin/aws", ROOT / ".venv-aws/bin/python"
CALL_TIMEOUT_S = 120.0  # the SDK's import alone takes 2 s on an idle machine


@pytest.fixture
def served() -> Iterator[Served]:
    """A multi-model endpoint's runtime API, of this test's own."""
    with serving(FakeEndpoint()) as running:
        yield running


@pytest.fixture
def single() -> Iterator[Served]:
    """A single-model endpoint's runtime API, of this test's own."""
    with serving(FakeEndpoint(multi_model=False)) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    """A headless Chromium for the module's tests."""
    async with started_browser(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A page of the browser, of this test's own."""
    page = await browser.page()
    yield page
    await page.close()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of archives, empty."""
    folder = tmp_path / "archives"
    folder.mkdir()
    return folder


@pytest.fixture
def aws_environment(tmp_path: Path) -> dict[str, str]:
    """Of one test's clients; see make_aws_environment."""
    return make_aws_environment(tmp_path)


def run_client(
    environment: Mapping[str, str], *command: str | Path, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """A client's program, run to its end in this environment, which is this exit code."""
    ended = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=CALL_TIMEOUT_S,
        env=dict(environment),
    )
    assert ended.returncode == code, ended.stderr
    return ended


def make_aws_environment(home: Path) -> dict[str, str]:
    """What the AWS clients read: credentials that are nobody's, and no files of the user's."""
    return {
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(home / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(home / "no-credentials"),
        "AWS_PAGER": "",
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "SAGEMAKER_SUPPRESS_V2_WARNING": "1",
        # Python's own settings of this run must not reach another environment's Python.
        "PYTHONNOUSERSITE": "1",
        "NO_PROXY": "127.0.0.1",
    }
