"""An account in a region, as one caller sees it: the only place where something is changed."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore import xform_name
from botocore.config import Config as ClientConfig
from botocore.exceptions import ClientError

from deploy.aws.refusals import FOREIGN, is_missing, refusal_of
from deploy.aws.whole import require_whole, watch_answers
from deploy.config.known import loader, nearest, regions
from deploy.errors import Unreachable

Say = Callable[[str], None]
Answer = Mapping[str, Any]
#: Throttled and failed calls are asked again by botocore, with growing waits: 8 s on average, so
#: that a wrong address is told of soon. AWS_MAX_ATTEMPTS, which botocore reads, goes before it.
_ATTEMPTS, _ATTEMPTS_SETTING = 5, "AWS_MAX_ATTEMPTS"
_CONNECT_S, _READ_S = 5, 60


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
