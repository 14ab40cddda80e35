"""QueryFeast in the container: features of a Feast store, which may be down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.container import ROOT, Container, free_port, running, until
from tests.support.moto_server import moto_server

PYTHON = ROOT / ".venv-merlin/bin/python"
#: For a look-up; and for an answer that takes no longer than that, on a busy machine.
PATIENCE_S = 2.0
#: What botocore asks for, and moto does not look at.
NOBODY = {
    "AWS_ACCESS_KEY_ID": "nobody",
    "AWS_SECRET_ACCESS_KEY": "nothing",
    "AWS_DEFAULT_REGION": "us-east-1",
}
REPOSITORY = "executor_model/1/ensemble/repo"

pytestmark = [pytest.mark.thorough, pytest.mark.tritonserver]


class Redis:
    """A server of these tests' own, which keeps what it was told when it is killed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.port = free_port()

    def start(self) -> None:
        program = shutil.which("redis-server")
        assert program is not None, "redis-server is not there: apt-get install redis-server"
        self.process = subprocess.Popen(
            [
                *(program, "--port", str(self.port), "--bind", "127.0.0.1"),
                *("--dir", str(self.directory), "--appendonly", "yes", "--save", ""),
            ],
            stdout=subprocess.DEVNULL,
        )
        until(self._listens, "redis-server listens")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """It runs, between the tests."""
    server = Redis(tmp_path_factory.mktemp("stores") / "redis")
    server.start()
    yield server
    server.end()


@pytest.fixture(scope="module")
def dynamodb() -> Iterator[str]:
    """Its URL; moto plays it."""
    with moto_server() as url:
        yield url


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, redis: Redis, dynamodb: str) -> Path:
    """What tests/support/feast_export.py makes, a folder for each store; exports stand alone."""
    target = tmp_path_factory.mktemp("made")
    stores = {
        "sqlite": {"type": "sqlite", "path": "online.db"},
        "redis": {"type": "redis", "connection_string": f"127.0.0.1:{redis.port}"},
        "dynamodb": {"type": "dynamodb", "region": "us-east-1", "endpoint_url": dynamodb},
    }
    program = ROOT / "tests/support/feast_export.py"
    environment = {**os.environ, **NOBODY}
    subprocess.run(
        [PYTHON, program, target, json.dumps(stores)],
        check=True,
        capture_output=True,
        env=environment,
    )
    for name in stores:
        shutil.rmtree(target / name / "features")
    return target


@contextmanager
def served(directory: Path, **settings: str) -> Iterator[Container]:
    """Archives lie wherever the tests of this module put them."""
    known = {
        "SERVE_MODEL_ROOT": str(directory.parent),
        "SERVE_BACKEND_PYTHON": str(PYTHON),
        "SERVE_FEATURE_STORE_TIMEOUT": str(PATIENCE_S),
        **NOBODY,
        **settings,
    }
    with running(directory, **known) as container:
        yield container


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """With nothing in it: each test loads what it asks, and unloads it."""
    with served(tmp_path_factory.mktemp("container")) as started:
        yield started


