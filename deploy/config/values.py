"""Kinds of values in a CONFIG.toml: each reads what TOML has, or raises ValueError.

The error says what was expected. Bounds are those of AWS's service models, as botocore has them:
CreateModel, CreateEndpointConfig, RegisterScalableTarget, PutScalingPolicy, PutMetricAlarm. A test
compares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from deploy.config.catalog import instance_types, nearest, regions

_MOST_SHOWN = 80
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def show(value: object) -> str:
    """A value; of one that has others in it no more than one line has room for."""
    words = _show(value, inside=False)
    return words if len(words) <= _MOST_SHOWN else f"{words[: _MOST_SHOWN - 1]}…"


def show_name(name: str) -> str:
    """A key, quoted where TOML wants that."""
    return show(name) if not _BARE.fullmatch(name) or len(name) > _MOST_SHOWN else name


def _show(value: object, *, inside: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        cut = value[:_MOST_SHOWN]
        return json.dumps(cut, ensure_ascii=not cut.isprintable())
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        if inside:
            return "[…]"
        return f"[{', '.join(_show(one, inside=True) for one in value[:_MOST_SHOWN])}]"
    try:
        return str(value)
    except ValueError:  # Python writes no whole number of more than 4300 digits
        return "a number of thousands of digits"


#: Reads what TOML has; raises ValueError with what was expected.
Reader = Callable[[object], Any]
_METADATA = "choice"


@dataclass(frozen=True)
class Choice:
    """reason: a sentence for whoever chooses. example: TOML, where there is no default."""

    name: str
    reason: str
    read: Reader
    example: str
    required: bool


def choice(reason: str, read: Reader, *, default: Any = MISSING, example: str = "") -> Any:
    """A field of a section; without a default it is required."""
    metadata = {_METADATA: (reason, read, example)}
    if default is MISSING:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


def choices_of(section: type) -> tuple[Choice, ...]:
    """All of a section, in the order of its fields."""
    return tuple(
        Choice(
            it.name,
            it.metadata[_METADATA][0],
            it.metadata[_METADATA][1],
            it.metadata[_METADATA][2],
            it.default is MISSING,
        )
        for it in fields(section)
    )


_BUCKET = r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]"
#: Whole numbers of AWS have 32 bits.
MOST_WHOLE = 2**31 - 1
#: PutMetricAlarm and PutScalingPolicy take no number beyond 2**360; ours are up to 1000 times so.
MOST_NUMBER = 1e100
#: Python writes no whole number of more than 4300 digits; none of ours is near.
_LONG = 10**100


class WrongMembers(ValueError):
    """Of a table: what was expected of each name that has something else."""

    def __init__(self, expected: Mapping[str, str]) -> None:
        super().__init__(f"other values of {', '.join(expected)}")
        self.expected = expected


def text(value: object) -> str:
    """A string that says something."""
    if isinstance(value, str) and value.strip() == value != "" and value.isprintable():
        return value
    raise ValueError("a string in one line without blanks around it")


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


def whole(least: int, most: int = MOST_WHOLE) -> Callable[[object], int]:
    """A whole number within bounds."""

    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"a whole number from {least} to {most}")

    return read


def number(least: float, most: float = MOST_NUMBER) -> Callable[[object], float]:
    """A finite number within bounds."""

    def read(value: object) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if is_number and least <= value <= most:  # type: ignore[operator]  # is_number says so
            return float(value)  # type: ignore[arg-type]  # as above; nan is in no bounds
        raise ValueError(f"a number from {least:g} to {most:g}")

    return read


def some(read_one: Callable[[object], str], most: int) -> Callable[[object], tuple[str, ...]]:
    """A list of at most so many values that one reader takes, none twice."""

    def read(value: object) -> tuple[str, ...]:
        if not isinstance(value, list):
            raise ValueError("a list")
        if len(value) > most:
            raise ValueError(f"a list of at most {most}, not of {len(value)}")
        found = tuple(read_one(one) for one in value)
        if len(set(found)) < len(found):
            raise ValueError("a list without the same value twice")
        return found

    return read


def table(value: object) -> dict[str, str]:
    """Names with strings, numbers or booleans, as an environment has them: all become strings.

    Raises WrongMembers where a name has something else.
    """
    if not isinstance(value, dict):
        raise ValueError("a table of names and values")
    found, wrong = dict[str, str](), dict[str, str]()
    for name, one in value.items():
        if isinstance(one, bool):
            found[name] = str(one).lower()
        elif isinstance(one, (str, float)) or (isinstance(one, int) and abs(one) < _LONG):
            found[name] = str(one)
        else:
            wrong[name] = "a string, a number or a boolean"
    if wrong:
        raise WrongMembers(wrong)
    return found


def known(
    read_one: Callable[[object], str], names: Callable[[], frozenset[str]], what: str
) -> Callable[[object], str]:
    """A string of a pattern that is also one of those that AWS has."""

    def read(value: object) -> str:
        found = read_one(value)
        if found not in names():
            raise ValueError(f"{what} of AWS; {nearest(found, names())}")
        return found

    return read


def name(most: int) -> Callable[[object], str]:
    """A name that SageMaker takes, with at most so many characters."""
    return pattern(
        f"1 to {most} letters, digits and single hyphens, such as shop-a",
        rf"(?=.{{1,{most}}}\Z)[a-zA-Z0-9](-*[a-zA-Z0-9])*",
    )


role = pattern(
    "the ARN of an IAM role, such as arn:aws:iam::123456789012:role/sagemaker",
    r"(?=.{20,2048}\Z)arn:aws[a-z\-]*:iam::[0-9]{12}:role/?[a-zA-Z_0-9+=,.@\-_/]+",
)
#: As file systems bound a folder's name.
_MOST_ARCHIVE_NAME = 255
#: An archive's name is a folder in S3 and begins its TargetModel, whose pattern is
#: `\\S[\\p{Print}]*` of ASCII. A tenant's policy denies each TargetModel with two dots in a row.
archive_name = pattern(
    f"1 to {_MOST_ARCHIVE_NAME} printable ASCII characters, as TargetModel has them, but no "
    "slashes, backslashes, two dots in a row or blanks at the ends",
    rf"(?=.{{1,{_MOST_ARCHIVE_NAME}}}\Z)(?!.*\.\.)(?!\.\Z)(?! )(?!.* \Z)[ -.0-\[\]-~]+",
)
#: ModelDataUrl has 1024 characters, and archives/NAME/DIGEST.tar.gz comes behind.
MOST_PREFIX = 1024 - len("archives/") - _MOST_ARCHIVE_NAME - len("/") - 64 - len(".tar.gz")
prefix = pattern(
    "an S3 prefix that ends with a slash, such as s3://bucket/recommenders/",
    rf"(?=.{{1,{MOST_PREFIX}}}\Z)s3://(?![^/]*\.\.){_BUCKET}/([^\s/\x00-\x1f\x7f]+/)*",
)
image = pattern(
    "an image of at most 255 characters, such as "
    "123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin:1",
    r"[!-~]{1,255}",
)
region = known(
    pattern("a region, such as us-east-1", r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}"), regions, "a region"
)
instance_type = known(
    pattern("an instance type, such as ml.g5.xlarge", r"ml\.[a-z0-9\-]+\.[a-z0-9\-]+"),
    instance_types,
    "an instance type",
)
topic = pattern(
    "the ARN of an SNS topic, such as arn:aws:sns:us-east-1:123456789012:oncall",
    r"(?=.{1,1024}\Z)arn:aws[a-z\-]*:sns:[a-z0-9\-]+:[0-9]{12}:[a-zA-Z0-9_\-]{1,256}(\.fifo)?",
)
subnet = pattern("a subnet, such as subnet-0a1b2c3d", r"(?=.{1,32}\Z)subnet-[0-9a-zA-Z]+")
security_group = pattern("a security group, such as sg-0a1b2c3d", r"(?=.{1,32}\Z)sg-[0-9a-zA-Z]+")
#: The four forms of CreateEndpointConfig's KmsKeyId; S3 has the same.
_KEY_ID = r"([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|mrk-[0-9a-f]{32})"
_KEY_ALIAS = r"alias/[a-zA-Z0-9/_\-]{1,250}"
key = pattern(
    "a KMS key: alias/NAME, its id, or the ARN of either, such as "
    "arn:aws:kms:us-east-1:123456789012:alias/recommenders",
    rf"({_KEY_ID}|{_KEY_ALIAS}"
    rf"|arn:aws[a-z\-]*:kms:[a-z0-9\-]+:[0-9]{{12}}:(key/{_KEY_ID}|{_KEY_ALIAS}))",
)
url_path = pattern("a path, such as /metrics", r"/(?!.*\.\.)[a-zA-Z0-9/_.\-]{1,255}")
