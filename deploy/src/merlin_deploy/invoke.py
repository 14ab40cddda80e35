"""One request and its answer, by boto3.

A body is JSON, or JSON followed by the tensors' bytes (docs/contract.md). In the second case the
Content-Type must say where the JSON ends. A request is sent once: a measurement and a message are
about one answer. Names of errors: the service model of sagemaker-runtime; throttling is every
service's.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError
from urllib3.exceptions import HTTPError

from merlin_deploy.account import Account
from merlin_deploy.archives.aliases import list_names, read_aliases, read_store, require_target
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import CallRefused, DeployError, Refused, Unreachable
from merlin_deploy.refusals import FOREIGN, Rule, code_of, find_rule, one_line, refusal_of
from merlin_deploy.terminal import show_bytes, show_count, show_ms

JSON_TYPE = "application/json"
BINARY_TYPE = "application/vnd.sagemaker-triton.binary+json"
_PARAMETER = "json-header-size"
_BLANKS = b" \t\r\n"


@dataclass(frozen=True)
class Body:
    """The body of a request, and its Content-Type."""

    content: bytes
    content_type: str


def make_body(
    content: bytes, where: str, content_type: str | None, header_size: int | None
) -> Body:
    """content_type and header_size: the caller's; None: find out.

    where: the bytes' file, for messages. Raises Refused.
    """
    if content_type is not None and not _lacks_size(content_type):
        return Body(content, content_type)
    if header_size is not None:
        if not 0 < header_size <= len(content):
            raise Refused(
                f"{where}: found {len(content)} bytes, expected --header-size to be one of them; "
                "leave it out, and it is found out"
            )
        return _make_binary(content, header_size, content_type)
    json_part = _read_json(content)
    if json_part is None:
        raise Refused(
            f"{where} begins with no JSON object; expected a request of the v2 protocol, as "
            "`python -m ensemble_tools request` writes one, or a --content-type that says what it "
            "is"
        )
    head, size = json_part
    if content_type is None and not content[size:].strip(_BLANKS):
        return Body(content, JSON_TYPE)
    return _make_binary(content, _find_size(head, size, content, where), content_type)


def find_header_size(content_type: str) -> int | None:
    """How many bytes of a body are its JSON; None if all are."""
    for parameter in content_type.split(";")[1:]:
        name, _, value = parameter.partition("=")
        digits = value.strip().strip('"')
        if name.strip().lower() == _PARAMETER and digits.isdecimal():
            return int(digits)
    return None


def _make_binary(content: bytes, size: int, content_type: str | None) -> Body:
    return Body(content, f"{content_type or BINARY_TYPE};{_PARAMETER}={size}")


def _lacks_size(content_type: str) -> bool:
    media = content_type.partition(";")[0].strip().lower()
    return media == BINARY_TYPE and find_header_size(content_type) is None


def _read_json(content: bytes) -> tuple[Mapping[str, Any], int] | None:
    """The JSON object at a body's beginning, and where it ends."""
    # latin-1: one character for each byte, so that places in the text are places in the bytes.
    text = content.decode("latin-1")
    start = len(text) - len(text.lstrip(_BLANKS.decode()))
    try:
        head, end = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (head, end) if isinstance(head, dict) else None


def _find_size(head: Mapping[str, Any], end: int, content: bytes, where: str) -> int:
    """The size of the JSON part: blanks may follow it, then the bytes that its inputs announce."""
    announced = _count_announced(head)
    size = len(content) - announced
    if size < end or content[end:size].strip(_BLANKS):
        raise Refused(
            f"{where}: found {len(content) - end} bytes behind the JSON, expected {announced}, "
            "which is what the binary_data_size of its inputs announce"
        )
    return size


def _count_announced(head: Mapping[str, Any]) -> int:
    inputs = head.get("inputs")
    total = 0
    for tensor in inputs if isinstance(inputs, list) else ():
        parameters = tensor.get("parameters") if isinstance(tensor, dict) else None
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        total += size if isinstance(size, int) and size > 0 else 0
    return total


def write_answer(content: bytes, content_type: str, *, pretty: bool) -> str:
    """Text as it is; tensors by name, type and shape; other bytes by their number."""
    size = find_header_size(content_type)
    if size is not None:
        return "\n".join(_describe_tensors(content, size))
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"{show_bytes(len(content))} of {content_type}; --output FILE keeps them"
    return _indent(text) if pretty else text


