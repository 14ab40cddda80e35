"""Send one request with boto3, once: one measurement and one message are about one answer.

Names of errors: the service model of sagemaker-runtime. Throttling is every service's.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError
from urllib3.exceptions import HTTPError

from deploy.archives.aliases import list_names, read_aliases, read_place, require_target
from deploy.aws.account import Account
from deploy.aws.refusals import FOREIGN, code_of, one_line, refusal_of
from deploy.config.sections import Config
from deploy.errors import CallRefused, DeployError, Refused, Unreachable
from deploy.invoke.bodies import Body
from deploy.terminal import show_count, show_ms

_MS = 1000.0


def percentile(seconds: Sequence[float], share: float) -> float:
    """Nearest rank; of one or more."""
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


def write_times(seconds: Sequence[float]) -> str:
    """Of one or more; the first one apart, since it may have waited for a load."""
    first = show_ms(seconds[0] * _MS)
    if len(seconds) == 1:
        return first
    p50, p99 = (show_ms(percentile(seconds, share) * _MS) for share in (0.5, 0.99))
    return f"{show_count(len(seconds))} answers: p50 {p50}, p99 {p99}; the first {first}"


def choose_target(
    account: Account, config: Config, model: str | None, target_model: str | None
) -> str | None:
    """TargetModel; None of a single-model endpoint. model: a name of `put --as`.

    A table with one name needs none. Raises DeployError.
    """
    single = config.endpoint.single_model
    if single is not None:
        if target_model is not None or model not in (None, single):
            raise Refused(
                f"the endpoint {config.endpoint.name} serves {single} alone "
                "(endpoint.single_model); leave --model and --target-model out"
            )
        return None
    if target_model is not None:
        return target_model
    place = read_place(config.endpoint.archives)
    aliases = read_aliases(account, place)
    if model is None and len(aliases.targets) == 1:
        model = next(iter(aliases.targets))
    if model is None:
        known = list_names(aliases)
        if not aliases.targets:
            known = "none yet: `put ARCHIVE --as NAME` makes one"
        raise Refused(f"no archive is named; give --model NAME: {known}")
    return require_target(aliases, model, place)


_ASKED = "sagemaker:InvokeEndpoint"
#: The container did not answer in time.
_NO_STATUS = 0
#: By the container's status: what to do.
_CURES = {
    _NO_STATUS: "send fewer rows, or look at ModelLatency in `status`",
    503: "it restarts, or a feature store is down: ask again",
    507: "the instance lacks memory for it: take a larger instances.type, or fewer archives",
}
#: How the container's sentences of an archive begin: a path in it, or the model that did not load.
_OF_ARCHIVE = re.compile(
    r"['\"]?/.+?: |the (?:called model|model|step) .+? (?:failed to load|is not loaded): "
)
_NO_ENDPOINT = re.compile(r"Endpoint \S+ of account \d+ not found")
_NO_ARCHIVE = re.compile(r"Failed to download model data")
_WRONG_KIND = re.compile(r"target model header|TARGET_MODEL_HEADER", re.IGNORECASE)


@dataclass(frozen=True)
class Asked:
    """Who was asked. target_model: None of a single-model endpoint."""

    endpoint_name: str
    target_model: str | None

    def __str__(self) -> str:
        return self.target_model or self.endpoint_name


def refusal_of_invocation(error: Exception, asked: Asked, region: str) -> DeployError:
    """Its sentence."""
    if isinstance(error, ReadTimeoutError):
        return Unreachable(
            f"{asked}: no answer in time; a load that has begun goes on: ask again, and look at "
            "`status`"
        )
    if not isinstance(error, ClientError):
        return refusal_of(error, _ASKED, region)
    code = code_of(error)
    sentence = _sentence(error, code, asked)
    return refusal_of(error, _ASKED, region) if sentence is None else CallRefused(sentence, code)


def _sentence(error: ClientError, code: str, asked: Asked) -> str | None:
    words = one_line(error.response.get("Error", {}).get("Message", ""))
    if code == "ModelError":
        return _of_model(error.response, asked, words)
    if code == "ModelNotReadyException":
        return (
            f"{asked} is not ready: it is still being downloaded or loaded, and that goes on; ask "
            f"again in some seconds ({words})"
        )
    if code in ("ValidationError", "ValidationException"):
        return _of_validation(asked, words)
    if code in ("ThrottlingException", "TooManyRequestsException"):
        return (
            f"{asked}: AWS takes no more requests at this rate ({words}); send fewer at once, or "
            "ask for a higher quota of InvokeEndpoint"
        )
    if code == "ServiceUnavailable":
        return (
            f"{asked}: no instance takes the request ({words}); ask again, and look at `status`: "
            "more instances, if that happens often"
        )
    if code.lower() in ("modelstreamerror", "internalstreamfailure"):
        return f"{asked}: the answer broke off while it came ({words}); ask again"
    return None


def _of_validation(asked: Asked, words: str) -> str | None:
    if _NO_ENDPOINT.search(words):
        return f"there is no endpoint {asked.endpoint_name} ({words}); `up CONFIG.toml` makes it"
    if _NO_ARCHIVE.search(words):
        return (
            f"the endpoint does not get the archive {asked} ({words}); `put` uploads it, and "
            "`policy CONFIG.toml` prints what the role needs to read it"
        )
    if _WRONG_KIND.search(words):
        return (
            f"the endpoint {asked.endpoint_name} is not of the kind that CONFIG.toml says "
            f"({words}); look at endpoint.single_model, or `up` again"
        )
    return None


def _of_model(response: Any, asked: Asked, words: str) -> str:
    status = response.get("OriginalStatusCode")
    said = _said(response.get("OriginalMessage")) or words
    cure = _CURES.get(status)
    if cure is None:
        refused = isinstance(status, int) and 400 <= status < 500
        cure = _correct(said) if refused else _log_of(response)
    how = "does not answer in time" if status == _NO_STATUS else f"answers {status}"
    return f"{asked} {how}: {said}; {cure}"


def _correct(said: str) -> str:
    if _OF_ARCHIVE.match(said):
        return "correct the archive and `put` it again, or take an image that has what it needs"
    return "correct the request"


def _log_of(response: Any) -> str:
    arn = str(response.get("LogStreamArn") or "")
    group = arn.partition(":log-group:")[2].partition(":")[0]
    return f"the log group {group} has more" if group else "its log has more"


def _said(original: Any) -> str:
    """The container's sentence, where it is of the contract: {"error": sentence}."""
    try:
        told = json.loads(original)["error"]
    except (ValueError, TypeError, KeyError):
        told = original or ""
    return one_line(told)


