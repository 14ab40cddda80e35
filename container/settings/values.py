"""The kinds of value a variable may have: each parser takes the words and returns the value.

A parser that refuses raises Unfit with what it expected.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

Parser = Callable[[str], Any]

TRUE, FALSE = ("true", "on", "1"), ("false", "off", "0")  # the words tritonserver takes
PORT_MAX = 65535
MIB = 1024 * 1024
#: Digits of a percentage.
_PERCENT = r"[0-9]{1,3}(\.[0-9]{1,6})?"
#: CloudWatch takes 30 of a metric; the others are left for the metrics' own labels.
MOST_FIXED_DIMENSIONS = 20
#: The metrics' own labels, ours and tritonserver's: no fixed dimension may have their names.
METRIC_LABELS = (
    *("target_model", "model_name", "column", "model", "step", "version", "code", "part"),
    *("result", "cause", "stage", "reason", "le", "quantile", "gpu_uuid", "python", "namespace"),
    *("k", "of"),
)


class Unfit(ValueError):
    """A parser's refusal; its text is what was expected. found: of several words the unfit one."""

    def __init__(self, expected: str, found: str = "") -> None:
        super().__init__(expected)
        self.found = found


@dataclass(frozen=True)
class PortRange:
    """Ports from `low` to `high`, both included."""

    low: int
    high: int

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and self.low <= port <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


def text(raw: str) -> str:
    """Any words."""
    return raw


def absolute_path(raw: str) -> Path:
    """A path that does not depend on the working directory."""
    path = Path(raw)
    if not path.is_absolute():
        raise Unfit("an absolute path")
    return path


def metric_dimensions(raw: str) -> tuple[tuple[str, str], ...]:
    """Name=value, separated by commas, as CloudWatch takes dimensions; a name stands once."""
    pairs = [pair.strip() for pair in raw.split(",")]
    dimensions = [tuple(part.strip() for part in pair.partition("=")[::2]) for pair in pairs]
    names = [name for name, _ in dimensions]
    wrong = [_wrong_dimension(pair, *each) for pair, each in zip(pairs, dimensions, strict=True)]
    wrong += [f"{name!r} once" for name in sorted(set(names)) if names.count(name) > 1]
    if len(dimensions) > MOST_FIXED_DIMENSIONS:
        wrong.append(f"at most {MOST_FIXED_DIMENSIONS} dimensions, not {len(dimensions)}")
    if mistakes := [each for each in wrong if each]:
        raise Unfit("Name=value,Name=value with " + "; ".join(mistakes))
    return tuple((name, value) for name, value in dimensions)


def _wrong_dimension(pair: str, name: str, value: str) -> str:
    if "=" not in pair or not name or not value:
        return f"a name and a value around a = in the place of {pair!r}"
    if not re.fullmatch(r"[!-9;-~][!-~]{0,254}", name):
        return f"a name of up to 255 ASCII characters without blanks and : in front, not {name!r}"
    if not re.fullmatch(r"[ -~]{1,1024}", value):
        return f"a value of up to 1024 ASCII characters for {name!r}"
    if name in METRIC_LABELS or name.startswith(("serve_", "nv_", "_aws")):
        return f"another name than {name!r}, which metrics have themselves"
    return ""


@dataclass(frozen=True)
class S3Prefix:
    """Where keys begin; prefix: empty, or with a slash at its end."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"


def folder_or_bucket(raw: str) -> Path | S3Prefix:
    """An absolute path, or an S3 URL."""
    url = re.fullmatch(r"s3://([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/([ -~]{0,512}))?", raw)
    if url:
        prefix = (url[2] or "").rstrip("/")
        return S3Prefix(url[1], prefix and f"{prefix}/")
    if not raw.startswith("/"):
        raise Unfit(
            "s3://bucket/prefix/, the bucket with 3 to 63 of a-z, 0-9, - and ., or the absolute"
            " path of a directory"
        )
    return Path(raw)


def names(raw: str) -> tuple[str, ...]:
    """Names with commas between; spaces around them do not count, nor does a repetition."""
    found = tuple(dict.fromkeys(filter(None, map(str.strip, raw.split(",")))))
    if not found:
        raise Unfit("names with commas between")
    return found


def boolean(raw: str) -> bool:
    """true or false, in any of tritonserver's spellings and any case."""
    if raw.lower() in (*TRUE, *FALSE):
        return raw.lower() in TRUE
    raise Unfit("true or false")


