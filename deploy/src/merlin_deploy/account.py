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

from merlin_deploy.config.catalog import loader, nearest, regions
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import Unreachable
from merlin_deploy.refusals import FOREIGN, is_missing, no_aws, refusal_of
from merlin_deploy.terminal import Say

#: The member of an answer that says what is wrong with it.
_WRONG = "deploy:wrong"
#: Seconds before it is asked for again.
_PAUSE_S = 0.5
_JSON = "json"


def watch_answers(client: Any) -> None:
    """Let a client of boto3 ask again if an answer is not whole, as often as after a failure."""
    most = client.meta.config.retries["total_max_attempts"]

    def ask_again(response: Any, attempts: int, **_: Any) -> float | None:
        answer = response[1] if response else {}
        return _PAUSE_S if attempts < most and _WRONG in answer else None

    client.meta.events.register("before-parse", _mark_wrong)
    client.meta.events.register("needs-retry", ask_again)


def require_whole(answer: Mapping[str, Any], call: str) -> None:
    """Raises NoAnswer if the last answer was not whole, either."""
    if _WRONG in answer:
        raise no_aws(call, answer[_WRONG])


def require_members(answer: Mapping[str, Any], call: str, *names: str) -> None:
    """Raises NoAnswer if an answer lacks members that AWS never leaves out.

    For S3, whose service model does not say which they are.
    """
    lacking = [name for name in names if answer.get(name) in (None, "")]
    if lacking:
        raise no_aws(call, f"without {', '.join(lacking)}")


def _mark_wrong(
    operation_model: Any,
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    **_: Any,
) -> None:
    """Note what is wrong with an answer, and let botocore take it for a server's failure."""
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
    # Some answers without a body say text/html, too.
    if body and str(headers.get("content-type", "")).startswith("text/html"):
        return "a page in HTML"
    if operation_model.service_model.resolved_protocol == _JSON:
        return _find_wrong_json(body or b"{}", operation_model.output_shape)
    return None


def _find_wrong_json(body: bytes, shape: Any) -> str | None:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return "no JSON"
    if not isinstance(answer, dict):
        return "no JSON object"
    required = () if shape is None else shape.required_members
    # One of them is enough: AWS may leave out others.
    if required and not any(name in answer for name in required):
        return f"without {', '.join(required)}"
    return None


Answer = Mapping[str, Any]
#: botocore repeats throttled and failed calls with growing waits, 8 s on average: a wrong address
#: is found out soon. AWS_MAX_ATTEMPTS, which botocore reads, overrides it.
_ATTEMPTS, _ATTEMPTS_SETTING = 5, "AWS_MAX_ATTEMPTS"
_CONNECT_S, _READ_S = 5, 60


def open_account(config: Config, say: Say, *, dry_run: bool = False) -> Account:
    """The caller's account in the region of a configuration. Raises DeployError."""
    return Account(config.endpoint.region, say, dry_run=dry_run)


