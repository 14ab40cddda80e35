"""The only way to AWS: one caller's account in a region. Errors become sentences here.

An answer that is not whole is asked for again. botocore takes JSON that it cannot read for an
answer without members: an answer that broke off, or the login page of a hotel's network. Then
whatever was looked for would seem not to exist.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore import xform_name
from botocore.config import Config as ClientConfig
from botocore.exceptions import ClientError

from deploy.aws.refusals import FOREIGN, is_missing, no_aws, refusal_of
from deploy.config.catalog import loader, nearest, regions
from deploy.config.sections import Config
from deploy.errors import Unreachable
from deploy.terminal import Say

#: Of an answer: what is wrong with it.
_WRONG = "deploy:wrong"
#: Before it is asked again, in seconds.
_PAUSE_S = 0.5
_JSON = "json"


def watch_answers(client: Any) -> None:
    """Have a client of boto3 ask again where an answer is not whole, as often as at a failure."""
    most = client.meta.config.retries["total_max_attempts"]

    def ask_again(response: Any, attempts: int, **_: Any) -> float | None:
        answer = response[1] if response else {}
        return _PAUSE_S if attempts < most and _WRONG in answer else None

    client.meta.events.register("before-parse", _look)
    client.meta.events.register("needs-retry", ask_again)


def require_whole(answer: Mapping[str, Any], asked: str) -> None:
    """Raises NoAnswer where the last answer was not whole, either."""
    if _WRONG in answer:
        raise no_aws(asked, answer[_WRONG])


def require_members(answer: Mapping[str, Any], asked: str, *names: str) -> None:
    """Raises NoAnswer where an answer lacks what AWS never leaves out of it: S3's say nothing of
    what they require."""
    lacking = [name for name in names if answer.get(name) in (None, "")]
    if lacking:
        raise no_aws(asked, f"without {', '.join(lacking)}")


def _look(
    operation_model: Any,
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    **_: Any,
) -> None:
    """Note what is wrong, and have it read as any server's failure is: whatever it was."""
    wrong = _find_wrong(operation_model, response_dict)
    if wrong is not None:
        customized_response_dict[_WRONG] = wrong
        response_dict |= {"status_code": 503, "body": b""}


def _find_wrong(operation_model: Any, response: Mapping[str, Any]) -> str | None:
    body, headers = response["body"], response["headers"]
    if response["status_code"] >= 300 or not isinstance(body, bytes):
        return None
    length = str(headers.get("content-length", ""))
    is_head = operation_model.http.get("method") == "HEAD"
    if length.isdecimal() and len(body) < int(length) and not is_head:
        return f"{len(body)} of {length} bytes came"
    # Without a body it is no page: so do some say that it is done.
    if body and str(headers.get("content-type", "")).startswith("text/html"):
        return "a page in HTML"
    if operation_model.service_model.resolved_protocol == _JSON:
        return _find_wrong_json(body or b"{}", operation_model.output_shape)
    return None


def _find_wrong_json(body: bytes, shape: Any) -> str | None:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return "no JSON"
    if not isinstance(said, dict):
        return "no JSON object"
    required = () if shape is None else shape.required_members
    # Not all: which of them AWS leaves out at times is not known.
    if required and not any(name in said for name in required):
        return f"without {', '.join(required)}"
    return None


Answer = Mapping[str, Any]
#: Throttled and failed calls are asked again by botocore, with growing waits: 8 s on average, so
#: that a wrong address is told of soon. AWS_MAX_ATTEMPTS, which botocore reads, goes before it.
_ATTEMPTS, _ATTEMPTS_SETTING = 5, "AWS_MAX_ATTEMPTS"
_CONNECT_S, _READ_S = 5, 60


def open_account(config: Config, say: Say, *, dry_run: bool = False) -> Account:
    """The caller's account in the region of a configuration. Raises DeployError."""
    return Account(config.endpoint.region, say, dry_run=dry_run)


