"""Why an archive cannot be served. ArchiveError and IllegalName are its or the caller's fault.

EnsembleToolsError
├── ResourceLacking          descriptors, memory or space: it says nothing of the archive
├── SourceUnreadable         the disk did not give what it holds
├── PackedArchive            a file that is no archive, or one that may not be extracted
├── WorkflowsUnusable        compiled workflows of whose category files no tables can be made
├── IllegalName              the model name, or a name built from it, cannot be a Triton name
├── NothingRanked            no output of an answer is known to rank anything
└── ArchiveError             what SageMaker delivered cannot be served
    ├── EntryRefused         something in it that no archive may hold, or that cannot be read
    ├── DemandRefused        a config.pbtxt that asks for more than there is, or for what it may not
    ├── RepositoryUnusable   nothing to serve, or more than one thing that could be meant
    ├── ConfigUnreadable     a config.pbtxt that does not parse
    ├── ConfigIncomplete     a config.pbtxt that lacks what strict mode needs
    ├── NamesOutside         a config.pbtxt that names a file outside of its model
    ├── PayloadMissing       a model directory without what its backend loads
    ├── PayloadBroken        a file that would fail each request
    ├── PicklesRefused       a file that somebody would unpickle, where that is not allowed
    ├── ReleaseUnfit         written by a release that the models' Python cannot run
    ├── CandidateUnlike      a candidate that takes other requests than its model, or answers other
    │                        outputs
    ├── EnsembleInvalid      an ensemble with a cycle, a missing step or a tensor from nowhere
    ├── GraphUnreadable      an ensemble.pkl that is truncated, foreign or hostile
    ├── GraphNotInert        a graph that Merlin's own code alone can read
    ├── GraphNotServable     a graph that Merlin's own executor fails on
    └── GraphNotExpressible  a graph that no Triton ensemble can express; the executor itself can
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

#: A name found in an archive can be megabytes long; a message stays one sentence, in characters.
QUOTED_LENGTH = 80
#: Of a longer list a message names the first few.
NAMED_COLUMNS = 10
#: Of a path a message shows so many characters.
_SHOWN_PATH = 300
#: How packed files are called, as archives or by mistake.
_PACKED = {".gz", ".tgz", ".tar", ".zip", ".bz2", ".xz", ".zst"}


def shortened(text: str) -> str:
    """The text as a message shows it: never longer than a line."""
    return text if len(text) <= QUOTED_LENGTH else f"{text[:QUOTED_LENGTH]}…"


def quoted(text: str) -> str:
    """The text as a message shows what others chose: escaped, in quotes, and shortened."""
    return repr(shortened(text))


def printable(text: str) -> str:
    """The text as a terminal may be given it: what would move its cursor, change its colours or
    turn its lines around stands there as an escape. Ends of lines and tabs stay."""
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode()
        for char in text
    )


def shown(path: Path | str) -> str:
    """A path as a message shows it: on one line, its middle left out when it is long."""
    text = str(path) if str(path).isprintable() else repr(str(path))
    if len(text) <= _SHOWN_PATH:
        return text
    return f"{text[: _SHOWN_PATH // 2]}…{text[-_SHOWN_PATH // 2 :]}"


def describe_packing_alone(path: Path) -> str:
    """The end of a sentence: how a model's file becomes an archive; empty for what is called one.

    Its name stays as it is in there: a forest's may be any, and others tell their backends.
    """
    if path.suffix.lower() in _PACKED:
        return ""
    command = ("tar", "-C", str(path.parent), "-czf", f"{path.stem}.tar.gz", path.name)
    return f"; if it is a model's file, this makes an archive of it: {shlex.join(command)}"


def sentence_of(error: Exception) -> str:
    """The fault and its file; OSError's own text begins with a number."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


class EnsembleToolsError(Exception):
    """Whatever stands between an archive and its serving form."""


class ResourceLacking(EnsembleToolsError):
    """The machine lacks something for a moment; with another model less it may be there."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{shown(path)} cannot be read now: {reason}; unload a model")


class SourceUnreadable(EnsembleToolsError):
    """Neither the archive's fault nor a shortage: the disk failed (EIO and its like)."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(
            f"{shown(path)} cannot be read: {reason}; expected what the disk holds, see its log"
        )


class PackedArchive(EnsembleToolsError):
    """A file that is no archive of files, directories and links inside of it; found: in words."""

    def __init__(self, path: Path, found: str) -> None:
        super().__init__(
            f"{shown(path)}: {found}; expected a directory, or a .tar.gz of one, as "
            f"tar -C DIRECTORY -czf NAME.tar.gz . writes it{describe_packing_alone(path)}"
        )


class IllegalName(EnsembleToolsError):
    """A model name that Triton, a file system or a URL could not carry unchanged."""

    def __init__(self, name: str, expected: str) -> None:
        self.name = name
        super().__init__(f"the model name {quoted(name)} cannot be used: {expected}")


