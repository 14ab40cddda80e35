"""`put`, and what names mean afterwards, on the control plane."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from deploy.tests.support.aws_faults import Fault, FaultyAws
from deploy.tests.support.commands import deploy, write_config
from deploy.tests.support.runs import run_here
from simulator.tests.support.control_plane import ControlPlane
from simulator.tests.support.simulator import archive, fake_model
from tests.support.container import ROOT
from tests.support.stored_archives import (
    BUCKET,
    aliases_of,
    keys_of,
    large_archive,
    state_of,
    uploads_of,
)

MERLIN = ROOT / "examples/merlin"


def test_the_whole_way(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """New content is served at the next request by its name, and goes back by one command."""
    config, request = write_config(tmp_path, "way"), tmp_path / "request.json"
    request.write_text('{"inputs": []}')

    def answer() -> Any:
        capsys.readouterr()
        asked = ("--model", "shop-a", "--request", request)
        assert run_here(aws, "invoke", config, more=asked) == ""
        return json.loads(capsys.readouterr().out)["answer"]

    for number in ("first", "second", "third"):
        source = fake_model(tmp_path, f"{number}.tar.gz")
        assert run_here(aws, "put", config, more=(source, "--as", "shop-a", "--no-check")) == ""
        output = capsys.readouterr().out
        assert f"python -m deploy invoke {config} --model shop-a --request FILE" in output
        if number == "first":
            assert run_here(aws, "up", config) == ""
        assert answer() == f"{number}.tar.gz"
    for number in ("second", "first"):
        assert run_here(aws, "rollback", config, more=("--archive", "shop-a")) == ""
        (target, *_) = aliases_of(plane, "way")["shop-a"]
        assert f"shop-a means {target} again" in capsys.readouterr().out
        assert answer() == f"{number}.tar.gz"
    output = run_here(aws, "rollback", config, more=("--archive", "shop-a"))
    assert output.startswith(f"shop-a has meant no other archive before {target}")
    assert len(keys_of(plane, "way")) == 4


def test_a_single_model_endpoint_takes_its_archive_over_with_up(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Which `put` says; and nothing that an instance would download is pruned."""
    config, request = write_config(tmp_path, "one", single_model="shop-a"), tmp_path / "request"
    request.write_text('{"inputs": []}')
    for number in ("first", "second"):
        source = fake_model(tmp_path, f"{number}.tar.gz")
        assert run_here(aws, "put", config, more=(source, "--as", "shop-a", "--no-check")) == ""
        assert f"python -m deploy up {config}  #" in capsys.readouterr().out
        assert run_here(aws, "up", config) == ""
        capsys.readouterr()
        assert run_here(aws, "invoke", config, more=("--request", request)) == ""
        assert json.loads(capsys.readouterr().out)["answer"] == f"{number}.tar.gz"
    assert run_here(aws, "put", config, more=(source, "--as", "shop-a", "--no-check")) == ""
    assert f"python -m deploy invoke {config} --request FILE" in capsys.readouterr().out
    assert run_here(aws, "rollback", config, more=("--archive", "shop-a")) == ""
    assert f"python -m deploy up {config}  #" in capsys.readouterr().out
    before = keys_of(plane, "one")
    assert run_here(aws, "archives", config, more=("--prune", "--min-age", "0")) == ""
    assert keys_of(plane, "one") == before
    capsys.readouterr()
    assert run_here(aws, "archives", config) == ""
    assert "a single-model endpoint has it" in capsys.readouterr().out


