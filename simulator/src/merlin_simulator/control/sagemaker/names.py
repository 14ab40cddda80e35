"""Names of SageMaker's resources as its answers and errors have them. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from merlin_simulator.errors import ACCOUNT


def make_arn(kind: str, name: str, region: str) -> str:
    """kind: "model", "endpoint-config", "endpoint"; AWS has names in small letters in an ARN."""
    return f"arn:aws:sagemaker:{region}:{ACCOUNT}:{kind}/{name.lower()}"


def is_taken(name: str, kept: Iterable[str]) -> bool:
    """AWS, "CreateEndpoint": names do not differ by their case alone: ARNs have none."""
    return any(name.lower() == one.lower() for one in kept)


#: How errors call each kind.
WORDS = {
    "model": "model",
    "endpoint-config": "endpoint configuration",
    "endpoint": "endpoint",
}


def not_found(kind: str, name: str, region: str) -> str:
    """SageMaker's own words (aws/sagemaker-python-sdk#2218)."""
    return f'Could not find {WORDS[kind]} "{make_arn(kind, name, region)}".'


def already_there(kind: str, name: str, region: str) -> str:
    """SageMaker's own words (aws/sagemaker-python-sdk#101)."""
    return f'Cannot create already existing {WORDS[kind]} "{make_arn(kind, name, region)}".'


def in_progress(name: str, region: str) -> str:
    """SageMaker's own words (aws/sagemaker-python-sdk#1168)."""
    return f'Cannot update in-progress endpoint "{make_arn("endpoint", name, region)}".'
