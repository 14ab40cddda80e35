"""AWS's errors in sentences: what was called, what AWS said, what to do.

Some of AWS's messages contain the whole request: SignatureDoesNotMatch has the canonical request
with the session token among its headers, IncompleteSignature the Authorization header. Keys and
tokens are taken out of every message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from merlin_deploy.errors import (
    AlreadyThere,
    CallRefused,
    DeployError,
    InProgress,
    MissingRight,
    NoAnswer,
    NotThere,
    QuotaReached,
    Unreachable,
)

_HIDDEN = "…"
#: Characters that are shown, and that are searched for secrets; AWS writes some hundred.
_MOST_CHARACTERS, _MOST_READ = 2000, 100_000
#: IAM, "Unique identifiers": keys, and whom temporary ones are of; AWS's have 16 or more characters
#: behind the prefix.
_IDS = re.compile(r"\b(AKIA|ASIA|ABIA|ACCA|AROA|AIDA)[A-Z0-9]{12,}\b")
#: Names with their values, in headers, in queries and in canonical requests.
_NAMED = re.compile(
    r"(?i)\b(Credential|Signature|AWSAccessKeyId|X-Amz-Security-Token|X-Amz-Credential"
    r"|X-Amz-Signature|SecurityToken|SessionToken|SecretAccessKey|Authorization)"
    r"""(['"]?\s*[=:]\s*)(?!HIDDEN)(AWS4-HMAC-SHA256\s*|b?['"])?[^\s,&'"<>]+""".replace(
        "HIDDEN", _HIDDEN
    )
)
#: The signed request, up to the message's end.
_REQUEST = re.compile(r"(?is)\s*The (Canonical String|String-to-Sign) for this request\b.*")


def one_line(message: object) -> str:
    """A message in one line, without secrets and without a full stop at its end."""
    shown = _REQUEST.sub("", str(message)[:_MOST_READ])
    shown = _IDS.sub(_HIDDEN, _NAMED.sub(rf"\1\2{_HIDDEN}", shown))
    line = " ".join(shown.split()).rstrip(".")
    return line if len(line) <= _MOST_CHARACTERS else f"{line[:_MOST_CHARACTERS]}…"


#: What a call may raise: AWS's errors, botocore's, those that botocore lets through (urllib3's from
#: bodies, a circle of redirections), and those of where credentials come from (a program, a file).
FOREIGN = (
    ClientError,
    BotoCoreError,
    ResponseParserError,
    HTTPError,
    OSError,
    ValueError,
    RecursionError,
)
_RIGHTS = re.compile(r"(AccessDenied|NotAuthorized|UnauthorizedOperation|AuthFailure)")
#: A HEAD's answer has no body: botocore makes a code and a message from its status.
_HEAD_REFUSED = ("403", "Forbidden")
_QUOTAS = re.compile(r"(ResourceLimitExceeded|LimitExceeded|QuotaExceeded|TooManyBuckets)")


@dataclass(frozen=True)
class Rule:
    """A sentence for errors of these classes whose code and message match.

    code and message: regular expressions, which are searched for.
    """

    sentence: str
    code: str = ""
    message: str = ""
    errors: tuple[type[Exception], ...] = (Exception,)
    refusal: type[DeployError] = Unreachable


def find_rule(
    rules: Iterable[Rule], error: Exception, code: str = "", message: str = ""
) -> Rule | None:
    """The first rule that fits the error."""
    for rule in rules:
        if (
            isinstance(error, rule.errors)
            and re.search(rule.code, code)
            and re.search(rule.message, message)
        ):
            return rule
    return None


#: AWS does not trust the caller. Its message is not shown, since it has the request in it.
#: Signature Version 4, "Troubleshooting"; S3, "List of error codes".
_DISTRUSTS = (
    Rule(
        "this machine's clock is minutes away from AWS's; set it",
        code=r"RequestTimeTooSkewed|RequestInTheFuture|RequestExpired",
    ),
    Rule(
        "this machine's clock is minutes away from AWS's; set it",
        code=r"Signature|AuthFailure",
        message=r"Signature (expired|not yet current)|skew",
    ),
    Rule(
        "the credentials have expired; get new ones, as `aws sso login` does",
        code=r"ExpiredToken|TokenRefreshRequired",
    ),
    Rule(
        "AWS does not know the credentials in the region {region}; look at AWS_PROFILE, or "
        "AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN, and whether the account has that region enabled",
        code=r"InvalidClientTokenId|UnrecognizedClient|InvalidAccessKeyId|InvalidToken",
    ),
    Rule(
        "the secret key is not that of the key id, or something on the way changed the request; "
        "look at AWS_SECRET_ACCESS_KEY, and at proxies",
        code=r"SignatureDoesNotMatch|InvalidSignature",
    ),
    Rule(
        "the request is not signed as AWS expects it; look at AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL "
        "and proxies",
        code=r"IncompleteSignature|MissingAuthenticationToken|^AuthorizationHeader",
    ),
)
_MISSING = frozenset(
    {
        "404",
        "NoSuchKey",
        "NoSuchBucket",
        "NoSuchUpload",
        "NoSuchEntity",
        "NoSuchTagSet",
        "NotFound",
        "RepositoryNotFoundException",
        "ImageNotFoundException",
        "ObjectNotFoundException",
        "ResourceNotFound",
        "ResourceNotFoundException",
    }
)
_NOT_FOUND = re.compile(r"(Could not|Cannot) find")
#: SageMaker has one code for all that it refuses: its message says why.
_ALREADY = re.compile(r"already exist")
_IN_PROGRESS = re.compile(r"in-progress endpoint|ConcurrentUpdate|OperationAborted")
#: Errors that pass. ServerException is ECR's: as a refusal it would let an image go by its tag.
_BUSY = re.compile(
    r"(Throttl|TooManyRequests|RequestLimitExceeded|RequestThrottled|SlowDown|Internal"
    r"|ServiceUnavailable|^ServerException$|^5\d\d$)"
)


#: Errors that come before AWS's answer.
_ON_THE_WAY = (
    Rule(
        "there are no credentials that AWS would take ({message}); set AWS_PROFILE, or "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        errors=(
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.CredentialRetrievalError,
            exceptions.ProfileNotFound,
            exceptions.TokenRetrievalError,
            exceptions.SSOError,
            exceptions.LoginError,
        ),
    ),
    Rule(
        "no region is given: set endpoint.region, or AWS_REGION", errors=(exceptions.NoRegionError,)
    ),
    # http.client's words, which show the header: a key or a token.
    Rule(
        "{call}: a key or a token has a character that no header can have, such as a line's end; "
        "look at AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN",
        message=r"Invalid header value|bytes pattern on a string-like",
    ),
    Rule(
        "{call}: no TLS with the region {region} ({message}); look at AWS_CA_BUNDLE, "
        "AWS_ENDPOINT_URL and proxies",
        errors=(exceptions.SSLError,),
    ),
    Rule(
        "{call}: the proxy does not let it through ({message}); look at HTTPS_PROXY, HTTP_PROXY "
        "and NO_PROXY; nothing is lost, ask again",
        errors=(exceptions.ProxyConnectionError, exceptions.InvalidProxiesConfigError),
        refusal=NoAnswer,
    ),
    Rule(
        "{call}: the answer broke off ({message}); look at the network; nothing is lost, ask again",
        errors=(
            exceptions.ResponseStreamingError,
            exceptions.IncompleteReadError,
            exceptions.FlexibleChecksumError,
            HTTPError,
        ),
        refusal=NoAnswer,
    ),
    Rule(
        "{call}: no answer from the region {region} ({message}); look at the region's name, "
        "AWS_ENDPOINT_URL and the network; nothing is lost, ask again",
        errors=(exceptions.ConnectionError, exceptions.HTTPClientError),
        refusal=NoAnswer,
    ),
)


def is_missing(error: ClientError) -> bool:
    """Whether AWS says that something does not exist. SageMaker has no code of its own for that."""
    code, message = code_of(error), _message_of(error)
    return code in _MISSING or (
        code == "ValidationException" and _NOT_FOUND.search(message) is not None
    )


def code_of(error: ClientError) -> str:
    """AWS's code of an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def refusal_of(error: Exception, call: str, region: str) -> DeployError:
    """error: one of FOREIGN. call: the call, such as sagemaker:CreateModel."""
    if isinstance(error, ClientError):
        return _refusal_of_answer(error, call, region)
    if isinstance(error, RecursionError):
        return no_aws(call, "it is redirected without an end, or has values inside of values")
    message = one_line(error)
    if isinstance(error, ResponseParserError):
        return no_aws(call, message)
    if (rule := find_rule(_ON_THE_WAY, error, message=str(error))) is not None:
        return rule.refusal(rule.sentence.format(call=call, region=region, message=message))
    if isinstance(error, BotoCoreError):
        return CallRefused(f"{call}: {message}", type(error).__name__)
    return Unreachable(
        f"{call}: {message}; look at AWS_ENDPOINT_URL, and at where the credentials come from "
        "(AWS_PROFILE, credential_process, AWS_WEB_IDENTITY_TOKEN_FILE)"
    )


def no_aws(call: str, message: str) -> NoAnswer:
    """Something else than AWS answered, or the answer is not whole. message: what came."""
    return NoAnswer(
        f"{call}: the answer is none of AWS's ({message}); look at AWS_ENDPOINT_URL, proxies and "
        "the network; nothing is lost, ask again"
    )


def _refusal_of_answer(error: ClientError, call: str, region: str) -> DeployError:
    code, message = code_of(error), _message_of(error)
    if (rule := find_rule(_DISTRUSTS, error, code, message)) is not None:
        return Unreachable(f"{call} ({code}): {rule.sentence.format(region=region)}")
    # Before quotas: RequestLimitExceeded is about calls, not about what they make.
    if _BUSY.search(code):
        return NoAnswer(
            f"{call}: AWS does not manage it now ({code}): {message}; nothing is lost, ask again"
        )
    if _RIGHTS.search(code) or (code, message) == _HEAD_REFUSED:
        return MissingRight(
            f"{call} is not allowed in {region}: {message}; `python -m deploy policy CONFIG.toml` "
            "prints the rights that are needed"
        )
    if _QUOTAS.search(code):
        return QuotaReached(
            f"{call}: a quota of the account is reached in {region}: {message}; ask for more in "
            "Service Quotas, or take fewer or other instances, and call again"
        )
    return _class_of(error)(f"{call}: AWS refuses it ({code}): {message}", code)


def _class_of(error: ClientError) -> type[CallRefused]:
    text = f"{code_of(error)}: {_message_of(error)}"
    if _ALREADY.search(text):
        return AlreadyThere
    if _IN_PROGRESS.search(text):
        return InProgress
    return NotThere if is_missing(error) else CallRefused


def _message_of(error: ClientError) -> str:
    return one_line(error.response.get("Error", {}).get("Message", ""))
