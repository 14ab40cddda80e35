"""Readers of values: each takes what TOML has and raises ValueError with what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable

_BUCKET = r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]"


def text(value: object) -> str:
    """A string that says something."""
    if isinstance(value, str) and value.strip() == value != "":
        return value
    raise ValueError("a string without blanks around it")


def pattern(words: str, expression: str) -> Callable[[object], str]:
    """A string of a pattern, which `words` describe."""
    compiled = re.compile(expression)

    def read(value: object) -> str:
        if isinstance(value, str) and compiled.fullmatch(value):
            return value
        raise ValueError(words)

    return read


def one_of(*names: str) -> Callable[[object], str]:
    """One of these strings."""

    def read(value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        raise ValueError(" or ".join(f'"{name}"' for name in names))

    return read


def boolean(value: object) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    raise ValueError("true or false")


def whole(least: int, most: int | None = None) -> Callable[[object], int]:
    """A whole number within bounds."""

    def read(value: object) -> int:
        fits = isinstance(value, int) and not isinstance(value, bool)
        if fits and least <= value and (most is None or value <= most):  # type: ignore[operator]  # fits says that it is an int
            return int(value)  # type: ignore[call-overload, no-any-return]  # as above
        raise ValueError(
            f"a whole number from {least}" + (" up" if most is None else f" to {most}")
        )

    return read


def number(least: float, most: float | None = None) -> Callable[[object], float]:
    """A finite number within bounds."""

    def read(value: object) -> float:
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and least <= value < float("inf")
            and (most is None or value <= most)
        ):
            return float(value)
        raise ValueError(f"a number from {least:g}" + (" up" if most is None else f" to {most:g}"))

    return read


def some(read_one: Callable[[object], str]) -> Callable[[object], tuple[str, ...]]:
    """A list of values that one reader takes, none twice."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError("a list")
        found = tuple(read_one(one) for one in value)
        if len(set(found)) < len(found):
            raise ValueError("a list without the same value twice")
        return found

    return read


def table(value: object) -> dict[str, str]:
    """Names with strings, numbers or booleans, as an environment has them: all become strings."""
    if not isinstance(value, dict):
        raise ValueError("a table of names and values")
    found = {}
    for name, one in value.items():
        if isinstance(one, bool):
            found[name] = str(one).lower()
        elif isinstance(one, (str, int, float)):
            found[name] = str(one)
        else:
            raise ValueError(f"a string, number or boolean for {name}")
    return found


#: SageMaker's names, up to a length.
def name(most: int) -> Callable[[object], str]:
    """A name that SageMaker takes, with at most so many characters."""
    return pattern(
        f"1 to {most} letters, digits and single hyphens, such as shop-a",
        rf"(?=.{{1,{most}}}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*",
    )


role = pattern(
    "the ARN of an IAM role, such as arn:aws:iam::123456789012:role/sagemaker",
    r"arn:aws[a-z\-]*:iam::\d{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+",
)
prefix = pattern(
    "an S3 prefix that ends with a slash, such as s3://bucket/recommenders/",
    rf"s3://{_BUCKET}/([^\s/]+/)*",
)
image = pattern(
    "an image, such as 123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin:1", r"\S{1,255}"
)
region = pattern("a region, such as us-east-1", r"[a-z]{2}(-[a-z]+)+-\d")
instance_type = pattern("an instance type, such as ml.g5.xlarge", r"ml\.[a-z0-9\-]+\.[a-z0-9]+")
topic = pattern(
    "the ARN of an SNS topic, such as arn:aws:sns:us-east-1:123456789012:oncall",
    r"arn:aws[a-z\-]*:sns:[a-z0-9\-]+:\d{12}:\S+",
)
subnet = pattern("a subnet, such as subnet-0a1b2c3d", r"subnet-[0-9a-zA-Z\-]+")
security_group = pattern("a security group, such as sg-0a1b2c3d", r"sg-[0-9a-zA-Z\-]+")
key = pattern("a KMS key's id, alias or ARN", r"[a-zA-Z0-9:/_\-]{1,2048}")
url_path = pattern("a path, such as /metrics", r"/(?!.*\.\.)[a-zA-Z0-9/_.\-]{1,255}")
