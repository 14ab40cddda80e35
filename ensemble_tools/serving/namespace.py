"""Names of one archive's models inside the tritonserver that all archives share.

The entry model is published under the SageMaker `model_name`, a step `s` of it under
`<model_name>.<s>`. A dot inside the model name is written `=_`, so that the first dot always ends
the model name: two archives can never meet, and every name can be read back. SageMaker's own model
names are hashes, which come through unchanged.

A model that comes back while tritonserver still unloads its predecessor is published under
`<model_name>=-1` and `<model_name>=-1.<s>`, or with the next number that is free. `=-` stands in no
other name. A model's candidate is the model `<model_name>=candidate`, which no caller can name.

tritonserver's Python backend starts a model's process through a shell up to 25.07, with the model's
path as it is (stub_launcher.cc; seen with 2.36 and 2.51). From 25.08 on it refuses a model whose
name has one of ``;|&$`<>()[]{}\\"'*?~#!`` (pb_utils.h), and tritonserver 26.03 refuses one with
`..` (model_repository_manager.cc). So each byte of a step's name that is no letter, digit, `_`, `-`
or `.` is written `=` and two hexadecimal digits, and a dot that would follow a dot `=_`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ensemble_tools.errors import IllegalName

#: What a URL path segment, a directory name and a Triton model name all carry unescaped.
#: The equals sign is left out: it is the escape character.
_LEGAL_MODEL_NAME = re.compile(r"[A-Za-z0-9_.-]+")
#: Behind a model's name: its candidate's.
_CANDIDATE = "=candidate"
#: Any file name that UTF-8 messages can bear: steps are never a part of a URL.
_LEGAL_STEP_NAME = re.compile(r"[^/\0\ud800-\udfff]+")
#: What a step's name is not published with: in front of it stands a dot.
_ESCAPED = re.compile(rb"[^A-Za-z0-9_.-]|(?<![^.])\.")
_WRITTEN = re.compile(rb"=(?:_|([0-9a-f]{2}))")
_DOT = "=_"
#: At the end of an entry model's name, behind which a URL's path may go on.
_NUMBER = re.compile(r"=-([1-9][0-9]{0,5})(?=/|$)")

#: Of directories beside the serving repository: `archive-1a2b3c4d/m/` is a copy of the layout of
#: the archive whose entry model is m.
LAYOUT_PREFIX = "archive-"
#: In the entry model's directory: a link to the copy. That lies outside of the serving repository,
#: under a name that nobody guesses: no number of `..` in front of a model's name leads to a model
#: of another archive.
LAYOUT_LINK = ".archive"
#: Longest file name that Linux file systems take, in bytes (NAME_MAX).
NAME_MAX = 255


@dataclass(frozen=True)
class Namespace:
    """The Triton names of one SageMaker model.

    number: tells it from models of that name that tritonserver still unloads; 0 beside none.

    Raises IllegalName on construction when the model name is empty, `.` or `..`, longer than a
    directory name may be, or holds anything but letters, digits, `_`, `-` and `.`.
    """

    model_name: str
    number: int = 0

    def __post_init__(self) -> None:
        name = self.model_name
        plain = name.removesuffix(_CANDIDATE)
        if not _LEGAL_MODEL_NAME.fullmatch(plain) or plain in {".", ".."}:
            raise IllegalName(
                name,
                "expected one or more of A-Z a-z 0-9 _ - and . (and not `.` or `..`), "
                "since it becomes a directory and a part of URLs",
            )
        _check_length(self.entry, name)

    @property
    def entry(self) -> str:
        """The Triton name of the model that invocations go to."""
        mark = f"=-{self.number}" if self.number else ""
        return f"{self.model_name.replace('.', _DOT)}{mark}"

    def step(self, name: str) -> str:
        """The Triton name of the archive's model `name`; raises IllegalName."""
        if not _LEGAL_STEP_NAME.fullmatch(name):
            raise IllegalName(name, "expected the name of a model directory, in UTF-8")
        published = f"{self.entry}.{_ESCAPED.sub(_write, name.encode()).decode()}"
        _check_length(published, name)
        return published


def parse_published(published: str) -> tuple[str, str | None]:
    """Read a Triton name back into (model_name, step), step None for an entry model.

    Raises ValueError for a name that no Namespace makes.
    """
    entry, dot, plain = published.partition(".")
    number = _NUMBER.search(entry)
    model_name = drop_number(entry).replace(_DOT, ".")
    try:
        step = _WRITTEN.sub(_read, plain.encode()).decode() if dot else None
        namespace = Namespace(model_name, int(number[1]) if number else 0)
        name = namespace.entry if step is None else namespace.step(step)
    except (IllegalName, UnicodeError) as error:
        raise ValueError(f"{published!r} was not published by this container") from error
    if name != published:  # escaped in another way than a Namespace's
        raise ValueError(f"{published!r} was not published by this container")
    return model_name, step


def name_candidate(model_name: str) -> str:
    """The name of a model's candidate."""
    return f"{model_name}{_CANDIDATE}"


def is_candidate(model_name: str) -> bool:
    """Whether it is a candidate's name."""
    return model_name.endswith(_CANDIDATE)


def drop_number(entry: str) -> str:
    """The Triton name of an entry model, or a URL's path with it, without the number."""
    return _NUMBER.sub("", entry)


def _write(match: re.Match[bytes]) -> bytes:
    return _DOT.encode() if match[0] == b"." else b"=%02x" % match[0][0]


def _read(match: re.Match[bytes]) -> bytes:
    return bytes([int(match[1], 16)]) if match[1] else b"."


def _check_length(published: str, name: str) -> None:
    """Raise IllegalName for the name, of an archive or of a step, of which too long a one is made.

    Bytes that are no ASCII letters take three.
    """
    length = len(published.encode())
    if length > NAME_MAX:
        raise IllegalName(
            name,
            f"it makes a Triton model name of {length} bytes, and a directory name may have "
            f"{NAME_MAX}; use a shorter name",
        )
