"""`render` and `policy` as a process that has no account, no region and no network to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.tests.support.commands import write_config
from tests.support.container import ROOT

pytestmark = pytest.mark.slow

RUN_TIMEOUT_S = 120


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Of an endpoint in Frankfurt."""
    return write_config(tmp_path, "shop", "[metrics]\nevery = 10", region="eu-central-1")


def test_render_writes_a_file_and_says_what_it_left_out(config: Path, tmp_path: Path) -> None:
    """Nothing on stdout then; the note is on stderr, and in the template."""
    file = tmp_path / "template.json"
    done = deploy("render", config, "-o", file, "--with-role")
    assert (done.returncode, done.stdout) == (0, "")
    template = json.loads(file.read_text())
    (left_out,) = template["Metadata"]["LeftOut"]
    assert done.stderr == f"left out: {left_out}\n"
    assert "ExecutionRole" in template["Resources"]
    refused = deploy("render", config, "-o", tmp_path)
    assert refused.returncode == 1
    assert "Is a directory; expected a file that can be written" in refused.stderr


def test_an_option_that_the_command_does_not_have(config: Path) -> None:
    """It is told beside those that it has."""
    refused = deploy("up", config, "--wait")
    assert refused.returncode == 2
    assert "--timeout SECONDS" in refused.stderr
    assert refused.stderr.endswith("deploy up: error: unrecognized arguments: --wait\n")


def test_help_lists_the_commands_without_the_docker_sdk() -> None:
    """Only `push` needs it, once it runs: the demo's environment has none."""
    program = (
        "import sys; sys.modules['docker'] = None; sys.argv[1:] = ['--help']; "
        "from merlin_deploy.__main__ import as_program; as_program('deploy')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/deploy/src"},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "push      bring an image to ECR" in done.stdout


def test_policy_prints_documents_of_the_configurations_region(config: Path) -> None:
    """All three, or one that IAM takes as it is."""
    done = deploy("policy", config)
    assert set(json.loads(done.stdout)) == {"trust", "role", "deploy"}
    tenant = json.loads(deploy("policy", config, "tenant", "shop-a").stdout)
    assert tenant["Statement"][0]["Resource"] == [
        "arn:aws:sagemaker:eu-central-1:123456789012:endpoint/shop"
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tenant",), "tenant: found no name"),
        (("tenant", "a/b"), "tenant: found a/b, expected 1 to 255 printable ASCII characters"),
        (("role", "shop-a"), "found shop-a, which is about a tenant's policy"),
        (("role", "--aliases"), "found --aliases, which is about a tenant's policy"),
    ],
)
def test_policy_refuses(config: Path, arguments: tuple[str, ...], sentence: str) -> None:
    """A tenant's name is no pattern, and has no place elsewhere."""
    done = deploy("policy", config, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr


def deploy(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Without a word about AWS in its environment."""
    return subprocess.run(
        [sys.executable, "-m", "deploy", *map(str, arguments)],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
