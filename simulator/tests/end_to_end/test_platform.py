"""The platform's behaviour, against a container with knobs: `python -m simulator up`, for real."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from simulator.tests.support.simulator import (
    FAKE_CONTAINER,
    Simulator,
    archive,
    fake_model,
    make_room_for,
    read_answers,
    simulator,
)
from tests.support.container import ROOT, until


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Simulator, Path]]:
    """An endpoint as it is without options, and its folder of archives."""
    folder = tmp_path_factory.mktemp("usual")
    (folder / "archives").mkdir()
    with simulator(folder / "archives", folder / "log") as played:
        yield played, folder / "archives"


@pytest.fixture
def shared(usual: tuple[Simulator, Path]) -> Simulator:
    """The usual endpoint, for a test with archives of its own in shop; its events from now on."""
    played, _ = usual
    played.begin()
    return played


@pytest.fixture
def shop(usual: tuple[Simulator, Path]) -> Path:
    """The usual endpoint's folder of archives."""
    return usual[1]


def _states(played: Simulator, *names: str) -> dict[str, str]:
    """Where these models are, of those that are anywhere."""
    return {name: state for name, state in played.states().items() if name in names}


def _answer(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()["answer"]


def _error(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.headers["x-amzn-errortype"]


#: What boto3 asks for, whatever it is.
_AWS = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "b",
    "AWS_DEFAULT_REGION": "us-east-1",
}


# -- coming


def test_a_model_comes_in_order_and_once_however_many_wait(shared: Simulator, shop: Path) -> None:
    """Download, extraction, load, invocation: in this order, once for eight callers at a time."""
    fake_model(shop, "eight.tar.gz")
    with ThreadPoolExecutor(8) as pool:
        with shared.halted():
            asked = [pool.submit(shared.invoke, "eight.tar.gz") for _ in range(8)]
            until(lambda: shared.instance()["in_flight"] == 8, "all of them wait")
        assert read_answers([it.result() for it in asked]) == ["eight.tar.gz"] * 8
    kinds = [event["kind"] for event in shared.events() if event.get("target_model")]
    coming = ["download_started", "download_finished", "extracted", "load_started", "loaded"]
    assert kinds == [*coming, *["invoked"] * 8]
    assert all(event["cold"] for event in shared.kinds("invoked"))
    assert shared.fake()["faults"] == []


def test_a_model_that_is_there_is_asked_at_once(shared: Simulator, shop: Path) -> None:
    """The second invocation is warm, and brings nothing."""
    fake_model(shop, "sub/twice.tar.gz")
    for _ in range(2):
        assert _answer(shared.invoke("sub/twice.tar.gz")) == "sub/twice.tar.gz"
    assert [event["cold"] for event in shared.kinds("invoked")] == [True, False]
    assert len(shared.kinds("download_started", "load_started")) == 2


def test_body_and_headers_pass_through(shared: Simulator, shop: Path) -> None:
    """The container's bytes and custom attributes are the caller's."""
    fake_model(shop, "echo.tar.gz")
    answer = shared.boto3_client().invoke_endpoint(
        EndpointName="test", TargetModel="echo.tar.gz", Body=b"\x00\xff", ContentType="x/y"
    )
    assert json.loads(answer["Body"].read())["echo"] == "\x00\xff"
    assert answer["CustomAttributes"] == "seen"
    assert answer["InvokedProductionVariant"] == "AllTraffic"


def test_a_slow_load_goes_on_while_its_caller_is_told_to_wait(models: Path, tmp_path: Path) -> None:
    """ModelNotReadyException after the wait; the load is not begun again, and then answers."""
    fake_model(models, "a.tar.gz")
    with simulator(models, tmp_path / "log", "--cold-wait", "0.3") as played:
        with played.halted():
            assert _error(played.invoke("a.tar.gz")) == (429, "ModelNotReadyException")
        until(lambda: played.states() == {"a.tar.gz": "loaded"}, "it is loaded")
        assert _answer(played.invoke("a.tar.gz")) == "a.tar.gz"
        assert len(played.kinds("load_started")) == 1


def test_a_replaced_archive_does_not_touch_the_copy(shared: Simulator, shop: Path) -> None:
    """What is extracted stays what is served."""
    fake_model(shop, "replaced.tar.gz")
    shared.invoke("replaced.tar.gz")
    archive(shop / "replaced.tar.gz", {"answer.json": b'{"answer": "new"}'})
    assert _answer(shared.invoke("replaced.tar.gz")) == "replaced.tar.gz"


# -- room


def test_a_507_unloads_the_least_recently_used_and_keeps_its_archive(
    models: Path, tmp_path: Path
) -> None:
    """Two fit: the third takes the place of the one asked longest ago, which stays on disk."""
    for name in "abc":
        fake_model(models, name)
    with simulator(models, tmp_path / "log", container=make_room_for(2)) as played:
        for name in ("a", "b", "a", "c"):
            assert _answer(played.invoke(name)) == name
        assert played.states() == {"a": "loaded", "b": "on disk", "c": "loaded"}
        assert [event["reason"] for event in played.kinds("unloaded")] == ["507"]
        assert _answer(played.invoke("b")) == "b"
        fetched = Counter(event["target_model"] for event in played.kinds("download_started"))
        assert fetched == {"a": 1, "b": 1, "c": 1}


def test_memory_above_the_threshold_unloads_before_the_load(models: Path, tmp_path: Path) -> None:
    """Three models of 60 MiB in 256 MiB: the container never says 507, and never has four."""
    for number in range(6):
        fake_model(models, f"m{number}", mebibytes=60)
    with simulator(models, tmp_path / "log", "--memory", "256MB") as played:
        for number in range(6):
            assert _answer(played.invoke(f"m{number}")) == f"m{number}"
            assert played.instance()["memory_used"] < 256 * 2**20
        assert {event["reason"] for event in played.kinds("unloaded")} == {"memory"}
        assert "loaded" in played.states().values()
        assert played.kinds("load_failed") == []


def test_without_anything_to_unload_the_caller_gets_the_containers_507(
    models: Path, tmp_path: Path
) -> None:
    """ModelError with the container's status and message; no endless trying."""
    fake_model(models, "a")
    with simulator(models, tmp_path / "log", container=make_room_for(0)) as played:
        refused = played.invoke("a")
        assert _error(refused) == (424, "ModelError")
        assert refused.json()["OriginalStatusCode"] == 507
        assert "0 models fit" in refused.json()["OriginalMessage"]
        assert len(played.kinds("load_started")) == 1


def test_what_the_caller_gets_without_memory_is_a_setting(models: Path, tmp_path: Path) -> None:
    """--without-memory service-unavailable, since AWS does not say."""
    fake_model(models, "a")
    options = ("--without-memory", "service-unavailable")
    with simulator(models, tmp_path / "log", *options, container=make_room_for(0)) as played:
        assert _error(played.invoke("a")) == (503, "ServiceUnavailable")


def test_room_is_made_a_bounded_number_of_times(models: Path, tmp_path: Path) -> None:
    """A model that never fits costs the others that many places, and no more."""
    for name in "abcd":
        fake_model(models, name)
    fake_model(models, "giant", load_status=507)
    with simulator(models, tmp_path / "log", "--evictions", "2") as played:
        for name in "abcd":
            played.invoke(name)
        refused = played.invoke("giant")
        assert refused.json()["OriginalStatusCode"] == 507
        assert Counter(played.states().values())["loaded"] == 2
        assert _answer(played.invoke("d")) == "d"


def test_an_invocation_that_lacks_memory_makes_room_and_is_tried_again(
    models: Path, tmp_path: Path
) -> None:
    """507 on invoke: another model is unloaded, then the same request is answered."""
    fake_model(models, "other")
    fake_model(models, "hungry", needs_alone=True)
    with simulator(models, tmp_path / "log") as played:
        played.invoke("other")
        assert _answer(played.invoke("hungry")) == "hungry"
        assert played.states()["other"] == "on disk"
        answered = [event["container_statuses"] for event in played.kinds("invoked")]
        assert answered == ["200", "507 200"]


def test_a_full_disk_lets_go_of_what_is_not_loaded_first(models: Path, tmp_path: Path) -> None:
    """With room for two archives on disk and one model in memory, the oldest archive leaves."""
    for name in "abc":
        fake_model(models, name, padding="x" * 100_000)
    options = ("--disk", "250KB")
    with simulator(models, tmp_path / "log", *options, container=make_room_for(1)) as played:
        for name in "abc":
            assert _answer(played.invoke(name)) == name
        assert played.states() == {"b": "on disk", "c": "loaded"}
        assert [event["target_model"] for event in played.kinds("deleted")] == ["a"]
        assert played.instance()["disk_used"] <= 250 * 1024


def test_an_archive_larger_than_the_disk_is_refused_and_harms_nobody(
    models: Path, tmp_path: Path
) -> None:
    """ValidationError that names the budget, before it is on the disk; the loaded model stays."""
    fake_model(models, "small")
    fake_model(models, "large", padding="x" * 500_000)
    with simulator(models, tmp_path / "log", "--disk", "250KB") as played:
        played.invoke("small")
        refused = played.invoke("large")
        assert _error(refused) == (400, "ValidationError")
        assert "256000 bytes on disk" in refused.text
        assert played.states() == {"small": "loaded"}


def test_without_the_cache_a_model_leaves_after_its_answer(models: Path, tmp_path: Path) -> None:
    """ModelCacheSetting=Disabled: unloaded and deleted; the next invocation is cold again.

    Also where the container does not know it any more: 404 to the unload.
    """
    fake_model(models, "a")
    fake_model(models, "unknown", unload_status=404)
    with simulator(models, tmp_path / "log", "--cache", "Disabled") as played:
        for _ in range(2):
            assert _answer(played.invoke("a")) == "a"
            until(lambda: played.states() == {}, "it has left")
        assert _answer(played.invoke("unknown")) == "unknown"
        until(lambda: played.states() == {}, "it has left, too")
        assert played.kinds("unload_failed") == []
        assert [event["cold"] for event in played.kinds("invoked")] == [True] * 3
        assert [event["reason"] for event in played.kinds("unloaded")] == ["not cached"] * 3


# -- load


def test_many_callers_on_more_models_than_fit(models: Path, tmp_path: Path) -> None:
    """32 callers, 50 models, memory for 10: no failure, no wrong answer, no model loaded twice."""
    for number in range(50):
        fake_model(models, f"m{number}", load_seconds=0.02, invoke_seconds=0.01)
    with simulator(models, tmp_path / "log", container=make_room_for(10)) as played:

        def caller(seed: int) -> list[str]:
            names = [f"m{(seed * 7 + step * step * 3) % 50}" for step in range(20)]
            return [name for name in names if _answer(played.invoke(name)) != name]

        with ThreadPoolExecutor(32) as pool:
            assert list(pool.map(caller, range(32))) == [[]] * 32
        assert played.fake()["faults"] == []
        assert played.kinds("invocation_failed") == []
        assert len(played.kinds("invoked")) == 640
        assert len(played.kinds("unloaded")) > 40


def test_a_model_that_callers_wait_for_is_not_unloaded_before_they_are_answered(
    models: Path, tmp_path: Path
) -> None:
    """One fits, two slow models asked at once: one after the other, each loaded once."""
    for name in "ab":
        fake_model(models, name, load_seconds=0.1, invoke_seconds=0.3)
    with simulator(models, tmp_path / "log", container=make_room_for(1)) as played:
        assert read_answers(played.invoke_all("a", "b")) == ["a", "b"]
        assert played.fake()["faults"] == []
        assert len(played.kinds("loaded")) == 2


def test_loads_at_once_are_bounded(models: Path, tmp_path: Path) -> None:
    """--loads-at-once 2: of six cold models never more than two are with the container."""

    def most(round_: int) -> int:
        names = [f"m{round_}-{number}" for number in range(6)]
        for name in names:
            fake_model(models, name, load_seconds=0.2)
        assert read_answers(played.invoke_all(*names)) == names
        return int(played.fake()["most_loading"])

    with simulator(models, tmp_path / "log", "--loads-at-once", "2") as played:
        # On a busy machine one may be loaded before the next one comes.
        rounds = itertools.count()
        until(lambda: most(next(rounds)) >= 2, "two were loaded at once")
        assert played.fake()["most_loading"] == 2


def test_a_busy_model_gets_a_second_copy(models: Path, tmp_path: Path) -> None:
    """Above --busy-at requests in flight another instance loads it, and then answers too."""
    fake_model(models, "a", invoke_seconds=0.2)
    with simulator(models, tmp_path / "log", "--busy-at", "2", instances=2) as played:
        played.invoke("a")

        def answering() -> set[str]:
            read_answers(played.invoke_all(*"aaaaaa"))
            return {event["instance"] for event in played.kinds("invoked")}

        until(lambda: answering() == {"instance-1", "instance-2"}, "both answer")
        assert len(played.kinds("loaded")) == 2


def test_models_are_spread_over_instances_and_asked_where_they_are(
    models: Path, tmp_path: Path
) -> None:
    """Four models, two instances: two on each; every later request goes where its model is."""
    for name in "abcd":
        fake_model(models, name)
    with simulator(models, tmp_path / "log", instances=2) as played:
        for name in "abcdabcd":
            assert _answer(played.invoke(name)) == name
        assert [len(played.states(number)) for number in (0, 1)] == [2, 2]
        assert len(played.kinds("loaded")) == 4


# -- faults


def test_a_killed_instance_fails_what_it_held_and_nothing_else(
    models: Path, tmp_path: Path
) -> None:
    """What was in its hands: ModelError, 5xx. All later ones are answered, by the other one."""
    fake_model(models, "slow", invoke_seconds=600)
    fake_model(models, "a")
    with simulator(models, tmp_path / "log", "--busy-at", "99", instances=2) as played:
        held: list[httpx.Response] = []
        call = threading.Thread(target=lambda: held.append(played.invoke("slow")))
        call.start()
        until(lambda: played.states() == {"slow": "loaded"}, "the slow model is asked")
        until(lambda: played.instance()["models"][0]["invocations"] == 1, "it has the request")
        os.kill(played.fake()["pid"], signal.SIGKILL)
        for _ in range(20):
            assert _answer(played.invoke("a")) == "a"
        call.join()
        assert _error(held[0]) == (424, "ModelError")
        assert held[0].json()["ErrorCode"] == "INTERNAL_FAILURE_FROM_MODEL"
        until(lambda: played.in_service(2), "the instance is back")
        assert played.kinds("instance_ended")[0]["message"].startswith(
            "the container ended with signal 9"
        )
        assert len(played.kinds("invocation_failed")) == 1


def test_without_an_instance_in_service_the_endpoint_says_so(models: Path, tmp_path: Path) -> None:
    """ServiceUnavailable with what the instance does; once it is back, answers."""
    fake_model(models, "a")
    held = tmp_path / "held"
    command = f"sh -c 'while [ -e {held} ]; do sleep 0.05; done; exec {FAKE_CONTAINER}'"
    with simulator(models, tmp_path / "log", container=command) as played:
        played.invoke("a")
        pid = played.fake()["pid"]
        held.touch()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{pid}").exists(), "it has ended")
        refused = played.invoke("a")
        assert _error(refused) == (503, "ServiceUnavailable")
        assert "instance-1" in refused.json()["Message"]
        held.unlink()
        until(lambda: played.in_service(1), "the instance is back")
        assert _answer(played.invoke("a")) == "a"


def test_a_container_that_keeps_dying_is_given_up(models: Path, tmp_path: Path) -> None:
    """After its restarts, never in service: the endpoint ends with the container's last words."""
    command = "python3 -c \"raise SystemExit('no model here')\""
    with simulator(models, tmp_path / "log", container=command, instances=0) as played:
        until(lambda: played.process.poll() is not None, "it has ended")
        assert played.process.returncode == 1
    said = (tmp_path / "log").read_text()
    assert said.count("instance starting") == 4
    assert "simulator: instance-1 was never healthy" in said
    assert "no model here" in said.splitlines()[-1]


def test_models_that_the_container_lost_are_brought_again(models: Path, tmp_path: Path) -> None:
    """A container that forgot its models: the caller is answered all the same."""
    fake_model(models, "a")
    with simulator(models, tmp_path / "log", "--ping-every", "60") as played:
        played.invoke("a")
        played.http.post(f"{played.instance()['url']}/fake/forget")
        assert _answer(played.invoke("a")) == "a"
        assert len(played.kinds("lost")) == 1
        assert len(played.kinds("download_started")) == 1


def test_a_lost_model_is_noticed_by_the_poll(shared: Simulator, shop: Path) -> None:
    """GET /models is polled beside /ping: what is not in it is not loaded."""
    fake_model(shop, "lost")
    shared.invoke("lost")
    assert _states(shared, "lost") == {"lost": "loaded"}
    shared.http.post(f"{shared.instance()['url']}/fake/forget")
    until(lambda: set(shared.states().values()) == {"on disk"}, "it is noticed")


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("missing", None, "Failed to download model data"),
        ("no-tar", b"this is no archive", "Failed to extract model data"),
        ("empty", b"", "Failed to extract model data"),
    ],
)
def test_a_bad_archive_is_the_callers_to_know_and_the_next_model_works(
    shared: Simulator, shop: Path, name: str, content: bytes | None, says: str
) -> None:
    """ValidationError in the platform's words; nothing of it stays."""
    good = f"after-{name}"
    fake_model(shop, good)
    if content is not None:
        (shop / name).write_bytes(content)
    refused = shared.invoke(name)
    assert _error(refused) == (400, "ValidationError")
    assert says in refused.json()["Message"]
    assert _answer(shared.invoke(good)) == good
    assert _states(shared, name, good) == {good: "loaded"}


