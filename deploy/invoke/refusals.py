"""Errors of InvokeEndpoint in sentences: who refuses, its words, what to do. No I/O.

Their names: the service model of sagemaker-runtime. Throttling is every service's.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError, ReadTimeoutError

from deploy.aws.refusals import code_of, refusal_of
from deploy.aws.words import one_line
from deploy.errors import CallRefused, DeployError, Unreachable

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
