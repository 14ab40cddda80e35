"""The proof before a name means a new archive: how alike it recommends to the one before it.

`python -m ensemble_tools compare` finds that out, as a process of its own: it runs the models of
both. Its report is kept at PREFIX/comparisons/NAME/DIGEST.json, as a page at DIGEST.html, whether
the proof held or not. No TargetModel reaches it, and the endpoint's role does not read it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from ensemble_tools.shipping import AUTO_COMPLETE
from merlin_deploy.account import Account
from merlin_deploy.archives.aliases import ArchiveStore
from merlin_deploy.archives.bucket import Stored
from merlin_deploy.config.sections import Config
from merlin_deploy.errors import DeployError, Refused
from merlin_deploy.terminal import Say, Tell, tell_bytes

_COMMAND = ("-m", "ensemble_tools", "compare")
#: Exit codes of `compare` that come with a report: NEW may take OLD's place, and it may not.
_WITHIN, _NOT_WITHIN = 0, 3
#: That of a wrong command line.
_MISUSED = 2
#: Settings of the endpoint's container that say how an archive is served.
_PLANNING = (AUTO_COMPLETE, "SERVE_COMPILE", "SERVE_REWRITE")
#: The report's two forms, and their types.
_JSON, _HTML = ".json", ".html"
_TYPES = {_JSON: "application/json", _HTML: "text/html; charset=utf-8"}
#: Measures that a line tells where no bound names others.
_USUAL = ("overlap@10", "kendall")
#: Failures in a sentence; the report has all.
_MOST_FAILURES = 5
#: Bytes of a report that is read.
_MOST_BYTES = 64 * 1024 * 1024
#: Of an archive that is downloaded.
_PIECE = 1024 * 1024
#: Seconds that `compare` may take to stop its tritonserver.
_STOP_S = 30.0


@dataclass(frozen=True)
class Proof:
    """A comparison that a new archive has to pass."""

    old: Path | None  # None: the archive that the name means now
    options: tuple[str, ...]  # of `compare`


@dataclass(frozen=True)
class Finding:
    """A report in short."""

    line: str  # what was compared, and the measures
    failures: tuple[str, ...]  # empty where the new archive may take the other's place


def summarize(report: bytes, where: str) -> Finding:
    """report: the JSON of `compare`. where: for messages. Raises Refused if it is none."""
    try:
        document = json.loads(report)
        figures = "".join(f", {it}" for it in _list_figures(document))
        within, count = document["within"] is True, document["requests"]["asked"]
        return Finding(
            f"compared with {document['old']['archive']} by {count} "
            f"request{'' if count == 1 else 's'}: {'' if within else 'not '}within{figures}",
            () if within else tuple(map(str, document["failures"])) or ("it is not within",),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused(f"{where} is no report of `compare` ({error!r})") from error


def _list_figures(document: Mapping[str, Any]) -> Iterator[str]:
    """The mean of each measure that was asked for, of each output that ranks."""
    measures = [bound["measure"] for bound in document["bounds"]] or _USUAL
    for target in document["targets"]:
        for name in dict.fromkeys(measures):
            if (mean := target["measures"][name]["mean"]) is not None:
                yield f"{name} of {target['scores'] or target['ids']} {mean:.4f}"


def find_report(account: Account, store: ArchiveStore, target_model: str) -> str | None:
    """What the report of an archive says in a line, and where it is; None if there is none.

    Raises nothing for a report that cannot be read: the line says so.
    """
    key = store.report_key(target_model, _JSON)
    url = f"s3://{store.bucket}/{key}"
    try:
        reply = account.find_body("s3", "GetObject", _MOST_BYTES, Bucket=store.bucket, Key=key)
        if reply is None:
            return None
        return f"{target_model} was {summarize(reply[0], url).line}; the report: {url}"
    except DeployError as error:
        return f"the report of {target_model} cannot be read: {error}"


@dataclass(frozen=True)
class Prover:
    """Compares the archives of one `put`, and keeps the reports."""

    proof: Proof
    account: Account
    config: Config
    store: ArchiveStore
    encryption: Mapping[str, str]  # as make_encryption makes it
    stored: Mapping[str, Stored]
    say: Say
    tell: Tell

    def prove(self, name: str, meant: str | None, target: str, file: Path, given: Path) -> None:
        """Return if the new archive may take the other's place. Raises DeployError, OSError.

        meant: the archive that the name means now. target: the new one, in file. given: the
        argument that it was made of, for messages.
        """
        if self.proof.old is None and meant is None:
            raise Refused(
                f"{name} means no archive yet, with which {given} could be compared; put its first "
                "one without --compared-with, or compare it with an archive of this machine"
            )
        if meant == target:
            self.say(f"{name}: {target} is what it means already: there is nothing to compare")
            return
        if self.account.dry_run:
            self._show_commands(str(meant), target, given)
            return
        with tempfile.TemporaryDirectory(prefix="put-") as directory:
            new = _make_place(Path(directory), target)
            new.symlink_to(file.absolute())
            old = self.proof.old or self._download(str(meant), Path(directory))
            report = self._compare(old, new, directory, given)
        finding = summarize(report[_JSON], f"what `compare` wrote of {given}")
        self.say(f"{name}: {target}, {finding.line}")
        for end, content in report.items():
            self.account.change(
                "s3",
                "PutObject",
                Bucket=self.store.bucket,
                Key=self.store.report_key(target, end),
                Body=content,
                ContentType=_TYPES[end],
                **self.encryption,
            )
        if finding.failures:
            raise Refused(self._refuse(name, target, finding.failures))

    def _refuse(self, name: str, target: str, failures: tuple[str, ...]) -> str:
        reasons = "; ".join(failures[:_MOST_FAILURES])
        if (more := len(failures) - _MOST_FAILURES) > 0:
            reasons += f"; and {more} more"
        url = f"s3://{self.store.bucket}/{self.store.report_key(target, _HTML)}"
        return f"{name} is not put, and means what it meant: {reasons}; the report: {url}"

    def _download(self, target: str, directory: Path) -> Path:
        if target not in self.stored:
            raise Refused(
                f"the archive {target}, which is to be compared, is not there any more; name an "
                "archive of this machine with --compared-with"
            )
        place, done, total = _make_place(directory, target), 0, self.stored[target].size
        key = self.store.archive_key(target)
        with place.open("wb") as file:
            for piece in self.account.ask_pieces(
                "s3", "GetObject", _PIECE, Bucket=self.store.bucket, Key=key
            ):
                done += file.write(piece)
                tell_bytes(self.tell, f"{target}: downloading", done, total)
        return place

    def _compare(self, old: Path, new: Path, directory: str, given: Path) -> dict[str, bytes]:
        """The report's forms, in which archives in the directory are called as in S3."""
        paths = {end: Path(directory, f"report{end}") for end in _TYPES}
        environment = self.config.container.environment or {}
        planning = {name: environment[name] for name in _PLANNING if name in environment}
        code, last = run_compare(
            _write_command(self.proof, old, new, paths), {**os.environ, **planning}, self.tell
        )
        inside = f"{directory}/"
        if code not in (_WITHIN, _NOT_WITHIN):
            _, _, reason = last.replace(inside, "").partition("error: ")
            reason = reason or f"`compare` ended with exit code {code}, and said last: {last!r}"
            raise Refused(f"{given} was not compared, so nothing is put: {reason}")
        return {end: path.read_bytes().replace(inside.encode(), b"") for end, path in paths.items()}

    def _show_commands(self, meant: str, target: str, given: Path) -> None:
        """Say the command lines that do the same, with --dry-run."""
        old = self.proof.old
        if old is None:
            old = Path(PurePosixPath(meant).name)
            arguments = ["aws", "s3", "cp", self.store.archive_url(meant), str(old)]
            self.account.show(shlex.join(arguments))
        keys = {end: self.store.report_key(target, end) for end in _TYPES}
        paths = {end: Path(PurePosixPath(key).name) for end, key in keys.items()}
        command = _write_command(self.proof, old, given, paths)
        self.account.show(f"python {shlex.join(command)}")
        for end, key in keys.items():
            arguments = ["aws", "s3", "cp", str(paths[end]), f"s3://{self.store.bucket}/{key}"]
            self.account.show(shlex.join(arguments))