class Account:
    """Asks AWS, and changes what AWS has. All methods block, and raise DeployError.

    With dry_run nothing is changed: `say` gets the calls as command lines of the AWS CLI.
    """

    def __init__(self, region: str | None, say: Say, *, dry_run: bool = False) -> None:
        self.dry_run, self._say = dry_run, say
        # AWS's other tools read AWS_REGION; boto3 reads AWS_DEFAULT_REGION alone.
        requested = region or os.environ.get("AWS_REGION") or None
        self.region = requested or ""
        with self._translated("a session"):
            self._session = _make_session(requested)
            chosen = self._session.region_name
        if not chosen:
            raise Unreachable(
                "no region is given: set endpoint.region in the file, or AWS_REGION, or the "
                "profile's"
            )
        if chosen not in regions():
            raise Unreachable(
                f"found the region {chosen!r}, expected one of AWS; {nearest(chosen, regions())}; "
                "look at AWS_REGION, AWS_DEFAULT_REGION and the profile"
            )
        self.region = str(chosen)
        self.client = cache(self._make_client)

    def _make_client(
        self, service: str, *, attempts: int | None = None, read_s: float = _READ_S
    ) -> Any:
        """boto3's client, for more than one call: uploads, streams.

        attempts: of each call. read_s: how long an answer may be silent.
        """
        retries: dict[str, Any] = {"mode": "standard"}
        if attempts is not None or _ATTEMPTS_SETTING not in os.environ:
            retries["total_max_attempts"] = attempts or _ATTEMPTS
        with self._translated(service):
            config = ClientConfig(connect_timeout=_CONNECT_S, read_timeout=read_s, retries=retries)
            client = self._session.client(service, config=config)
        watch_answers(client)
        return client

    def ask(self, service: str, operation: str, **members: Any) -> Answer:
        """A call that changes nothing; operation: the API's name, such as DescribeEndpoint."""
        with self._translated(f"{service}:{operation}"):
            return self._call(service, operation, members)

    def find(self, service: str, operation: str, **members: Any) -> Answer | None:
        """Call as `ask` does; None if AWS says that the resource does not exist."""
        with self._translated(f"{service}:{operation}"):
            try:
                return self._call(service, operation, members)
            except ClientError as error:
                if is_missing(error):
                    return None
                raise

    def ask_all(self, service: str, operation: str, key: str, **members: Any) -> Iterator[Any]:
        """Every item of all pages of a listing. key: the member that has the items."""
        call = f"{service}:{operation}"
        client = self.client(service)
        with self._translated(call):
            paginator = client.get_paginator(xform_name(operation))
            for page in paginator.paginate(**members):
                require_whole(page, call)
                yield from page.get(key, ())

    def find_body(
        self, service: str, operation: str, most: int, **members: Any
    ) -> tuple[bytes, Answer] | None:
        """Call as `find` does, and read the answer's Body: the bytes, and the answer.

        At most `most` bytes are read, and one more, which shows that the body is longer.
        """
        answer = self.find(service, operation, **members)
        if answer is None:
            return None
        with self._translated(f"{service}:{operation}"):
            body = answer["Body"]
            # botocore checks length and checksum when it finds the end, so it is read up to there.
            return body.read(most) + body.read(1), answer

    def ask_pieces(
        self, service: str, operation: str, size: int, **members: Any
    ) -> Iterator[bytes]:
        """Call as `ask` does; the answer's Body, in pieces of at most this size."""
        answer = self.ask(service, operation, **members)
        with self._translated(f"{service}:{operation}"):
            yield from answer["Body"].iter_chunks(size)

    def show(self, line: str) -> None:
        """Say a command line that stands for several calls, if dry_run."""
        if self.dry_run:
            self._say(line)

    def change(self, service: str, operation: str, **members: Any) -> Answer:
        """A call that changes something. With dry_run say it; the answer is empty."""
        if self.dry_run:
            self._say(as_command_line(service, operation, members))
            return {}
        return self.ask(service, operation, **members)

    def remove(self, service: str, operation: str, **members: Any) -> bool:
        """Call as `change` does, to remove something; False if it did not exist."""
        if self.dry_run:
            self._say(as_command_line(service, operation, members))
            return True
        return self.find(service, operation, **members) is not None

    def _call(self, service: str, operation: str, members: Mapping[str, Any]) -> Answer:
        answer: Answer = getattr(self.client(service), xform_name(operation))(**members)
        require_whole(answer, f"{service}:{operation}")
        return answer

    @contextmanager
    def _translated(self, call: str) -> Iterator[None]:
        try:
            yield
        except FOREIGN as error:
            # S3's come as errors if they are not whole: botocore reads their status again.
            if isinstance(error, ClientError):
                require_whole(error.response, call)
            raise refusal_of(error, call, self.region) from error


def _make_session(region: str | None) -> Any:
    """boto3's session, which shares the service models that this process has read already."""
    inner = botocore.session.Session()
    inner.register_component("data_loader", loader())
    return boto3.Session(botocore_session=inner, region_name=region)


def as_command_line(service: str, operation: str, members: Mapping[str, Any]) -> str:
    """The call as a command line of the AWS CLI.

    The CLI takes a Body (text in UTF-8) from a file, which the line writes first.
    """
    body = members.get("Body")
    written = json.dumps({name: value for name, value in members.items() if name != "Body"})
    # `aws s3` has commands of its own.
    group, name = "s3api" if service == "s3" else service, xform_name(operation, "-")
    line = f"aws {group} {name} --cli-input-json {shlex.quote(written)}"
    if body is None:
        return line
    file = shlex.quote(str(members["Key"]).rpartition("/")[2])
    return f"printf %s {shlex.quote(body.decode())} > {file}; {line} --body {file}"