def test_folders_are_checked_and_packed(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of exports is each of them; what is there is not sent again."""
    config, folder = write_config(tmp_path, "folders"), tmp_path / "exports"
    for name in ("dense", "session"):
        shutil.copytree(MERLIN / name / "repository", folder / name)
    (folder / "notes.txt").write_text("of nobody's interest")
    assert run_here(aws, "put", config, more=(folder, "--dry-run")) == ""
    assert aws.changes == []
    dry = capsys.readouterr().out.splitlines()
    assert dry[0] == f"python -m ensemble_tools pack {folder}/dense -o dense.tar.gz"
    assert dry[1].startswith("aws s3 cp dense.tar.gz s3://models/folders/archives/dense/")
    assert dry[4].startswith('printf %s \'{"aliases": ')
    assert dry[4].endswith("--body aliases.json")
    assert run_here(aws, "put", config, more=(folder,)) == ""
    output = capsys.readouterr().out
    assert output.count(", uploaded\n") == 2
    assert output.splitlines()[-2].endswith(" kB: 2 uploaded, 0 were there")
    source = keys_of(plane, "folders")
    assert [key.split("/")[1] for key in source[1:]] == ["dense", "session"]
    assert run_here(aws, "put", config, more=(folder / "dense", folder / "session")) == ""
    assert capsys.readouterr().out.count(", is there\n") == 2
    assert aws.changes == []
    assert keys_of(plane, "folders") == source


def test_one_refusal_stops_all_before_the_first_upload(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path
) -> None:
    """Every refusal is told, in the words of `pack`."""
    config = write_config(tmp_path, "refusals")
    broken, odd = tmp_path / "broken.tar.gz", tmp_path / "odd"
    broken.write_bytes(b"nothing")
    odd.mkdir()
    (odd / "notes.txt").touch()
    (odd / "1.tar.gz").write_bytes(b"nothing")
    good = MERLIN / "dense/repository"
    output = run_here(aws, "put", config, more=(good, broken, odd))
    first, second, last = output.splitlines()
    assert first.startswith(f"broken: {broken}: it is no archive, or a damaged one")
    assert second.startswith(f"1: {odd}/1.tar.gz: it is no archive")
    assert last == "nothing was put; --no-check puts them as they are"
    assert aws.changes == []


def test_a_bucket_that_is_not_there(aws: FaultyAws, tmp_path: Path) -> None:
    """Is told before any work, with the command that makes it."""
    config = write_config(tmp_path, "nowhere", archives="s3://there-is-none/shop/")
    output = run_here(aws, "put", config, more=(large_archive(tmp_path, "a"),))
    assert output == (
        "there is no bucket there-is-none; `aws s3 mb s3://there-is-none --region us-east-1` "
        "makes it, or correct endpoint.archives"
    )


def test_two_at_once_lose_nothing(plane: ControlPlane, aws: FaultyAws, tmp_path: Path) -> None:
    """Whoever writes the table second writes it on what the first has written."""
    config = write_config(tmp_path, "both")
    ours, theirs = (fake_model(tmp_path, f"{name}.tar.gz") for name in ("ours", "theirs"))

    def put_theirs() -> None:
        deploy(plane, "put", config, theirs, "--no-check")

    at = Fault("PUT /models/both/aliases.json", before_act=put_theirs)
    assert run_here(aws, "put", config, at, more=(ours, "--no-check")) == ""
    assert at.met == 2
    assert set(aliases_of(plane, "both")) == {"ours", "theirs"}


def test_two_at_once_of_the_same_content(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path
) -> None:
    """The first that is done clears the other's upload away, which finds that all is there."""
    config, source = write_config(tmp_path, "same"), large_archive(tmp_path, "large")

    def put_it() -> None:
        deploy(plane, "put", config, source, "--no-check")

    # Two parts are there by then.
    at = Fault(after=3, before_act=put_it)
    assert run_here(aws, "put", config, at, more=(source, "--no-check")) == ""
    assert len(keys_of(plane, "same")) == 2
    assert uploads_of(plane, "same") == []


def test_a_file_that_changes_meanwhile_is_not_kept(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path
) -> None:
    """No archive lies under a digest that is not its own."""
    config, source = write_config(tmp_path, "changes"), large_archive(tmp_path, "large")

    def change() -> None:
        with source.open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"!")

    output = run_here(aws, "put", config, Fault(before_act=change), more=(source, "--no-check"))
    assert output.startswith(f"{source} was changed while it was uploaded; nothing of it was kept")
    assert state_of(plane, "changes") == ([], {}, [])


