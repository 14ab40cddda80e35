"""What wrk prints, and what is asked of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import wrk
from bench.errors import LoadFailed, ProgramMissing
from bench.machine import find_wrk_version

_COUNTS = {
    "requests": 1400,
    "duration_us": 700_000,
    "p50_us": 205.0,
    "p99_us": 900.5,
    "connect": 0,
    "read": 0,
    "write": 0,
    "status": 0,
    "timeout": 0,
}


def printed(**others: int) -> str:
    """As wrk prints it, the script's line last."""
    head = "Running 31s test @ http://127.0.0.1:1/x\n  1 threads and 1 connections\n"
    return f"{head}Requests/sec:   2000.00\nBENCH {json.dumps({**_COUNTS, **others})}\n"


def test_counts_become_seconds() -> None:
    """Microseconds in, seconds out; the rate is over the time that wrk ran."""
    load = wrk.read_counts(printed(), "x")
    assert (load.requests, load.seconds) == (1400, 0.7)
    assert (load.p50, load.p99) == pytest.approx((205e-6, 900.5e-6))
    assert load.per_second == pytest.approx(2000)


@pytest.mark.parametrize("kind", ["connect", "read", "write", "status", "timeout"])
def test_each_kind_of_error_ends_the_measurement(kind: str) -> None:
    """Errors are fast: a figure with one of them in it would flatter."""
    with pytest.raises(LoadFailed, match=f"2 {kind} errors"):
        wrk.read_counts(printed(**{kind: 2}), "http://x")


def test_no_counts_and_no_answers_end_it_too() -> None:
    """What wrk said instead is told."""
    with pytest.raises(LoadFailed, match="unable to connect"):
        wrk.read_counts("unable to connect to 127.0.0.1:1 Connection refused\n", "http://x")
    with pytest.raises(LoadFailed, match="no answer"):
        wrk.read_counts(printed(requests=0), "http://x")


def test_body_is_read_from_a_file(tmp_path: Path) -> None:
    """Bytes of any value; the script names the file and the headers."""
    body = bytes(range(256))
    target = wrk.write_target(tmp_path, "one", "http://x/y", body, {"Content-Type": 'a"b'})
    script = target.script.read_text()
    assert (tmp_path / "one.body").read_bytes() == body
    assert str(tmp_path / "one.body") in script
    assert r'wrk.headers["Content-Type"] = "a\"b"' in script
    assert 'wrk.method = "POST"' in script


def test_refusals_may_be_expected() -> None:
    """Of a flood that a limit refuses: their statuses, and nothing that is no refusal."""
    refused = printed(status=7, read=2)
    assert wrk.read_counts(refused, "http://x", ("status", "read")).requests == 1400
    with pytest.raises(LoadFailed, match="2 read errors, 7 status errors"):
        wrk.read_counts(refused, "http://x", ("status",))
    with pytest.raises(LoadFailed, match="1 timeout errors"):
        wrk.read_counts(printed(status=7, timeout=1), "http://x", ("status",))


def test_a_mix_goes_to_each_path(tmp_path: Path) -> None:
    """Its script is the target's and says which paths, and how long the longest pause is."""
    target = wrk.write_target(tmp_path, "one", "http://x/y", b"{}", {})
    mix = wrk.write_mix(target, "mix", ["/a", '/"b'], 0.05)
    script = mix.script.read_text()
    assert (mix.url, mix.script) == (target.url, tmp_path / "mix.lua")
    assert script.startswith(target.script.read_text())
    assert r'{"/a", "/\"b"}' in script
    assert "math.random(0, 100)" in script


def test_missing_program_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says how to get it."""
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ProgramMissing, match="apt-get install wrk"):
        wrk.find_wrk()


def test_version_is_the_first_line_without_the_copyright() -> None:
    """Debian's has its build in it."""
    said = "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\nUsage: wrk <options>"
    assert find_wrk_version(said) == "debian/4.1.0-3+b2 [epoll]"
    assert find_wrk_version("") == "not known"