#: A request waits up to 60 s for a cold archive, and 60 more for its answer (the container's
#: contract and InvokeEndpoint, both AWS's).
_READ_S = 130.0


@dataclass(frozen=True)
class Answer:
    """variant: InvokedProductionVariant."""

    content: bytes
    content_type: str
    variant: str


@dataclass(frozen=True)
class Streamed:
    """parts come while they are read; reading them raises DeployError."""

    parts: Iterator[bytes]
    content_type: str
    variant: str


def send(account: Account, asked: Asked, body: Body) -> Answer:
    """One InvokeEndpoint. Raises DeployError."""
    with _in_sentences(account, asked):
        answer = _client(account).invoke_endpoint(**_members(asked, body))
        content = answer["Body"].read()
    return Answer(content, answer.get("ContentType", ""), answer.get("InvokedProductionVariant"))


def stream(account: Account, asked: Asked, body: Body) -> Streamed:
    """One InvokeEndpointWithResponseStream, which knows no TargetModel. Raises DeployError."""
    with _in_sentences(account, asked):
        members = _members(asked, body)
        answer = _client(account).invoke_endpoint_with_response_stream(**members)
    return Streamed(
        _parts(account, asked, answer["Body"]),
        answer.get("ContentType", ""),
        answer.get("InvokedProductionVariant"),
    )


def _client(account: Account) -> Any:
    return account.client("sagemaker-runtime", attempts=1, read_s=_READ_S)


def _members(asked: Asked, body: Body) -> dict[str, Any]:
    target = {} if asked.target_model is None else {"TargetModel": asked.target_model}
    return {
        "EndpointName": asked.endpoint_name,
        "ContentType": body.content_type,
        "Body": body.content,
        **target,
    }


def _parts(account: Account, asked: Asked, events: Any) -> Iterator[bytes]:
    with _in_sentences(account, asked), contextlib.closing(events):
        for event in events:
            if "PayloadPart" in event:
                yield event["PayloadPart"]["Bytes"]


@contextlib.contextmanager
def _in_sentences(account: Account, asked: Asked) -> Iterator[None]:
    try:
        yield
    except HTTPError as error:  # botocore's event streams let urllib3's own pass
        raise Unreachable(f"{asked}: the answer broke off ({error}); ask again") from error
    except FOREIGN as error:
        raise refusal_of_invocation(error, asked, account.region) from error