class NothingRanked(EnsembleToolsError):
    """Nobody here guesses which output ranks: what the answer has is listed."""

    def __init__(self, problem: str, outputs: str) -> None:
        super().__init__(f"{problem}; the outputs are {outputs or 'none'}")


class WorkflowsUnusable(EnsembleToolsError):
    """No program stands for these workflows: NVTabular itself has to read their category files.

    reasons: why, by the model's name in the archive.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(f"{name}: {why}" for name, why in reasons.items()))


class ArchiveError(EnsembleToolsError):
    """The archive cannot be served; the message names the file, the field and the remedy."""

    def __init__(self, path: Path, found: str, remedy: str = "", line: int | None = None) -> None:
        self.path, self.line = path, line
        location = shown(path) if line is None else f"{shown(path)}:{line}"
        super().__init__(f"{location}: {found}; {remedy}" if remedy else f"{location}: {found}")


class EntryRefused(ArchiveError):
    """A file, directory or link that is not read, whatever is in it."""


class DemandRefused(ArchiveError):
    """A field of a config.pbtxt that tritonserver must not see."""

    def __init__(self, path: Path, field: str, found: str, allowed: str) -> None:
        self.field = field
        super().__init__(path, f"the field `{field}` {found}", allowed)


class RepositoryUnusable(ArchiveError):
    """The directory holds no model, or several with nothing that says which one is meant."""


class ConfigUnreadable(ArchiveError):
    """The config.pbtxt is no protobuf text of a Triton ModelConfig."""

    def __init__(self, path: Path, reason: str, line: int | None = None) -> None:
        super().__init__(path, reason, "expected the text form of a Triton ModelConfig", line)


class ConfigIncomplete(ArchiveError):
    """A field is missing that strict mode cannot do without; no field: there is no such file."""

    def __init__(self, path: Path, field: str, remedy: str) -> None:
        self.field = field
        problem = f"the field `{field}` is missing" if field else "there is no such file"
        super().__init__(path, problem, remedy)


class NamesOutside(ArchiveError):
    """A config names a file or a backend by a path that leaves its model's directory."""

    def __init__(self, path: Path, field: str, found: str, expected: str) -> None:
        self.field = field
        names = f"the field `{shortened(field)}` names {quoted(found)}"
        super().__init__(path, names, f"expected {expected}")


class PayloadMissing(ArchiveError):
    """The model directory lacks a version directory, or that lacks the file to load."""


class PayloadBroken(ArchiveError):
    """A file that the model reads, when it loads or when it is asked, and cannot."""


class PicklesRefused(ArchiveError):
    """A file that somebody would unpickle, which the setting does not allow."""

    def __init__(self, path: Path, reader: str, why: str, remedy: str, setting: str) -> None:
        self.reader, self.why = reader, why
        super().__init__(
            path,
            f"{reader} would unpickle it ({why}), and {setting}=off allows nobody to",
            f"{remedy}, or serve it where {setting} is on",
        )


class ReleaseUnfit(ArchiveError):
    """A model that would load and then fail at each request, for the release that wrote it."""


class CandidateUnlike(ArchiveError):
    """A candidate that cannot be asked what its model is asked; found: the first difference."""

    def __init__(self, path: Path, found: str) -> None:
        remedy = "expected a candidate that takes the model's requests and answers its outputs"
        super().__init__(path, found, remedy)


class EnsembleInvalid(ArchiveError):
    """The ensemble could not run whatever it is given."""


class GraphUnreadable(ArchiveError):
    """The pickle is not the graph that merlin-systems writes. Nothing in it was run."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        remedy = "expected the graph that merlin-systems writes: export it again"
        super().__init__(path, reason, remedy)


class GraphNotInert(ArchiveError):
    """The pickle takes too much to be read as data, or is not understood; Merlin may read it."""

    def __init__(self, path: Path, reason: str) -> None:
        self.reason = reason
        super().__init__(path, f"it cannot be read without running it: {reason}")


class _GraphRefused(ArchiveError):
    """Names the operator, the columns, the reason and the remedy."""

    def __init__(
        self, path: Path, operator: str, columns: Iterable[str], reason: str, remedy: str
    ) -> None:
        self.operator, self.columns, self.reason = operator, tuple(columns), reason
        named = ", ".join(quoted(column) for column in self.columns[:NAMED_COLUMNS])
        rest = ", …" if len(self.columns) > NAMED_COLUMNS else ""
        name = shortened(operator)
        at = f"{name}, column {named}{rest}" if self.columns else name
        self.finding = f"{at}: {reason}"
        super().__init__(path, self.finding, remedy)


class GraphNotServable(_GraphRefused):
    """Merlin's executor fails on the graph as well, so that no form of it answers right numbers."""


class GraphNotExpressible(_GraphRefused):
    """An ensemble would refuse the graph or, worse, answer other numbers than the executor."""