def test_keys_of_kms_encrypt_archives_and_table(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those that are sent at once, those in parts, and the dry run's lines."""
    config = write_config(tmp_path, "kms", '[encryption]\narchives_key = "alias/shop"')
    source = (fake_model(tmp_path, "small.tar.gz"), large_archive(tmp_path, "large"))
    assert run_here(aws, "put", config, more=(*source, "--no-check", "--dry-run")) == ""
    assert capsys.readouterr().out.count("--sse aws:kms --sse-kms-key-id alias/shop") == 2
    assert run_here(aws, "put", config, more=(*source, "--no-check")) == ""
    s3 = plane.client("s3")
    for key in keys_of(plane, "kms"):
        head = s3.head_object(Bucket=BUCKET, Key=f"kms/{key}")
        assert (head["ServerSideEncryption"], head["SSEKMSKeyId"]) == ("aws:kms", "alias/shop")


def test_a_table_that_breaks_off_is_one_sentence(aws: FaultyAws, tmp_path: Path) -> None:
    """And so is one that says something else."""
    config, source = write_config(tmp_path, "breaks"), fake_model(tmp_path, "shop-a.tar.gz")
    assert run_here(aws, "put", config, more=(source, "--no-check")) == ""
    half = Fault("GET /models/breaks/aliases.json", half=True)
    output = run_here(aws, "put", config, half, more=(source, "--no-check"))
    assert output.startswith("s3:GetObject: the answer broke off (")
    assert half.met == 1


def test_a_list_of_one_archive(
    aws: FaultyAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts as `status` does."""
    config, source = write_config(tmp_path, "lone"), fake_model(tmp_path, "shop-a.tar.gz")
    assert run_here(aws, "put", config, more=(source, "--no-check")) == ""
    capsys.readouterr()
    assert run_here(aws, "archives", config) == ""
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 archive, ")


def test_archives_are_listed_and_pruned(
    plane: ControlPlane, aws: FaultyAws, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What no name means or meant goes, and nothing else; what is young stays."""
    config, s3 = write_config(tmp_path, "pruned"), plane.client("s3")
    for number in ("first", "second", "third"):
        source = fake_model(tmp_path, f"{number}.tar.gz")
        assert run_here(aws, "put", config, more=(source, "--as", "shop-a", "--no-check")) == ""
    assert run_here(aws, "rollback", config, more=("--archive", "shop-a")) == ""
    current, former = aliases_of(plane, "pruned")["shop-a"]
    s3.put_object(Bucket=BUCKET, Key="pruned/archives/shop-a/mine.tar.gz", Body=b"mine")
    s3.create_multipart_upload(Bucket=BUCKET, Key="pruned/archives/shop-a/cut.tar.gz")
    before = keys_of(plane, "pruned")
    capsys.readouterr()
    assert run_here(aws, "archives", config) == ""
    output = capsys.readouterr().out.splitlines()
    rows = [re.split(" {2,}", line.strip()) for line in output[1:-1]]
    standings = {row[-4]: row[-1] for row in rows}
    (unnamed,) = set(standings) - {current, former, "shop-a/mine.tar.gz"}
    assert standings == {
        current: "current",
        former: "former",
        unnamed: "no name means it",
        "shop-a/mine.tar.gz": "not from put",
    }
    assert output[-1].startswith("4 archives, ")
    assert run_here(aws, "archives", config, more=("--prune",)) == ""
    assert keys_of(plane, "pruned") == before
    dry = ("--prune", "--min-age", "0", "--dry-run")
    assert run_here(aws, "archives", config, more=dry) == ""
    assert aws.changes == []
    assert run_here(aws, "archives", config, more=("--prune", "--min-age", "0")) == ""
    left = {f"archives/{current}", f"archives/{former}", "archives/shop-a/mine.tar.gz"}
    assert set(keys_of(plane, "pruned")) == {"aliases.json", *left}
    assert uploads_of(plane, "pruned") == []


def test_no_temporary_file_is_left(
    aws: FaultyAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it is put or refused; and a place without room is told."""
    config, rooms = write_config(tmp_path, "temporary"), tmp_path / "rooms"
    rooms.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(rooms))
    assert run_here(aws, "put", config, more=(MERLIN / "dense/repository", "--as", "a")) == ""
    fault = Fault(code="AccessDenied")
    output = run_here(aws, "put", config, fault, more=(MERLIN / "session/repository", "--as", "b"))
    assert "s3:PutObject is not allowed in us-east-1" in output
    assert list(rooms.iterdir()) == []
    rooms.rmdir()
    output = run_here(aws, "put", config, more=(MERLIN / "dense/repository", "--as", "a"))
    assert output.endswith("temporary files want a directory with room: set TMPDIR")


def test_an_archive_moves_no_cursor(plane: ControlPlane, tmp_path: Path) -> None:
    """What stands in it is quoted as text in its refusal."""
    source = archive(tmp_path / "shop-a.tar.gz", {"m/config.pbtxt": b"\x1b[2J {{{"})
    output = deploy(plane, "put", write_config(tmp_path, "cursor"), source, code=1)
    assert "\x1b" not in output
    assert "the character '\\x1b' (a control character)" in output