@pytest.fixture(scope="module")
def cold(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """The same without warm interpreters."""
    with served(tmp_path_factory.mktemp("cold"), SERVE_WARM="off") as started:
        yield started


def ask(container: Container, ids: list[int]) -> httpx.Response:
    tensor = {"name": "user", "datatype": "INT64", "shape": [len(ids)], "data": ids}
    return container.invoke("m", {"inputs": [tensor]})


def ask_in_time(container: Container, ids: list[int]) -> httpx.Response:
    """The answer, once the store has one within PATIENCE_S: on a busy machine it may not."""
    answers: list[httpx.Response] = []

    def is_in_time() -> bool:
        answers.append(ask(container, ids))
        return "it has not answered within" not in answers[-1].text

    until(is_in_time, "the store answers in time", container)
    return answers[-1]


def check_answers(container: Container, made: Path) -> None:
    """Merlin's numbers; where it fails the answer is the caller's fault."""
    for ids, expected in json.loads((made / "answers.json").read_text()):
        answer = ask_in_time(container, ids)
        if isinstance(expected, str):
            assert answer.status_code == 400, answer.text
            continue
        outputs = {it["name"]: it["data"] for it in answer.json()["outputs"]}
        assert outputs == expected


@pytest.mark.parametrize("warm", ["container", "cold"])
def test_sqlite(made: Path, warm: str, request: pytest.FixtureRequest) -> None:
    """A file of the archive's, which is not written to; who is not in it is named."""
    container: Container = request.getfixturevalue(warm)
    archive = made / "sqlite/export"
    before = {path: path.stat().st_mtime_ns for path in archive.rglob("*")}
    with container.loaded("m", archive):
        check_answers(container, made / "sqlite")
        refused = ask_in_time(container, [4, 99, 98])
        assert refused.status_code == 400
        assert "the view users of the feature store has no age for user_id 99, 98" in refused.text
        assert "at least one id" in ask_in_time(container, []).text
    assert {path: path.stat().st_mtime_ns for path in archive.rglob("*")} == before


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (REPOSITORY, None, "there is no feature repository"),
        (f"{REPOSITORY}/registry.db", None, "cannot read the view users"),
        (f"{REPOSITORY}/registry.db", "what is no registry", "cannot read the view users"),
        (f"{REPOSITORY}/online.db", None, "the online store online.db of the feature repository"),
        (f"{REPOSITORY}/feature_store.yaml", "project: [", "cannot read the view users"),
        (f"{REPOSITORY}/feature_store.yaml", "project: shop\nprovider: mars", "KeyError"),
    ],
)
def test_a_repository_that_is_none(
    container: Container,
    tmp_path: Path,
    made: Path,
    file: str,
    content: str | None,
    said: str,
) -> None:
    """Refused in a sentence when it is loaded."""
    shutil.copytree(made / "sqlite/export", tmp_path / "export")
    broken = tmp_path / "export" / file
    if content is not None:
        broken.write_text(content)
    elif broken.is_dir():
        shutil.rmtree(broken)
    else:
        broken.unlink()
    refused = container.load("m", tmp_path / "export")
    assert refused.status_code == 400
    assert said in refused.json()["error"]
    assert "QueryFeast: " in refused.json()["error"]
    assert str(tmp_path / "export") not in refused.json()["error"]
    if broken != tmp_path / "export" / REPOSITORY:
        assert "the feature repository repo " in refused.json()["error"]
    assert container.models() == {}


def until_answered(container: Container) -> None:
    until(lambda: ask(container, [1]).status_code == 200, "it heals", container)


def check_refused(container: Container, said: str) -> None:
    refused = ask(container, [1])
    assert refused.status_code == 503, refused.text
    assert refused.json()["error"].startswith("the model m cannot answer now: ")
    assert "QueryFeast: the feature store cannot be asked: " in refused.json()["error"]
    assert said in refused.json()["error"]


def test_redis_that_dies_or_hangs(container: Container, made: Path, redis: Redis) -> None:
    """503 in bounded time, for that request; all is well when the store is."""
    with container.loaded("m", made / "redis/export"):
        check_answers(container, made / "redis")

        redis.end()
        for _ in range(3):
            check_refused(container, "ConnectionError")
        redis.start()
        until_answered(container)

        os.kill(redis.process.pid, signal.SIGSTOP)
        try:
            check_refused(container, "it has not answered within 2 s (SERVE_FEATURE_STORE_TIMEOUT)")
            began = time.monotonic()  # those that come then do not queue
            for _ in range(20):
                assert ask(container, [1]).status_code == 503
            assert time.monotonic() - began < 20 * PATIENCE_S / 2
        finally:
            os.kill(redis.process.pid, signal.SIGCONT)
        until_answered(container)
        check_answers(container, made / "redis")


def test_it_can_be_loaded_while_the_store_is_down(
    container: Container, made: Path, redis: Redis
) -> None:
    redis.end()
    try:
        with container.loaded("m", made / "redis/export"):
            check_refused(container, "ConnectionError")
            redis.start()
            until_answered(container)
    finally:
        if redis.process.poll() is not None:
            redis.start()


def test_dynamodb(container: Container, made: Path, dynamodb: str) -> None:
    """A table that is gone is a 503."""
    with container.loaded("m", made / "dynamodb/export"):
        check_answers(container, made / "dynamodb")
        httpx.post(f"{dynamodb}/moto-api/reset", timeout=60)
        check_refused(container, "ResourceNotFound")
