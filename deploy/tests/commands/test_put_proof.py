"""`put --compared-with`: a name means the new archive only once `compare` says that it may.

`compare` is a stand-in here, which does what a test tells it; the page's session runs the real one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from deploy.tests.support.aws_faults import Fault, FaultyAws
from deploy.tests.support.commands import write_config
from deploy.tests.support.runs import run_here
from merlin_deploy.archives.proof import run_compare
from simulator.tests.support.control_plane import ControlPlane
from simulator.tests.support.simulator import fake_model
from tests.support.stored_archives import BUCKET, aliases_of, keys_of

#: Runs as `python -m ensemble_tools` where it lies: what it is asked goes to asked.json beside it.
STAND_IN = """
import json, os, sys
from pathlib import Path

here = Path(__file__).parents[1]
answer = json.loads((here / "answer.json").read_text())
if sys.argv[-1] == "--help":
    if "--at-least=overlap=3" in sys.argv:
        print("compare: error: argument --at-least: 'overlap=3': found the measure 'overlap'",
              file=sys.stderr)
        sys.exit(2)
    sys.exit(0)
*options, old, new = sys.argv[1:]
paths = dict(it.removeprefix("--").split("=", 1) for it in options if "=" in it)
asked = {
    "options": options,
    "old": Path(old).read_bytes().hex(),
    "new": Path(new).read_bytes().hex(),
    "compile": os.environ.get("SERVE_COMPILE"),
}
(here / "asked.json").write_text(json.dumps(asked))
print(answer["stderr"].format(new=new), file=sys.stderr)
if answer["report"]:
    report = {**answer["report"], "old": {"archive": old}, "new": {"archive": new}}
    Path(paths["json"]).write_text(json.dumps(report))
    Path(paths["html"]).write_text(f"<p>{old} {new}")
sys.exit(answer["code"])
"""
MEASURED = {"overlap@10": {"mean": 0.93126}, "kendall": {"mean": 0.5}, "overlap@3": {"mean": None}}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in is what Python finds first."""
    (tmp_path / "ensemble_tools").mkdir()
    (tmp_path / "ensemble_tools/__main__.py").write_text(STAND_IN)
    monkeypatch.chdir(tmp_path)
    let_compare()


def let_compare(
    code: int = 0,
    stderr: str = "",
    *failures: str,
    bounds: Mapping[str, float] = {"overlap@10": 0.8},
) -> None:
    """What `compare` does from here on."""
    report = {
        "within": not failures,
        "failures": failures,
        "bounds": [{"measure": name, "at_least": least} for name, least in bounds.items()],
        "requests": {"asked": 20},
        "targets": [{"scores": "click", "ids": None, "measures": MEASURED}],
    }
    answer = {"code": code, "stderr": stderr, "report": report if code in (0, 3) else None}
    Path("answer.json").write_text(json.dumps(answer))


def begin(plane: ControlPlane, aws: FaultyAws, name: str, more: str = "") -> tuple[Path, str]:
    """CONFIG.toml, and the archive that shop-a means."""
    config, source = write_config(Path(), name, more), fake_model(Path(), "first.tar.gz")
    assert run_here(aws, "put", config, more=(source, "--as", "shop-a", "--no-check")) == ""
    return config, aliases_of(plane, name)["shop-a"][0]


def put_second(
    aws: FaultyAws, config: Path, *faults: Fault, old: str = "current", more: tuple[str, ...] = ()
) -> str:
    """Put another archive as shop-a, which has to pass; why it stopped, or nothing."""
    source = Path("second.tar.gz")
    if not source.exists():  # made again, it has another time, and another digest
        fake_model(Path(), source.name)
    proof = ("--compared-with", old, "--requests", "requests.json", *more)
    arguments = (source, "--as", "shop-a", "--no-check", *proof)
    return run_here(aws, "put", config, *faults, more=arguments)


def read(plane: ControlPlane, key: str) -> Any:
    return plane.client("s3").get_object(Bucket=BUCKET, Key=key)


