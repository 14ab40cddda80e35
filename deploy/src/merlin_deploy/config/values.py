"""Kinds of values in a CONFIG.toml: each reads what TOML has, or raises ValueError.

The error says what was expected. Bounds are those of AWS's service models, as botocore has them:
CreateModel, CreateEndpointConfig, RegisterScalableTarget, PutScalingPolicy, PutMetricAlarm. A test
compares them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from typing import Annotated, Any

from pydantic import PlainValidator

from merlin_deploy.config.catalog import EcrImage, instance_types, nearest, read_ecr_image, regions

#: Returns the value, or raises ValueError with what was expected.
Reader = Callable[[object], Any]
#: Characters of a value in a sentence.
_MOST_SHOWN = 80
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BUCKET = r"[a-z0-9][a-z0-9.\-]{1,61}[a-z0-9]"
#: Whole numbers of AWS have 32 bits.
MOST_WHOLE = 2**31 - 1
#: PutMetricAlarm and PutScalingPolicy take no number beyond 2**360. We multiply by 1000 at most.
MOST_NUMBER = 1e100
#: Python does not write a whole number of more than 4300 digits; no setting needs one.
_TOO_LONG = 10**100


def show(value: object) -> str:
    """A value as TOML has it, in one line that is not too long."""
    text = _show(value, inside=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def show_name(name: str) -> str:
    """A key, quoted if TOML requires that."""
    return show(name) if not _BARE_KEY.fullmatch(name) or len(name) > _MOST_SHOWN else name


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
        return f"[{', '.join(_show(item, inside=True) for item in value[:_MOST_SHOWN])}]"
    try:
        return str(value)
    except ValueError:  # Python does not write whole numbers of more than 4300 digits
        return "a number of thousands of digits"


def _reader(
    expected: str, accepts: Callable[[Any], bool], convert: Callable[[Any], Any] | None = None
) -> Reader:
    def read(value: object) -> Any:
        if not accepts(value):
            raise ValueError(expected)
        return value if convert is None else convert(value)

    return read


text = _reader(
    "a string in one line without blanks around it",
    lambda it: isinstance(it, str) and it.strip() == it != "" and it.isprintable(),
)
boolean = _reader("true or false", lambda it: isinstance(it, bool))


def pattern(expected: str, expression: str) -> Reader:
    """A string that the whole expression matches."""
    compiled = re.compile(expression)
    return _reader(expected, lambda it: isinstance(it, str) and compiled.fullmatch(it) is not None)


def one_of(*names: str) -> Reader:
    """One of these strings."""
    expected = " or ".join(f'"{name}"' for name in names)
    return _reader(expected, lambda it: isinstance(it, str) and it in names)


def whole(least: int, most: int = MOST_WHOLE) -> Reader:
    """A whole number within bounds."""
    return _reader(
        f"a whole number from {least} to {most}",
        lambda it: isinstance(it, int) and not isinstance(it, bool) and least <= it <= most,
    )


def number(least: float, most: float = MOST_NUMBER) -> Reader:
    """A number within bounds, as a float. No NaN is within bounds."""
    return _reader(
        f"a number from {least:g} to {most:g}",
        lambda it: (
            isinstance(it, (int, float)) and not isinstance(it, bool) and least <= it <= most
        ),
        float,
    )


def several(read: Reader, most: int) -> Reader:
    """A tuple of at most so many values of one kind, all different."""

    def read_list(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("a list")
        if len(value) > most:
            raise ValueError(f"a list of at most {most}, not of {len(value)}")
        items = tuple(read(item) for item in value)
        if len(set(items)) < len(items):
            raise ValueError("a list without the same value twice")
        return items

    return read_list


def _read_member(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, float)) or (isinstance(value, int) and abs(value) < _TOO_LONG):
        return str(value)
    raise ValueError("a string, a number or a boolean")


#: Names with strings, numbers or booleans, which become strings, as an environment has them.
Table = dict[str, Annotated[str, PlainValidator(_read_member)]]


def known(read: Reader, names: Callable[[], Collection[str]], what: str) -> Reader:
    """A value that AWS has, too. names: all that AWS has."""

    def read_known(value: object) -> Any:
        name = read(value)
        if name not in names():
            raise ValueError(f"{what} of AWS; {nearest(name, names())}")
        return name

    return read_known


def name(most: int) -> Reader:
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
region = known(
    pattern("a region, such as us-east-1", r"[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}"), regions, "a region"
)
instance_type = known(
    pattern("an instance type, such as ml.g5.xlarge", r"ml\.[a-z0-9\-]+\.[a-z0-9\-]+"),
    instance_types,
    "an instance type",
)
#: CreateModel, Image.
MOST_IMAGE = 255


def image(value: object) -> EcrImage:
    """An image in ECR; SageMaker takes others only through a VPC (ImageConfig)."""
    read = read_ecr_image(value) if isinstance(value, str) and len(value) <= MOST_IMAGE else None
    if read is None:
        raise ValueError(
            "an image in ECR, such as 123456789012.dkr.ecr.us-east-1.amazonaws.com/merlin:1, of at "
            f"most {MOST_IMAGE} characters, in a region of AWS's; `push` brings an image there, "
            "and prints its line"
        )
    return read


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
