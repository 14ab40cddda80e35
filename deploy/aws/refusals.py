"""AWS's errors in sentences: what was asked, what it said, what to do."""

from __future__ import annotations

import re

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from deploy.errors import (
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

_RIGHTS = re.compile(r"(AccessDenied|NotAuthorized|UnauthorizedOperation|AuthFailure|^403$)")
_QUOTAS = re.compile(r"(ResourceLimitExceeded|LimitExceeded|QuotaExceeded|TooManyBuckets)")
_STALE = re.compile(
    r"(ExpiredToken|InvalidClientTokenId|UnrecognizedClient|InvalidSignature|SignatureDoesNotMatch)"
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
#: SageMaker has one code for all that it refuses: its words tell what it is.
_ALREADY = re.compile(r"already exist")
_IN_PROGRESS = re.compile(r"in-progress endpoint|ConcurrentUpdate|OperationAborted")
#: What passes. ServerException is ECR's: taken for a refusal, it would let an image go by its tag.
_BUSY = re.compile(
    r"(Throttl|TooManyRequests|RequestLimitExceeded|RequestThrottled|SlowDown|Internal"
    r"|ServiceUnavailable|^ServerException$|^5\d\d$)"
)
_CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    ProfileNotFound,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)


def is_missing(error: ClientError) -> bool:
    """Whether what was asked for is not there. SageMaker has no code of its own for that."""
    code, words = code_of(error), _words(error)
    return code in _MISSING or (
        code == "ValidationException" and _NOT_FOUND.search(words) is not None
    )


def code_of(error: ClientError) -> str:
    """AWS's code of an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


def refusal_of(error: BotoCoreError | ClientError, asked: str, region: str) -> DeployError:
    """asked: what was called, such as sagemaker:CreateModel."""
    if isinstance(error, ClientError):
        return _of_answer(error, asked, region)
    if isinstance(error, _CREDENTIALS):
        return Unreachable(
            f"there are no credentials that AWS would take ({_one_line(error)}); set AWS_PROFILE, "
            "or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if isinstance(error, NoRegionError):
        return Unreachable("no region is given: set endpoint.region, or AWS_REGION")
    if isinstance(error, (ConnectionError, HTTPClientError, IncompleteReadError)):
        return NoAnswer(
            f"{asked}: no answer from the region {region} ({_one_line(error)}); look at the "
            "region's name, AWS_ENDPOINT_URL and the network; nothing is lost, ask again"
        )
    return CallRefused(f"{asked}: {_one_line(error)}", type(error).__name__)


def _of_answer(error: ClientError, asked: str, region: str) -> DeployError:
    code, words = code_of(error), _words(error)
    # Before quotas: RequestLimitExceeded is about calls, not about what they make.
    if _BUSY.search(code):
        return NoAnswer(
            f"{asked}: AWS does not manage it now ({code}): {words}; nothing is lost, ask again"
        )
    if _RIGHTS.search(code):
        return MissingRight(
            f"{asked} is not allowed in {region}: {words}; `python -m deploy policy CONFIG.toml` "
            "prints the rights that are needed"
        )
    if _QUOTAS.search(code):
        return QuotaReached(
            f"{asked}: a quota of the account is reached in {region}: {words}; ask for more in "
            "Service Quotas, or take fewer or other instances, and call again"
        )
    if _STALE.search(code):
        return Unreachable(f"{asked}: AWS does not take the credentials: {words}; renew them")
    return _class_of(error)(f"{asked}: AWS refuses it ({code}): {words}", code)


def _class_of(error: ClientError) -> type[CallRefused]:
    told = f"{code_of(error)}: {_words(error)}"
    if _ALREADY.search(told):
        return AlreadyThere
    if _IN_PROGRESS.search(told):
        return InProgress
    return NotThere if is_missing(error) else CallRefused


def _words(error: ClientError) -> str:
    return " ".join(str(error.response.get("Error", {}).get("Message", "")).split()).rstrip(".")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