def _make_place(directory: Path, target: str) -> Path:
    """Where an archive lies in it, by its TargetModel."""
    place = directory / target
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


def _write_command(proof: Proof, old: Path, new: Path, paths: Mapping[str, Path]) -> list[str]:
    """Arguments of Python. paths: of the report's forms."""
    outputs = [f"--{end.removeprefix('.')}={path}" for end, path in paths.items()]
    return [*_COMMAND, *proof.options, *outputs, "--", str(old), str(new)]


def check_options(options: Sequence[str]) -> None:
    """Raise Refused, with the sentence of `compare`, if it does not take these options."""
    # It reads what stands before --help, and runs nothing.
    command = [*_COMMAND, *options, "--help"]
    code, last = run_compare(command, dict(os.environ), lambda *_: None)
    if code == _MISUSED:
        raise Refused(last.rpartition("error: ")[2])


def run_compare(command: list[str], environment: Mapping[str, str], tell: Tell) -> tuple[int, str]:
    """The exit code of `compare`, and its last line. It ends with the block, however that ends."""
    last = ""
    with subprocess.Popen(
        [sys.executable, *command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                last = line.strip() or last
                tell(f"comparing: {last}", 0.0)
            return process.wait(), last
        except BaseException:  # Ctrl-C, SIGTERM
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            process.kill()
            raise