def triton_boolean(raw: str) -> str:
    """A boolean that is passed on as it was written."""
    boolean(raw)
    return raw


def verbosity(raw: str) -> str:
    """A level, or a boolean as upstream's script takes it; as tritonserver's number."""
    if re.fullmatch(r"[0-9]{1,4}", raw):
        return raw
    try:
        return str(int(boolean(raw)))
    except Unfit:
        raise Unfit("a level (0 and up), true or false") from None


def whole(low: int, high: int | None = None) -> Parser:
    """An integer between the limits, both included."""
    expected = f"a whole number from {low}" + (f" to {high}" if high is not None else " up")

    def parse(raw: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", raw):
            raise Unfit(expected)
        number = int(raw)
        if number < low or (high is not None and number > high):
            raise Unfit(expected)
        return number

    return parse


def seconds(raw: str) -> float:
    """A length of time above zero."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", raw) or float(raw) <= 0:
        raise Unfit("a number of seconds above 0")
    return float(raw)


def rate(raw: str) -> float:
    """How many a second; 0 for any number."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", raw):
        raise Unfit("requests a second as 20 or 0.125, below 1,000,000; 0 for any number")
    return float(raw)


def percent(raw: str) -> float:
    """From 0, for off, to 100."""
    if not re.fullmatch(_PERCENT, raw) or float(raw) > 100:
        raise Unfit("a number from 0 (off) to 100, such as 10 or 0.5")
    return float(raw)


def fraction(raw: str) -> float:
    """A share from 0 to 1."""
    if not re.fullmatch(r"[0-9]{0,9}\.?[0-9]{1,9}", raw) or float(raw) > 1:
        raise Unfit("a fraction from 0 to 1")
    return float(raw)


def one_of(*choices: str) -> Parser:
    """One of the words, exactly."""

    def parse(raw: str) -> str:
        if raw not in choices:
            raise Unfit("one of " + ", ".join(choices))
        return raw

    return parse


def some_of(*choices: str) -> Parser:
    """Some of the words with commas between; spaces do not count, nor does a word's repetition."""

    def parse(raw: str) -> tuple[str, ...]:
        chosen = dict.fromkeys(filter(None, map(str.strip, raw.split(","))))
        if not chosen.keys() <= {*choices}:
            raise Unfit("some of " + ", ".join(choices) + ", with commas between")
        return tuple(chosen)

    return parse


def level(raw: str) -> str:
    """A log level in any case."""
    return str(one_of("debug", "info", "warning", "error")(raw.lower()))


def port_range(raw: str) -> PortRange:
    """Two ports with a hyphen between them."""
    expected = f"two ports as low-high, from 1 to {PORT_MAX}"
    match = re.fullmatch(r"\s*([0-9]{1,5})\s*-\s*([0-9]{1,5})\s*", raw)
    if not match:
        raise Unfit(expected)
    low, high = int(match[1]), int(match[2])
    if not 1 <= low <= high <= PORT_MAX:
        raise Unfit(expected)
    return PortRange(low, high)


def arguments(raw: str) -> tuple[str, ...]:
    """Words as a POSIX shell splits them."""
    try:
        return tuple(shlex.split(raw))
    except ValueError as error:
        raise Unfit(f"arguments with complete shell quoting ({error})") from error


def pair_flags(tokens: Sequence[str]) -> Iterator[tuple[str, str]]:
    """tritonserver's flags, without dashes, each with its value: behind = or the next word."""
    for word, following in pairwise((*tokens, "")):
        name, equals, value = word.partition("=")
        if name.startswith("--"):
            yield name.removeprefix("--"), value if equals else following


port = whole(1, PORT_MAX)