def _indent(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _describe_tensors(content: bytes, size: int) -> Iterator[str]:
    try:
        outputs = json.loads(content[:size])["outputs"]
        for output in outputs:
            shape = ", ".join(map(str, output["shape"]))
            yield f"{output['name']}  {output['datatype']} [{shape}]"
    except (ValueError, KeyError, TypeError) as error:
        yield f"its JSON has no outputs ({error}); --output FILE keeps it"
        return
    yield f"{show_bytes(len(content) - size)} of tensors; --output FILE keeps the answer"


_ASKED = "sagemaker:InvokeEndpoint"
_MS = 1000.0
#: A request waits up to 60 s for a cold archive, and 60 more for its answer (the container's
#: contract and InvokeEndpoint, both AWS's).
_READ_S = 130.0
#: The container's status if it did not answer in time.
_NO_STATUS = 0
#: By the container's status: what to do.
_CURES = {
    _NO_STATUS: "send fewer rows, or look at ModelLatency in `status`",
    429: "wait, or raise SERVE_RATE_LIMIT in container.environment",
    503: "it restarts, or a feature store is down: ask again",
    507: "the instance lacks memory for it: take a larger instances.type, or fewer archives",
}
#: How the container's sentences on an archive begin: a path in it, or the model that did not load.
_ON_ARCHIVE = re.compile(
    r"['\"]?/.+?: |the (?:called model|model|step) .+? (?:failed to load|is not loaded): "
)


@dataclass(frozen=True)
class Target:
    """The endpoint and the archive of a request."""

    endpoint_name: str
    target_model: str | None  # None for a single-model endpoint

    def __str__(self) -> str:
        return self.target_model or self.endpoint_name


@dataclass(frozen=True)
class Answer:
    """A container's answer."""

    content: bytes
    content_type: str
    variant: str  # InvokedProductionVariant


@dataclass(frozen=True)
class Streamed:
    """parts come while they are read; reading them raises DeployError."""

    parts: Iterator[bytes]
    variant: str


def choose_target(
    account: Account, config: Config, model: str | None, target_model: str | None
) -> Target:
    """model: a name of `put --as`, needless if there is only one. Raises DeployError."""
    name, single = config.endpoint.name, config.endpoint.single_model
    if single is not None:
        if target_model is not None or model not in (None, single):
            raise Refused(
                f"the endpoint {name} serves {single} alone (endpoint.single_model); leave "
                "--model and --target-model out"
            )
        return Target(name, None)
    if target_model is not None:
        return Target(name, target_model)
    store = read_store(config.endpoint.archives)
    aliases = read_aliases(account, store)
    if model is None and len(aliases.targets) == 1:
        model = next(iter(aliases.targets))
    if model is None:
        names = list_names(aliases)
        if not aliases.targets:
            names = "none yet: `put ARCHIVE --as NAME` makes one"
        raise Refused(f"no archive is named; give --model NAME: {names}")
    return Target(name, require_target(aliases, model, store))


def send(account: Account, target: Target, body: Body) -> Answer:
    """Send one request by InvokeEndpoint. Raises DeployError."""
    with _translated(account, target):
        answer = _make_client(account).invoke_endpoint(**_make_members(target, body))
        content = answer["Body"].read()
    return Answer(content, answer.get("ContentType", ""), answer.get("InvokedProductionVariant"))


def stream(account: Account, target: Target, body: Body) -> Streamed:
    """InvokeEndpointWithResponseStream, which has no TargetModel. Raises DeployError."""
    with _translated(account, target):
        members = _make_members(target, body)
        answer = _make_client(account).invoke_endpoint_with_response_stream(**members)
    parts = _read_parts(account, target, answer["Body"])
    return Streamed(parts, answer.get("InvokedProductionVariant"))


def write_times(seconds: Sequence[float]) -> str:
    """Percentiles of one or more answers; the first apart, since it may have waited for a load."""
    first = show_ms(seconds[0] * _MS)
    if len(seconds) == 1:
        return first
    p50, p99 = (show_ms(percentile(seconds, share) * _MS) for share in (0.5, 0.99))
    return f"{show_count(len(seconds))} answers: p50 {p50}, p99 {p99}; the first {first}"


def percentile(seconds: Sequence[float], share: float) -> float:
    """The percentile by nearest rank. share: 0.5 is the median."""
    return sorted(seconds)[max(0, math.ceil(share * len(seconds)) - 1)]


def _make_client(account: Account) -> Any:
    return account.client("sagemaker-runtime", attempts=1, read_s=_READ_S)


def _make_members(target: Target, body: Body) -> dict[str, Any]:
    archive = {} if target.target_model is None else {"TargetModel": target.target_model}
    return {
        "EndpointName": target.endpoint_name,
        "ContentType": body.content_type,
        "Body": body.content,
        **archive,
    }


def _read_parts(account: Account, target: Target, events: Any) -> Iterator[bytes]:
    with _translated(account, target), contextlib.closing(events):
        for event in events:
            if "PayloadPart" in event:
                yield event["PayloadPart"]["Bytes"]


@contextlib.contextmanager
def _translated(account: Account, target: Target) -> Iterator[None]:
    try:
        yield
    except HTTPError as error:  # botocore's event streams let urllib3's errors through
        raise Unreachable(f"{target}: the answer broke off ({error}); ask again") from error
    except FOREIGN as error:
        raise refusal_of_invocation(error, target, account.region) from error


_VALIDATION = r"(?i)^validation(error|exception)$"
_REFUSALS = (
    Rule(
        "{target} is not ready: it is still being downloaded or loaded, and that goes on; ask "
        "again in some seconds ({message})",
        code=r"(?i)^modelnotreadyexception$",
    ),
    Rule(
        "there is no endpoint {endpoint} ({message}); `up CONFIG.toml` makes it",
        code=_VALIDATION,
        message=r"Endpoint \S+ of account \d+ not found",
    ),
    Rule(
        "the endpoint does not get the archive {target} ({message}); `put` uploads it, and `policy "
        "CONFIG.toml` prints what the role needs to read it",
        code=_VALIDATION,
        message=r"Failed to download model data",
    ),
    Rule(
        "the endpoint {endpoint} is not of the kind that CONFIG.toml says ({message}); look at "
        "endpoint.single_model, or `up` again",
        code=_VALIDATION,
        message=r"(?i)target model header|TARGET_MODEL_HEADER",
    ),
    Rule(
        "{target}: AWS takes no more requests at this rate ({message}); send fewer at once, or ask "
        "for a higher quota of InvokeEndpoint",
        code=r"(?i)^(throttlingexception|toomanyrequestsexception)$",
    ),
    Rule(
        "{target}: no instance takes the request ({message}); ask again, and look at `status`: "
        "more instances, if that happens often",
        code=r"(?i)^serviceunavailable$",
    ),
    Rule(
        "{target}: the answer broke off while it came ({message}); ask again",
        code=r"(?i)^(modelstreamerror|internalstreamfailure)$",
    ),
)


def refusal_of_invocation(error: Exception, target: Target, region: str) -> DeployError:
    """error: one of FOREIGN."""
    if isinstance(error, ReadTimeoutError):
        return Unreachable(
            f"{target}: no answer in time; a load that has begun goes on: ask again, and look at "
            "`status`"
        )
    if not isinstance(error, ClientError):
        return refusal_of(error, _ASKED, region)
    code, message = code_of(error), one_line(error.response.get("Error", {}).get("Message", ""))
    if code == "ModelError":
        return CallRefused(_explain_model_error(error.response, target, message), code)
    if (rule := find_rule(_REFUSALS, error, code, message)) is not None:
        endpoint = target.endpoint_name
        sentence = rule.sentence.format(target=target, endpoint=endpoint, message=message)
        return CallRefused(sentence, code)
    return refusal_of(error, _ASKED, region)


def _explain_model_error(response: Any, target: Target, message: str) -> str:
    """The container's answer, or the lack of one. message: AWS's."""
    status = response.get("OriginalStatusCode")
    sentence = _read_sentence(response.get("OriginalMessage")) or message
    cure = _CURES.get(status)
    if cure is None:
        is_refused = isinstance(status, int) and 400 <= status < 500
        cure = _find_fault(sentence) if is_refused else _name_log(response)
    answers = "does not answer in time" if status == _NO_STATUS else f"answers {status}"
    return f"{target} {answers}: {sentence}; {cure}"


def _find_fault(sentence: str) -> str:
    if _ON_ARCHIVE.match(sentence):
        return "correct the archive and `put` it again, or take an image that has what it needs"
    return "correct the request"


def _name_log(response: Any) -> str:
    arn = str(response.get("LogStreamArn") or "")
    group = arn.partition(":log-group:")[2].partition(":")[0]
    return f"the log group {group} has more" if group else "its log has more"


def _read_sentence(answer: Any) -> str:
    """The container's sentence, from {"error": sentence} as its contract has it."""
    try:
        sentence = json.loads(answer)["error"]
    except (ValueError, TypeError, KeyError):
        sentence = answer or ""
    return one_line(sentence)
