"""Whatever stands between a caller and AWS is told in one sentence, without a secret in it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from deploy.tests.support.commands import RUN_TIMEOUT_S, write_config
from deploy.tests.support.odd_aws import OddAws, odd_aws
from merlin_deploy.command_line import read_command
from merlin_deploy.errors import DeployError
from tests.support.container import ROOT

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
TOKEN = "FwoGZXIvYXdzEJr//////////wEaDEXAMPLETOKEN+/="
SIGNATURE = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
SECRETS = (KEY, SECRET, TOKEN, SIGNATURE)
#: With its digest, so that ECR is not asked first.
IMAGE = f"123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin@sha256:{'0' * 64}"
#: What botocore looks at.
OF_AWS = ("AWS_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


@pytest.fixture
def aws() -> Iterator[OddAws]:
    """What answers in AWS's place."""
    with odd_aws() as running:
        yield running


@pytest.fixture(autouse=True)
def caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With credentials of its own, and nothing else that this machine has; it asks once."""
    for name in os.environ:
        if name.startswith(OF_AWS):
            monkeypatch.delenv(name)
    for name, value in {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "1",
    }.items():
        monkeypatch.setenv(name, value)


def refused(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str = "down",
    *,
    single_model: str | None = None,
    more: Sequence[Path] = (),
    environment: Mapping[str, str | None] = {},
    **variables: str,
) -> str:
    """What a command says in this environment; it is one line, and has no secret in it.

    more: of its arguments. None: of a variable that is not set.
    """
    for name, value in {**environment, **variables}.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, value)
    single = {} if single_model is None else {"single_model": single_model}
    config = write_config(folder, "shop", image=IMAGE, **single)
    monkeypatch.setattr(sys, "argv", ["deploy", command, str(config), *map(str, more)])
    with pytest.raises(DeployError) as stopped:
        read_command("deploy")()
    sentence = str(stopped.value)
    assert "\n" not in sentence
    for secret in (*SECRETS, os.environ.get("AWS_SESSION_TOKEN") or TOKEN):
        assert secret not in sentence
    return sentence


CANONICAL = f"""The request signature we calculated does not match the signature you provided. Check
your AWS Secret Access Key and signing method. Consult the service documentation for details.

The Canonical String for this request should have been
'POST
/

content-type:application/x-amz-json-1.1
host:api.sagemaker.us-east-1.amazonaws.com
x-amz-security-token:{TOKEN}

content-type;host;x-amz-security-token
{SIGNATURE}'

