"""What a request of the runtime API may carry in its headers, and what the container gets of it.

Names, patterns and lengths are the service model's (sagemaker-runtime, 2017-05-13); its \\p{Print}
and \\p{ASCII} are ASCII only. AWS, "InvokeEndpoint": all headers that the API does not know are
dropped. No I/O.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from merlin_simulator.errors import InvalidRequest, TargetModelRefused
from merlin_simulator.instance.target_model import check_target_model
from merlin_simulator.rules import VARIANT, Rules

#: What a container is told by a caller who names no type (aws/sagemaker-containers#142).
_ANY_TYPE = "*/*"
#: Of a refused value, so much is shown.
_SHOWN_CHARACTERS = 80

_TARGET_MODEL = "x-amzn-sagemaker-target-model"
_PASSED_TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"


@dataclass(frozen=True)
class Played:
    """The endpoint as far as a request can be wrong about it."""

    endpoint_name: str
    multi_model: bool
    rules: Rules
    variants: Collection[str] = (VARIANT,)


@dataclass(frozen=True)
class Accepted:
    """A request that may go to the endpoint; headers by their names towards the container."""

    target_model: str | None
    headers: Mapping[str, str]
    target_variant: str | None = None


@dataclass(frozen=True)
class Field:
    """One header: its member in the service model, its form, its name towards the container."""

    member: str
    pattern: str
    expected: str
    passed_as: str | None = None


# Pattern, and its form in words.
_ASCII = (r"[\t -~]{0,1024}", "at most 1024 ASCII characters")
_PRINTABLE = (r"[!-~][ -~]{0,63}", "1 to 64 printable ASCII characters")
_TEXT = (r"[ -~]*", "printable ASCII characters")
_NAME = (r"(?=.{1,63}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*", "1 to 63 letters, digits and hyphens")
_SESSION = (r"(?=.{1,256}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*", "1 to 256 letters, digits and hyphens")
_NEW_SESSION = (f"NEW_SESSION|{_SESSION[0]}", f"NEW_SESSION, or {_SESSION[1]}")
_EXPRESSION = (r"[ -~]{1,64}", "1 to 64 ASCII characters")

_BOTH: Mapping[str, Field] = {
    "content-type": Field("ContentType", *_ASCII, "Content-Type"),
    "x-amzn-sagemaker-custom-attributes": Field(
        "CustomAttributes", *_ASCII, "X-Amzn-SageMaker-Custom-Attributes"
    ),
    # boto3's stream call has no TargetModel, but curl can send it.
    # Its length is check_target_model's.
    _TARGET_MODEL: Field("TargetModel", *_TEXT, _PASSED_TARGET_MODEL),
    "x-amzn-sagemaker-target-variant": Field("TargetVariant", *_NAME),
    "x-amzn-sagemaker-target-container-hostname": Field("TargetContainerHostname", *_NAME),
    "x-amzn-sagemaker-inference-id": Field(
        "InferenceId", *_PRINTABLE, "X-Amzn-SageMaker-Inference-Id"
    ),
    "x-amzn-sagemaker-inference-component": Field("InferenceComponentName", *_NAME),
    # A hint for routing that only endpoints with PREFIX_AWARE heed.
    "x-amzn-sagemaker-prefix-aware-id": Field("PrefixAwareId", *_PRINTABLE),
}
#: InvokeEndpoint's headers, by lower-case name.
WHOLE_FIELDS: Mapping[str, Field] = {
    **_BOTH,
    "accept": Field("Accept", *_ASCII, "Accept"),
    "x-amzn-sagemaker-enable-explanations": Field("EnableExplanations", *_EXPRESSION),
    "x-amzn-sagemaker-session-id": Field("SessionId", *_NEW_SESSION, "X-Amzn-SageMaker-Session-Id"),
}
#: InvokeEndpointWithResponseStream's: its Accept has another name, and it begins no session.
STREAM_FIELDS: Mapping[str, Field] = {
    **_BOTH,
    "x-amzn-sagemaker-accept": Field("Accept", *_ASCII, "Accept"),
    "x-amzn-sagemaker-session-id": Field("SessionId", *_SESSION, "X-Amzn-SageMaker-Session-Id"),
}


def accept(
    fields: Mapping[str, Field],
    headers: Iterable[tuple[str, str]],
    played: Played,
    request_id: str,
) -> Accepted:
    """Check a request's headers (lower-case names, repeated ones too).

    Raises InvalidRequest for the first of them that SageMaker would not take.
    """
    members: dict[str, str] = {}
    passed = {"Accept": _ANY_TYPE}
    for name, value in headers:
        field = fields.get(name)
        if field is not None:
            _check_form(field, value, members)
            members[field.member] = value
            passed |= {} if field.passed_as is None else {field.passed_as: value}
    _check_routing(members, played)
    target_model = _target_model(members.get("TargetModel"), played, request_id)
    if target_model is not None:
        # As it is loaded and told of: without the slash that a caller may begin it with.
        passed[_PASSED_TARGET_MODEL] = target_model
    return Accepted(target_model, passed, members.get("TargetVariant"))


def named_target_model(headers: Mapping[str, str]) -> str | None:
    """What a request calls its target model, right or wrong: for what is told of a refusal."""
    named = headers.get(_TARGET_MODEL)
    return None if named is None else named[: Rules.target_model_characters]


def _check_form(field: Field, value: str, members: Mapping[str, str]) -> None:
    if field.member in members:
        raise InvalidRequest(f"{field.member} is given twice: send its header once.")
    if not re.fullmatch(field.pattern, value):
        raise InvalidRequest(
            f"{field.member} is {value[:_SHOWN_CHARACTERS]!r} ({len(value)} characters): "
            f"expected {field.expected}."
        )


def _check_routing(members: Mapping[str, str], played: Played) -> None:
    """The members that choose among what a multi-model endpoint does not have."""
    name = played.endpoint_name
    variant = members.get("TargetVariant")
    if variant is not None and variant not in played.variants:
        there_are = f"it has {', '.join(sorted(played.variants))}"
        if len(played.variants) == 1:
            there_are = f"its only one is {min(played.variants)}"
        raise InvalidRequest(f"Variant {variant} does not exist on endpoint {name}: {there_are}.")
    for member, lacking in _LACKING.items():
        if member in members:
            raise InvalidRequest(f"Endpoint {name} {lacking}: leave {member} out.")


_LACKING: Mapping[str, str] = {
    "TargetContainerHostname": "is not configured for direct invocation of its containers",
    "InferenceComponentName": "has no inference components",
    "EnableExplanations": "has no explainer (ClarifyExplainerConfig)",
}


def _target_model(named: str | None, played: Played, request_id: str) -> str | None:
    if not played.multi_model:
        if named is None:
            return None
        # The wording is SageMaker's (aws/amazon-sagemaker-examples#1026).
        raise TargetModelRefused(
            f"Endpoint {played.endpoint_name} is not a multi-model endpoint "
            "and does not support target model header."
        )
    if named is None:
        # It begins as SageMaker's (aws/sagemaker-tensorflow-serving-container#166).
        raise InvalidRequest(
            f"Request {request_id} is missing a target model header: "
            f"endpoint {played.endpoint_name} has many models, so name an archive in TargetModel."
        )
    return check_target_model(named, played.rules)