def test_a_truncated_archive_is_never_loaded(shared: Simulator, shop: Path) -> None:
    """Half a download is no model; when the archive is whole, it works without a restart."""
    whole = fake_model(shop, "half", padding="".join(map(str, range(50_000)))).read_bytes()
    (shop / "half").write_bytes(whole[: len(whole) // 2])
    before = shared.fake()["calls"]
    assert _error(shared.invoke("half")) == (400, "ValidationError")
    assert shared.fake()["calls"] == before
    (shop / "half").write_bytes(whole)
    assert _answer(shared.invoke("half")) == "half"


def test_a_model_that_does_not_load_brings_the_containers_message(
    shared: Simulator, shop: Path
) -> None:
    """ModelError, the container's status and words; the next model works."""
    fake_model(shop, "bad", load_status=400)
    fake_model(shop, "after-bad")
    refused = shared.invoke("bad")
    assert _error(refused) == (424, "ModelError")
    assert refused.json()["OriginalStatusCode"] == 400
    assert refused.json()["ErrorCode"] == "CLIENT_ERROR_FROM_MODEL"
    assert "it says so" in refused.json()["OriginalMessage"]
    assert _answer(shared.invoke("after-bad")) == "after-bad"


def test_a_model_that_the_container_has_already_is_loaded(shared: Simulator, shop: Path) -> None:
    """409: the answer to an earlier load was lost."""
    fake_model(shop, "there", load_status=409)
    shared.invoke("there")
    assert shared.kinds("load_failed") == []
    assert {event["target_model"] for event in shared.kinds("loaded")} == {"there"}


def test_an_invocation_that_takes_too_long_has_status_0(models: Path, tmp_path: Path) -> None:
    """ModelError with OriginalStatusCode 0, as SageMaker's 60 s limit has it."""
    fake_model(models, "slow", invoke_seconds=600)
    with simulator(models, tmp_path / "log", "--invoke-timeout", "0.3") as played:
        refused = played.invoke("slow")
        assert _error(refused) == (424, "ModelError")
        assert refused.json()["OriginalStatusCode"] == 0


def test_a_models_own_error_reaches_the_caller(shared: Simulator, shop: Path) -> None:
    """The container's 500 is INTERNAL_FAILURE_FROM_MODEL, its body the original message."""
    fake_model(shop, "fails", invoke_status=500)
    refused = shared.invoke("fails").json()
    assert (refused["OriginalStatusCode"], refused["ErrorCode"]) == (
        500,
        "INTERNAL_FAILURE_FROM_MODEL",
    )
    assert "the model failed" in refused["OriginalMessage"]


# -- S3


@pytest.fixture
def s3(models: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A local S3 in a process of its own, filled from the folder; and its url."""
    fake_model(models, "a.tar.gz")
    fake_model(models, "b.tar.gz")
    command = [sys.executable, "-m", "simulator", "s3", "--port", "0", "--bucket", "models"]
    process = subprocess.Popen(
        [*command, "--fill", str(models), "--prefix", "shop"], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, b"")
        url = next(found[0] for line in lines if (found := re.search(r"http://\S+:\d+", str(line))))
        until(lambda: httpx.get(f"{url}/-/ready", timeout=60).status_code == 200, "it is filled")
        yield process, url
    finally:
        process.kill()
        process.communicate()


def test_archives_from_s3_and_an_s3_that_is_slow_and_then_down(
    s3: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    """Slow: ModelNotReadyException, and the model is there when S3 is. Down: InternalFailure.

    What is loaded is answered all the time.
    """
    process, url = s3
    options = ("--s3-endpoint-url", url, "--cold-wait", "1")
    with simulator("s3://models/shop", tmp_path / "log", *options, environment=_AWS) as played:

        def end(target: str) -> httpx.Response:
            """Its answer, once S3 is not too slow: on a busy machine it may be at first."""
            while (answer := played.invoke(target)).status_code == 429:
                pass
            return answer

        assert _error(end("missing.tar.gz")) == (400, "ValidationError")
        assert _answer(end("a.tar.gz")) == "a.tar.gz"
        process.send_signal(signal.SIGSTOP)
        assert _error(played.invoke("b.tar.gz")) == (429, "ModelNotReadyException")
        assert _answer(played.invoke("a.tar.gz")) == "a.tar.gz"
        process.send_signal(signal.SIGCONT)
        until(lambda: played.states().get("b.tar.gz") == "loaded", "the slow one came")
        process.kill()
        process.wait()
        refused = end("c.tar.gz")
        assert _error(refused) == (500, "InternalFailure")
        assert url in refused.text or "S3" in refused.text
        assert _answer(played.invoke("b.tar.gz")) == "b.tar.gz"


def test_an_s3_that_hangs_does_not_hold_the_end(
    s3: tuple[subprocess.Popen[bytes], str], tmp_path: Path
) -> None:
    """SIGTERM while a download waits for an answer that does not come: exit code 0, in time."""
    process, url = s3
    options = ("--s3-endpoint-url", url, "--cold-wait", "0.5")
    with simulator("s3://models/shop", tmp_path / "log", *options, environment=_AWS) as played:
        process.send_signal(signal.SIGSTOP)
        assert _error(played.invoke("a.tar.gz")) == (429, "ModelNotReadyException")
        assert played.stop() == 0


# -- the end


def test_it_ends_in_time_and_leaves_nothing(models: Path, tmp_path: Path) -> None:
    """SIGTERM with a load under way: exit code 0, no process, no file."""
    fake_model(models, "a", load_seconds=300)
    work = tmp_path / "work"
    with simulator(models, tmp_path / "log", "--work-dir", str(work)) as played:
        pid = played.fake()["pid"]
        call = threading.Thread(target=lambda: _ignored(played))
        call.start()
        until(lambda: played.states() == {"a": "loading"}, "it loads")
        assert played.stop() == 0
        call.join()
        assert "Traceback" not in (tmp_path / "log").read_text()
        assert not Path(f"/proc/{pid}").exists()
        assert not list(work.rglob(".arriving/*"))


def _ignored(played: Simulator) -> None:
    with contextlib.suppress(httpx.TransportError):
        played.invoke("a")