The String-to-Sign should have been
'AWS4-HMAC-SHA256
{SIGNATURE}'
"""
HEADER = (
    f"'{KEY}/20261125/us-east-1/sagemaker/aws4_request' not a valid key=value pair (missing "
    f"equal-sign) in Authorization header: 'AWS4-HMAC-SHA256 Credential={KEY}/20261125/us-east-1/"
    f"sagemaker/aws4_request, SignedHeaders=host, Signature={SIGNATURE}'."
)


@pytest.mark.parametrize(
    ("code", "words", "expected"),
    [
        ("SignatureDoesNotMatch", CANONICAL, "the secret key is not that of the key id"),
        ("InvalidSignatureException", CANONICAL, "the secret key is not that of the key id"),
        ("IncompleteSignatureException", HEADER, "the request is not signed as AWS expects it"),
        ("InvalidClientTokenId", f"{KEY} is unknown", "AWS does not know the credentials in the"),
        ("UnrecognizedClientException", "The token is invalid.", "in the region us-east-1"),
        ("InvalidAccessKeyId", f"The key {KEY} does not exist", "AWS does not know the cred"),
        ("ExpiredTokenException", f"The token {TOKEN} has expired", "the credentials have expired"),
        ("RequestTimeTooSkewed", "The difference is too large.", "this machine's clock is min"),
        (
            "InvalidSignatureException",
            "Signature expired: 20261125T000000Z is now earlier than 20261125T001500Z",
            "this machine's clock is minutes away from AWS's",
        ),
        ("ThrottlingException", "Rate exceeded", "AWS does not manage it now (Thr"),
        ("AccessDeniedException", HEADER, "is not allowed in us-east-1: '…/2026"),
        ("ValidationException", CANONICAL, "AWS refuses it (ValidationException): The request si"),
        ("ResourceLimitExceeded", f"x-amz-security-token: {TOKEN}", "a quota of the account is"),
    ],
)
def test_what_aws_says_of_a_caller(
    aws: OddAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    words: str,
    expected: str,
) -> None:
    """In its own words only where they have no request in them."""
    escaped = words.replace("\n", "\\n")
    aws.status, aws.body = 400, f'{{"__type": "{code}", "message": "{escaped}"}}'.encode()
    sentence = refused(tmp_path, monkeypatch, AWS_ENDPOINT_URL=aws.url)
    assert expected in sentence
    assert "sagemaker:DescribeEndpoint" in sentence


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None}, "there are no credentials"),
        ({"AWS_ACCESS_KEY_ID": ""}, "there are no credentials"),
        ({"AWS_SECRET_ACCESS_KEY": None}, "there are no credentials"),
        ({"AWS_PROFILE": "shop"}, "there are no credentials that AWS would take (The config prof"),
        ({"AWS_ACCESS_KEY_ID": f"{KEY}\n"}, "a key or a token has a character"),
        ({"AWS_ACCESS_KEY_ID": "\udcff"}, "a key or a token has a character"),
        ({"AWS_SESSION_TOKEN": "to\nken"}, "a key or a token has a character"),
        ({"AWS_DEFAULT_REGION": ""}, "no region is given: set endpoint.region"),
        ({"AWS_DEFAULT_REGION": "", "AWS_REGION": ""}, "no region is given"),
        ({"AWS_DEFAULT_REGION": None}, "no region is given"),
        ({"AWS_REGION": "eu-centrall-1"}, "expected one of AWS; did you mean eu-central-1?"),
        ({"AWS_REGION": "aws-global"}, "found the region 'aws-global', expected one of AWS"),
        ({"AWS_DEFAULT_REGION": "x"}, "found the region 'x', expected one of AWS"),
        ({"AWS_ENDPOINT_URL": "localhost:80"}, "sagemaker: Invalid endpoint: localhost:80; look"),
        ({"AWS_MAX_ATTEMPTS": "many"}, "many"),
        ({"AWS_RETRY_MODE": "often", "AWS_ENDPOINT_URL": "http://a.invalid"}, "no answer from"),
        ({"AWS_ENDPOINT_URL": "http://a.invalid"}, "no answer from the region us-east-1 (Could no"),
        ({"AWS_ENDPOINT_URL": None, "HTTPS_PROXY": "http://[::"}, "look at"),
    ],
)
def test_what_a_caller_has(
    aws: OddAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str | None],
    expected: str,
) -> None:
    """Credentials, a region, settings: nothing is asked, or nobody answers."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
    assert expected in refused(tmp_path, monkeypatch, environment=environment)
    assert aws.asked == []


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("[default", "Unable to parse config file"),
        ("credential_process = /bin/sh -c 'echo no >&2; exit 3'", "there are no credentials"),
        ("credential_process = /bin/echo hello", "credential_process, AWS_WEB"),
        ("credential_process = /none/such", "/none/such'; look at AWS_ENDPOINT_URL, and at where"),
        ("role_arn = arn:aws:iam::123456789012:role/a\nsource_profile = default", "Infinite loop"),
        (
            "role_arn = arn:aws:iam::123456789012:role/a\nweb_identity_token_file = /none/such",
            "/none/such'; look at",
        ),
        ("sso_session = none\nsso_account_id = 1\nsso_role_name = a", "sso"),
    ],
)
def test_where_credentials_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, profile: str, expected: str
) -> None:
    """A profile of which nothing comes: a file that is none, a program that fails."""
    file = tmp_path / "config"
    file.write_text(profile if profile.startswith("[") else f"[default]\n{profile}\n")
    none = {"AWS_ACCESS_KEY_ID": None, "AWS_SECRET_ACCESS_KEY": None, "AWS_SESSION_TOKEN": None}
    sentence = refused(
        tmp_path,
        monkeypatch,
        AWS_CONFIG_FILE=str(file),
        AWS_ENDPOINT_URL="http://127.0.0.1:9",
        environment=none,
    )
    assert expected in sentence