class Account:
    """What AWS has, and the way to change it. All methods raise DeployError, and block.

    With dry_run nothing is changed: calls are said as lines of the AWS CLI.
    """

    def __init__(self, region: str | None, say: Say, *, dry_run: bool = False) -> None:
        self.dry_run, self._say = dry_run, say
        # AWS_REGION is what AWS's other tools read; boto3 reads AWS_DEFAULT_REGION alone.
        wanted = region or os.environ.get("AWS_REGION") or None
        self.region = wanted or ""
        with self._in_sentences("a session"):
            self._session = _make_session(wanted)
            found = self._session.region_name
        if not found:
            raise Unreachable(
                "no region is given: set endpoint.region in the file, or AWS_REGION, or the "
                "profile's"
            )
        if found not in regions():
            raise Unreachable(
                f"found the region {found!r}, expected one of AWS; {nearest(found, regions())}; "
                "look at AWS_REGION, AWS_DEFAULT_REGION and the profile"
            )
        self.region = str(found)
        self.client = cache(self._make_client)

    def _make_client(
        self, service: str, *, attempts: int | None = None, read_s: float = _READ_S
    ) -> Any:
        """boto3's, for what is not one call: uploads, streams.

        attempts: in all; read_s: how long an answer may be silent.
        """
        retries: dict[str, Any] = {"mode": "standard"}
        if attempts is not None or _ATTEMPTS_SETTING not in os.environ:
            retries["total_max_attempts"] = attempts or _ATTEMPTS
        with self._in_sentences(service):
            client = self._session.client(
                service,
                config=ClientConfig(
                    connect_timeout=_CONNECT_S,
                    read_timeout=read_s,
                    retries=retries,
                ),
            )
        watch_answers(client)
        return client

    def ask(self, service: str, operation: str, **members: Any) -> Answer:
        """A call that changes nothing; operation: the API's name, such as DescribeEndpoint."""
        with self._in_sentences(f"{service}:{operation}"):
            return self._call(service, operation, members)

    def find(self, service: str, operation: str, **members: Any) -> Answer | None:
        """As ask; None where what is asked for is not there."""
        with self._in_sentences(f"{service}:{operation}"):
            try:
                return self._call(service, operation, members)
            except ClientError as error:
                if is_missing(error):
                    return None
                raise

    def ask_all(self, service: str, operation: str, key: str, **members: Any) -> Iterator[Any]:
        """Every item of a listing, of all its pages; key: where an answer has its items."""
        asked = f"{service}:{operation}"
        client = self.client(service)
        with self._in_sentences(asked):
            paginator = client.get_paginator(xform_name(operation))
            for page in paginator.paginate(**members):
                require_whole(page, asked)
                yield from page.get(key, ())

    def find_body(
        self, service: str, operation: str, most: int, **members: Any
    ) -> tuple[bytes, Answer] | None:
        """As find, of a call whose answer has a Body: all of it, and the answer beside it.

        Of a body that is longer than most bytes these and one more.
        """
        answer = self.find(service, operation, **members)
        if answer is None:
            return None
        with self._in_sentences(f"{service}:{operation}"):
            body = answer["Body"]
            # botocore looks whether all came, and as it was sent, where nothing is left to read.
            return body.read(most) + body.read(1), answer

    def show(self, line: str) -> None:
        """With dry_run, what would be done by more than one call; nothing else."""
        if self.dry_run:
            self._say(line)

    def change(self, service: str, operation: str, **members: Any) -> Answer:
        """A call that changes something. With dry_run it is said, and the answer is empty."""
        if self.dry_run:
            self._say(as_command_line(service, operation, members))
            return {}
        return self.ask(service, operation, **members)

    def remove(self, service: str, operation: str, **members: Any) -> bool:
        """As change, of a call that takes something away; whether it was there."""
        if self.dry_run:
            self._say(as_command_line(service, operation, members))
            return True
        return self.find(service, operation, **members) is not None

    def who(self) -> tuple[str, str]:
        """The account's number, and the ARN of who asks."""
        answer = self.ask("sts", "GetCallerIdentity")
        return str(answer["Account"]), str(answer["Arn"])

    def _call(self, service: str, operation: str, members: Mapping[str, Any]) -> Answer:
        answer: Answer = getattr(self.client(service), xform_name(operation))(**members)
        require_whole(answer, f"{service}:{operation}")
        return answer

    @contextmanager
    def _in_sentences(self, asked: str) -> Iterator[None]:
        try:
            yield
        except FOREIGN as error:
            # S3's answers that are not whole come as errors: botocore reads their status anew.
            if isinstance(error, ClientError):
                require_whole(error.response, asked)
            raise refusal_of(error, asked, self.region) from error


def _make_session(region: str | None) -> Any:
    """boto3's, with what this process has read already of the services' models."""
    inner = botocore.session.Session()
    inner.register_component("data_loader", loader())
    return boto3.Session(botocore_session=inner, region_name=region)


def as_command_line(service: str, operation: str, members: Mapping[str, Any]) -> str:
    """The call as a line of the AWS CLI, which can be run as it is.

    A Body, text in UTF-8, becomes a file first, as that wants it.
    """
    body = members.get("Body")
    written = json.dumps(
        {name: one for name, one in members.items() if name != "Body"}, separators=(", ", ": ")
    )
    # `aws s3` is another program, of copies.
    room, name = "s3api" if service == "s3" else service, xform_name(operation, "-")
    line = f"aws {room} {name} --cli-input-json {shlex.quote(written)}"
    if body is None:
        return line
    file = shlex.quote(str(members["Key"]).rpartition("/")[2])
    return f"printf %s {shlex.quote(body.decode())} > {file}; {line} --body {file}"
