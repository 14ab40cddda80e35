"""Calls that are kept: which, until when, and what is said of a file that holds others."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlencode

import pytest

from merlin_simulator.control.persistence.call_journal import (
    CallJournal,
    JournaledCall,
    is_journaled,
)
from merlin_simulator.errors import PlatformFailed

#: Of calls: a member that is none, headers that are none, a number for a text.
STRANGE = [
    '{"service": "s3", "region": "r", "headers": {}, "body": "", "target": ""}',
    '{"service": "s3", "region": "r", "headers": "", "body": ""}',
    '{"service": "s3", "region": "r", "headers": {"a": 1}, "body": ""}',
    '{"service": "s3", "region": 1, "headers": {}, "body": ""}',
]


def _iam(operation: str, **members: str) -> JournaledCall:
    return JournaledCall("iam", "us-east-1", {}, urlencode({"Action": operation, **members}))


def _json(service: str, operation: str, region: str = "us-east-1", **members: str) -> JournaledCall:
    target = {"x-amz-target": f"Prefix.{operation}"}
    return JournaledCall(service, region, target, json.dumps(members))


def _s3(method: str, bucket: str, query: str = "") -> JournaledCall:
    return JournaledCall("s3", "us-east-1", {}, "<Any/>", method, f"/{bucket}", query)


@pytest.mark.parametrize(
    ("call", "kept"),
    [
        (_iam("CreateRole", RoleName="r"), True),
        (_iam("GetRole", RoleName="r"), False),
        (_json("ecr", "CreateRepository"), True),
        (_json("ecr", "BatchGetImage"), False),
        (_json("logs", "CreateLogGroup", logGroupName="mine"), True),
        (_json("logs", "CreateLogGroup", logGroupName="/aws/sagemaker/Endpoints/e"), False),
        (_json("logs", "PutLogEvents", logGroupName="mine"), False),
        (_json("sts", "AssumeRole"), False),
        (JournaledCall("ecr", "us-east-1", {"x-amz-target": "Prefix.PutImage"}, "[broken"), True),
        (_s3("PUT", "b", "versioning"), True),
        (_s3("GET", "b", "versioning"), False),
    ],
)
def test_what_changes_something_is_kept(call: JournaledCall, kept: bool) -> None:
    assert is_journaled(call) is kept


@pytest.mark.parametrize(
    ("before", "deletion", "left"),
    [
        (_iam("CreateRole", RoleName="r"), _iam("DeleteRole", RoleName="r"), False),
        (_iam("PutRolePolicy", RoleName="r"), _iam("DeleteRole", RoleName="r"), False),
        (_iam("CreateRole", RoleName="other"), _iam("DeleteRole", RoleName="r"), True),
        (_iam("CreateUser", UserName="r"), _iam("DeleteRole", RoleName="r"), True),
        (
            _iam("CreatePolicy", PolicyName="p"),
            _iam("DeletePolicy", PolicyArn="arn:aws:iam::123456789012:policy/path/p"),
            False,
        ),
        (
            _json("ecr", "CreateRepository", repositoryName="a"),
            _json("ecr", "DeleteRepository", repositoryName="a"),
            False,
        ),
        (
            _json("ecr", "CreateRepository", repositoryName="a", region="eu-west-1"),
            _json("ecr", "DeleteRepository", repositoryName="a"),
            True,
        ),
        (_s3("PUT", "b"), _s3("DELETE", "b"), False),
        (_s3("PUT", "b", "policy"), _s3("DELETE", "b"), False),
        (_s3("PUT", "b", "policy"), _s3("DELETE", "b", "policy="), False),
        (_s3("PUT", "b", "policy"), _s3("DELETE", "b", "tagging"), True),
        (_s3("PUT", "b", "policy"), _s3("DELETE", "bb", "policy"), True),
        (_s3("PUT", "b", "metrics&id=1"), _s3("DELETE", "b", "id=2&metrics"), True),
    ],
)
def test_what_is_deleted_takes_its_calls_along(
    tmp_path: Path, before: JournaledCall, deletion: JournaledCall, left: bool
) -> None:
    journal = CallJournal(tmp_path / "calls")
    journal.add(before)
    journal.add(deletion)
    kept = CallJournal(tmp_path / "calls").calls
    assert kept == journal.calls == ((before,) if left else ())


def test_what_a_bucket_is_told_again_is_kept_once(tmp_path: Path) -> None:
    """Of its versioning the last, and of a bucket that is made anew nothing that was before."""
    journal = CallJournal(tmp_path / "calls")
    first, again = _s3("PUT", "b", "versioning"), _s3("PUT", "b", "versioning=")
    for call in (_s3("PUT", "b"), first, _s3("PUT", "b", "policy"), again):
        journal.add(call)
    kept = CallJournal(tmp_path / "calls").calls
    assert kept == (_s3("PUT", "b"), _s3("PUT", "b", "policy"), again)
    journal.add(_s3("PUT", "b"))
    assert CallJournal(tmp_path / "calls").calls == (_s3("PUT", "b"),)


def test_a_line_that_was_cut_off_is_dropped(tmp_path: Path) -> None:
    """A process was killed while it wrote: that call was never answered."""
    path, call = tmp_path / "calls", _iam("CreateRole", RoleName="r")
    CallJournal(path).add(call)
    path.write_text(path.read_text() + path.read_text()[:20])
    assert CallJournal(path).calls == (call,)
    CallJournal(path).add(call)
    assert CallJournal(path).calls == (call, call)


@pytest.mark.parametrize("line", ["{}", "[]", "no json", '{"service": 1}', "\x00", '"x"', *STRANGE])
def test_a_file_that_holds_no_calls_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "calls"
    path.write_text(f"{line}\n")
    with pytest.raises(PlatformFailed, match=f"line 1 of {path} holds no call") as raised:
        CallJournal(path)
    assert str(raised.value).endswith("remove it, or name another --state.")


def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "calls"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(PlatformFailed, match=f"{path} holds no call"):
        CallJournal(path)