def test_a_proof_that_holds(
    plane: ControlPlane, aws: FaultyAws, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both archives are asked as they lie in S3, the report is kept, and `rollback` names it; no
    list of archives has it, and it goes when its archive does."""
    more = '[container]\nenvironment = { SERVE_COMPILE = "off", PATH = "/of/the/image" }\n'
    more += '[encryption]\narchives_key = "alias/shop"'
    config, old = begin(plane, aws, "holds", more)
    options = ("--at-least", "overlap@10=0.8", "--user", "user_id")
    assert put_second(aws, config, more=options) == ""
    new, former = aliases_of(plane, "holds")["shop-a"]
    line = f"compared with {old} by 20 requests: within, overlap@10 of click 0.9313"
    assert f"shop-a: {new}, {line}\n" in capsys.readouterr().out

    asked = json.loads(Path("asked.json").read_text())
    assert former == old
    for role, target in (("old", old), ("new", new)):
        assert bytes.fromhex(asked[role]) == read(plane, f"holds/archives/{target}")["Body"].read()
    assert asked["compile"] == "off"
    handed_on = ["--requests=requests.json", "--at-least=overlap@10=0.8", "--user=user_id"]
    assert asked["options"][:4] == ["compare", *handed_on]

    stem = f"comparisons/{new.removesuffix('.tar.gz')}"
    kept = read(plane, f"holds/{stem}.json")
    assert kept["SSEKMSKeyId"] == "alias/shop"
    report = json.loads(kept["Body"].read())
    assert (report["old"]["archive"], report["new"]["archive"]) == (old, new)
    assert read(plane, f"holds/{stem}.html")["Body"].read().decode() == f"<p>{old} {new}"

    assert run_here(aws, "rollback", config, more=("--archive", "shop-a")) == ""
    url = f"s3://{BUCKET}/holds/{stem}.json"
    assert f"{new} was {line}; the report: {url}\n" in capsys.readouterr().out
    assert run_here(aws, "archives", config) == ""
    assert "2 archives, " in capsys.readouterr().out
    assert run_here(aws, "archives", config, more=("--prune", "--min-age", "0")) == ""
    assert keys_of(plane, "holds") == ["aliases.json", f"archives/{old}"]


def test_a_proof_that_fails(
    plane: ControlPlane, aws: FaultyAws, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name means what it meant, the archive is not sent, and the report is kept."""
    config, old = begin(plane, aws, "fails")
    failures = [f"click: bound {number} is not held" for number in range(7)]
    let_compare(3, "", *failures, bounds={})
    sentence = put_second(aws, config)
    assert sentence.startswith(f"shop-a is not put, and means what it meant: {failures[0]}; ")
    assert (
        f"{failures[4]}; and 2 more; the report: s3://models/fails/comparisons/shop-a/" in sentence
    )
    told = f"compared with {old} by 20 requests: not within, overlap@10 of click 0.9313, kendall"
    assert told in capsys.readouterr().out
    archives, reports = keys_of(plane, "fails")[1:2], keys_of(plane, "fails")[2:]
    assert (aliases_of(plane, "fails"), archives) == ({"shop-a": [old]}, [f"archives/{old}"])
    assert [key.rpartition(".")[2] for key in reports] == ["html", "json"]
    # A report of an archive that never came goes, too.
    assert run_here(aws, "archives", config, more=("--prune", "--min-age", "0")) == ""
    assert keys_of(plane, "fails") == ["aliases.json", *archives]


@pytest.mark.parametrize(
    ("code", "stderr", "sentence"),
    [
        (1, "[2 s] starting\nerror: requests.json: it is no JSON", "requests.json: it is no JSON"),
        (1, "error: NEW ({new}) cannot be loaded: no", "NEW (shop-a/"),
        (2, "usage: …\ncompare: error: argument --at-least: 'x'", "argument --at-least: 'x'"),
        (1, "KeyError: 'x'", "`compare` ended with exit code 1, and said last: \"KeyError: 'x'\""),
    ],
)
def test_a_comparison_that_cannot_be_carried_out(
    plane: ControlPlane, aws: FaultyAws, code: int, stderr: str, sentence: str
) -> None:
    """Its own sentence says why; nothing is put, and nothing kept."""
    config, _ = begin(plane, aws, "stops")
    let_compare(code, stderr)
    stopped = put_second(aws, config)
    assert stopped.startswith(f"second.tar.gz was not compared, so nothing is put: {sentence}")
    assert aws.changes == []


def test_a_bucket_that_refuses_the_report(
    plane: ControlPlane, aws: FaultyAws, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name means what it meant; what the comparison said was told before."""
    config, old = begin(plane, aws, "refuses")
    fault = Fault(code="AccessDenied", status=403)
    assert "s3:PutObject is not allowed in us-east-1" in put_second(aws, config, fault)
    assert "by 20 requests: within" in capsys.readouterr().out
    assert keys_of(plane, "refuses") == ["aliases.json", f"archives/{old}"]
    assert put_second(aws, config) == ""
    assert len(aliases_of(plane, "refuses")["shop-a"]) == 2


def test_another_put_meanwhile(plane: ControlPlane, aws: FaultyAws) -> None:
    """The new archive was not compared with what the name means by then."""
    config, old = begin(plane, aws, "meanwhile")
    other = "shop-a/0123456789abcdef.tar.gz"
    table = json.dumps({"version": 1, "aliases": {"shop-a": [other, old]}})

    def put_theirs() -> None:
        plane.client("s3").put_object(Bucket=BUCKET, Key="meanwhile/aliases.json", Body=table)

    sentence = put_second(aws, config, Fault(before_act=put_theirs))
    assert sentence.startswith(f"shop-a means {other} by now, and shop-a/")
    assert aliases_of(plane, "meanwhile")["shop-a"] == [other, old]


def test_what_is_put_again(plane: ControlPlane, aws: FaultyAws) -> None:
    """An answer that was lost, and a second call: its report stays that with the former archive."""
    config, old = begin(plane, aws, "again")
    faults = [Fault(after=2 * number, lose=True) for number in range(4)]
    assert put_second(aws, config, *faults) == ""
    assert all(fault.met > fault.after for fault in faults)
    Path("asked.json").unlink()
    assert put_second(aws, config) == ""
    assert not Path("asked.json").exists()
    new, former = aliases_of(plane, "again")["shop-a"]
    report = read(plane, f"again/comparisons/{new.removesuffix('.tar.gz')}.json")["Body"].read()
    assert former == old == json.loads(report)["old"]["archive"]


def test_an_archive_of_this_machine(
    plane: ControlPlane, aws: FaultyAws, capsys: pytest.CaptureFixture[str]
) -> None:
    """It may be compared with, also before the name means anything; its path is in the report."""
    config, file = write_config(Path(), "local"), fake_model(Path(), "-here.tar.gz")
    assert put_second(aws, config, old="./-here.tar.gz") == ""
    assert "compared with -here.tar.gz by 20 requests" in capsys.readouterr().out
    asked = json.loads(Path("asked.json").read_text())
    assert bytes.fromhex(asked["old"]) == file.read_bytes()
    assert len(aliases_of(plane, "local")["shop-a"]) == 1


def test_nothing_to_compare_with(plane: ControlPlane, aws: FaultyAws) -> None:
    """A name that means nothing yet, an archive that is gone, half of the options, two archives."""
    config = write_config(Path(), "nothing")
    assert put_second(aws, config).startswith("shop-a means no archive yet, with which second.tar")
    config, old = begin(plane, aws, "gone")
    plane.client("s3").delete_object(Bucket=BUCKET, Key=f"gone/archives/{old}")
    assert put_second(aws, config).startswith(f"the archive {old}, which is to be compared, is not")
    for options, sentence in (
        (("--compared-with", "current"), "name their file with --requests"),
        (("--requests", "x"), "name it with --compared-with"),
        (("--at-least", "kendall=0"), "name it with --compared-with"),
        (
            ("first.tar.gz", "--compared-with", "x", "--requests", "x"),
            "--compared-with is for one archive, and found 2",
        ),
        (("--compared-with", "curent", "--requests", "x"), "no folder 'curent'; expected current,"),
        (
            ("--compared-with", "current", "--requests", "x", "--at-least", "overlap=3"),
            "argument --at-least: 'overlap=3': found the measure 'overlap'",
        ),
    ):
        stopped = run_here(aws, "put", config, more=("second.tar.gz", *options))
        assert sentence in stopped, options
    assert aws.changes == []


def test_a_dry_run_says_the_commands(
    plane: ControlPlane, aws: FaultyAws, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is compared: each line can be typed."""
    config, old = begin(plane, aws, "dry")
    capsys.readouterr()
    assert put_second(aws, config, more=("--ids=items", "--dry-run")) == ""
    fetch, compare, *keep = capsys.readouterr().out.splitlines()[:4]
    file = old.rpartition("/")[2]
    assert fetch == f"aws s3 cp s3://models/dry/archives/{old} {file}"
    assert compare.startswith("python -m ensemble_tools compare --requests=requests.json --ids=ite")
    assert compare.endswith(f" -- {file} second.tar.gz")
    assert all(line.startswith("aws s3 cp ") and "/dry/comparisons/" in line for line in keep)
    assert not Path("asked.json").exists()


@pytest.mark.parametrize(
    ("body", "sentence"),
    [(b"{}", "is no report of `compare` (KeyError('bounds'))"), (b"\xff", "is no report of")],
)
def test_a_report_that_cannot_be_read_stops_no_rollback(
    plane: ControlPlane,
    aws: FaultyAws,
    capsys: pytest.CaptureFixture[str],
    body: bytes,
    sentence: str,
) -> None:
    """What it is, is told after the name went back."""
    config, old = begin(plane, aws, "odd")
    assert put_second(aws, config) == ""
    new, *_ = aliases_of(plane, "odd")["shop-a"]
    key = f"odd/comparisons/{new.removesuffix('.tar.gz')}.json"
    plane.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)
    capsys.readouterr()
    assert run_here(aws, "rollback", config, more=("--archive", "shop-a")) == ""
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"shop-a means {old} again")
    assert second.startswith(f"the report of {new} cannot be read: s3://models/{key} {sentence}")


def test_an_interrupt_ends_the_comparison(tmp_path: Path) -> None:
    """By SIGTERM, which lets it clear away, and it is waited for."""
    ended = tmp_path / "ended"
    program = (
        "import signal, sys, time\n"
        "def end(*_):\n"
        f"    open({str(ended)!r}, 'w').close()\n"
        "    sys.exit(143)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('[2 s] loading NEW', file=sys.stderr, flush=True)\n"
        "time.sleep(3600)\n"
    )
    told: list[str] = []

    def interrupt(line: str, _: float) -> None:
        told.append(line)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_compare(["-c", program], os.environ, interrupt)
    assert told == ["comparing: [2 s] loading NEW"]
    assert ended.exists()