def test_nobody_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At a port that is free; as AWS, and as a proxy, whose password is not told."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
        answer = refused(tmp_path, monkeypatch, AWS_ENDPOINT_URL=f"http://{address}")
        assert f'Could not connect to the endpoint URL: "http://{address}/"' in answer
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        expected = refused(tmp_path, monkeypatch, HTTPS_PROXY=f"http://me:secret@{address}")
        assert "the proxy does not let it through" in expected
        assert "secret" not in expected


def test_who_answers_is_not_aws(
    aws: OddAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No TLS, a proxy that refuses, a page for who has not paid, half an answer."""
    secure = aws.url.replace("http:", "https:")
    expected = refused(tmp_path, monkeypatch, AWS_ENDPOINT_URL=secure)
    assert "no TLS with the region us-east-1" in expected
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    expected = refused(tmp_path, monkeypatch, HTTPS_PROXY=aws.url)
    assert "the proxy does not let it through" in expected
    monkeypatch.delenv("HTTPS_PROXY")
    for status, body in ((302, b""), (403, b"<html>log in</html>")):
        aws.status, aws.body = status, body
        expected = refused(tmp_path, monkeypatch, AWS_ENDPOINT_URL=aws.url)
        assert f"AWS refuses it ({status})" in expected
    aws.status = 502
    assert "does not manage it now (502)" in refused(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("headers", "body", "cut", "expected"),
    [
        ({"Content-Type": "text/html"}, b"<html>log in</html>", None, "a page in HTML"),
        ({}, b'{"EndpointStatus": "InService"}', 12, "12 of 31 bytes came"),
        ({}, b"log in", None, "no JSON"),
        ({}, b"[" * 100_000, None, "no JSON"),
        ({}, b"[]", None, "no JSON object"),
        ({}, b"", None, "without EndpointName, EndpointArn, "),
        ({}, b'{"error": "no"}', None, "without EndpointName, EndpointArn, "),
    ],
)
@pytest.mark.parametrize("command", ["up", "down", "rollback", "status"])
def test_half_an_answer_is_none(
    aws: OddAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    headers: dict[str, str],
    body: bytes,
    cut: int | None,
    expected: str,
) -> None:
    """botocore would take it for one without members: nothing there, nothing to do."""
    aws.headers, aws.body, aws.cut = headers, body, cut
    sentence = refused(tmp_path, monkeypatch, command, AWS_ENDPOINT_URL=aws.url)
    assert f"sagemaker:DescribeEndpoint: the answer is none of AWS's ({expected}" in sentence


def test_a_page_in_the_place_of_s3_is_none(
    aws: OddAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore reads the status of S3's answers once more, which others' are not."""
    aws.headers, aws.body = {"Content-Type": "text/html"}, b"<html>log in</html>"
    archive = tmp_path / "a.tar.gz"
    archive.touch()
    sentence = refused(tmp_path, monkeypatch, "put", more=[archive], AWS_ENDPOINT_URL=aws.url)
    assert "s3:ListObjectsV2: the answer is none of AWS's (a page in HTML)" in sentence


def test_half_an_answer_is_asked_for_again(
    aws: OddAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as a call that fails."""
    aws.body = b'{"EndpointArn": "arn", "EndpointStatus": "InService"}'
    aws.cut, aws.whole_after = 10, 3
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "3")
    sentence = refused(tmp_path, monkeypatch, "rollback", AWS_ENDPOINT_URL=aws.url)
    assert "the endpoint shop was not made by `up`" in sentence
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    aws.asked.clear()
    assert "(10 of 53 bytes came)" in refused(tmp_path, monkeypatch, "rollback")
    assert len(aws.asked) == 2


@pytest.mark.parametrize("command", ["up", "invoke"])
@pytest.mark.parametrize(
    ("headers", "body", "cut", "expected"),
    [
        ({}, b'{"version": 1}', 5, "the answer broke off"),
        ({"x-amz-checksum-crc32": "AAAAAA=="}, b"{}", None, "the answer broke off (Expected check"),
        ({}, b"[" * 100_000, None, "is no table of aliases as `put` writes it"),
        ({}, b"\xff", None, "is no table of aliases as `put` writes it"),
        ({}, b"[]", None, "is no table of aliases as `put` writes it"),
    ],
)
def test_table_of_aliases_that_breaks_off(
    aws: OddAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    headers: dict[str, str],
    body: bytes,
    cut: int | None,
    expected: str,
) -> None:
    """It comes as a stream, after the call itself has been answered."""
    aws.headers, aws.body, aws.cut = headers, body, cut
    if command == "up":
        sentence = refused(
            tmp_path, monkeypatch, "up", single_model="shop-a", AWS_ENDPOINT_URL=aws.url
        )
    else:
        request = tmp_path / "request.json"
        request.write_text("{}")
        config = write_config(tmp_path, "shop", image=IMAGE)
        words = ["deploy", "invoke", str(config), "--request", str(request)]
        monkeypatch.setattr(sys, "argv", words)
        monkeypatch.setenv("AWS_ENDPOINT_URL", aws.url)
        with pytest.raises(DeployError) as stopped:
            read_command("deploy")()
        sentence = str(stopped.value)
    assert expected in sentence


def test_what_is_too_large_for_a_table_is_not_read(
    aws: OddAws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever somebody has put in its place: it would be in memory."""
    aws.body = b"{" + bytes(64 * 2**20)
    sentence = refused(tmp_path, monkeypatch, "up", single_model="shop-a", AWS_ENDPOINT_URL=aws.url)
    assert "aliases.json has more than 67.1 MB, expected a table of aliases" in sentence


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (302, {"Location": "/"}, b"", "is redirected without an end"),
        (200, {}, b'{"version": 1, "aliases": {"shop-a": ["shop-a/1.tar.gz"]}}', "without ETag"),
        (
            400,
            {},
            b"<Error><Code>Odd</Code><Message>" + b"x" * 50_000 + b"</Message></Error>",
            "x…",
        ),
    ],
)
def test_s3_that_is_none(
    aws: OddAws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    headers: dict[str, str],
    body: bytes,
    expected: str,
) -> None:
    """It sends its callers round in a circle, or has too little, or too much, to say."""
    aws.status, aws.headers, aws.body = status, headers, body
    sentence = refused(tmp_path, monkeypatch, "up", single_model="shop-a", AWS_ENDPOINT_URL=aws.url)
    assert expected in sentence
    assert len(sentence) < 3000


@pytest.mark.parametrize(
    ("module", "words"),
    [("deploy", ("example",)), ("ensemble_tools", ("explain", "examples/merlin/dense"))],
)
def test_outputs_that_take_nothing(module: str, words: tuple[str, ...]) -> None:
    """A full disk is told in one sentence; what goes to a closed output goes nowhere."""
    command = " ".join([sys.executable, "-m", module, *words])
    for target, code, expected in ((">/dev/full", 1, "No space left on device\n"), (">&-", 0, "")):
        done = subprocess.run(
            ["bash", "-c", f"exec {command} {target}"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
        )
        assert done.returncode == code, done.stderr
        assert done.stderr.removeprefix("error: ").removeprefix("stdout: ") == expected


def test_a_process_ends_with_1_and_a_sentence(tmp_path: Path) -> None:
    """On stderr; no traceback, and nothing on stdout."""
    config = write_config(tmp_path, "shop", image=IMAGE)
    done = subprocess.run(
        [sys.executable, "-m", "deploy", "up", str(config)],
        cwd=ROOT,
        env={**os.environ, "AWS_ENDPOINT_URL": "http://a.invalid"},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: sagemaker:DescribeEndpoint: no answer from the region")
    assert done.stderr.count("\n") == 1
