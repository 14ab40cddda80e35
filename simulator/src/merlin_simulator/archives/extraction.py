"""An archive becomes a folder, or nothing: hostile archives write nothing outside it.

Taken is what SageMaker asks for, a gzip-compressed tar, and an uncompressed tar. tarfile's own
`extractall` is not used: it knows no limits, and its `data` filter lets pass what is refused here:
an absolute name (as a relative one), a member below a link, a link through `..` that comes back in,
a sparse file, a damaged header in the middle (as the end).

Theory of operation. No link is made before every file is written, so that no path below `into` can
lead out of it while something is written there: links wait in a table, the last of a name wins, and
a member below a link is refused. At the end the symbolic links are made and each is resolved as the
system would, through all others; one that leads out makes the whole archive unusable. Hard links
name files that were extracted before them. Every count is checked before a byte of it is written.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

from merlin_simulator.archives.archive_faults import (
    REMEDY,
    NotExtractable,
    quote_name,
    too_large,
    too_many,
)
from merlin_simulator.archives.tar_members import TarMember, read_members, split_path
from merlin_simulator.archives.tar_stream import TarStream, pad_size
from merlin_simulator.rules import ExtractionLimits

#: NAME_MAX of Linux and macOS. A link may be made to a longer name, and breaks who looks at it.
_NAME_BYTES = 255
_FILE_TYPES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_REFUSED_TYPES = {
    tarfile.CHRTYPE: "a character device",
    tarfile.BLKTYPE: "a block device",
    tarfile.FIFOTYPE: "a named pipe",
    tarfile.GNUTYPE_SPARSE: "a sparse file (pack it without --sparse)",
}
#: What the archive asked for and no file system has; any other OSError is the disk's.
_ARCHIVES_FAULT = (errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL, errno.EMLINK, errno.ELOOP)


def extract(
    archive: Path, into: Path, limits: ExtractionLimits, cancelled: Callable[[], bool]
) -> int:
    """Extract archive into the new folder `into`; the bytes written. Blocks.

    Modes become 0755 for folders and programs and 0644 for other files; owners and times are not
    taken over. Raises NotExtractable for the archive's faults, PlatformFailed when cancelled, and
    OSError for the disk's; in each of these cases nothing is left at `into`.
    """
    into.mkdir()
    try:
        into.chmod(0o755)
        with archive.open("rb") as raw:
            return _extract_members(TarStream(raw, limits, cancelled), into, limits)
    except BaseException as error:
        shutil.rmtree(into, ignore_errors=True)
        if isinstance(error, OSError) and error.errno in _ARCHIVES_FAULT:
            raise NotExtractable(f"A name in it cannot be used: {error.strerror}.") from error
        raise


def _extract_members(stream: TarStream, into: Path, limits: ExtractionLimits) -> int:
    tree = _Tree(into, stream, limits)
    found = 0
    for member in read_members(stream, limits.members):
        tree.add(member)
        found += 1
    stream.check_rest()
    if not found:
        raise NotExtractable(f"It has no files: {REMEDY}.")
    tree.make_links()
    return tree.written


class _Tree:
    """What is written below `into`. Its own count of what it made stays within the limits."""

    def __init__(self, into: Path, stream: TarStream, limits: ExtractionLimits) -> None:
        self._into, self._stream, self._most_entries = into, stream, limits.members
        self._folders: set[tuple[str, ...]] = {()}
        self._links: dict[tuple[str, ...], TarMember] = {}
        self._entries = 0
        self.written = 0

    def add(self, member: TarMember) -> None:
        """Make one member, after the folders above it."""
        if member.header.type == tarfile.DIRTYPE:
            # Some writers give folders a size; no data follows (POSIX).
            self._make_folders(member, member.parts)
            return
        if not member.parts:
            raise NotExtractable("A member without a name is in it that is no folder.")
        self._make_folders(member, member.parts[:-1])
        if member.parts in self._folders:
            raise NotExtractable(f"The member {member.name} is both a folder and something else.")
        self._count_entry()
        self._make(member)

    def _make(self, member: TarMember) -> None:
        if member.header.type in _FILE_TYPES:
            self._make_file(member)
        elif member.header.type == tarfile.LNKTYPE:
            self._make_hard_link(member)
        elif member.header.type == tarfile.SYMTYPE:
            self._clear(member)
            self._links[member.parts] = member
        else:
            what = _REFUSED_TYPES.get(member.header.type, f"of the type {member.header.type!r}")
            raise NotExtractable(
                f"The member {member.name} is {what}, expected files, folders and links."
            )

    def _make_folders(self, member: TarMember, parts: tuple[str, ...]) -> None:
        for depth in range(1, len(parts) + 1):
            self._make_folder(member, parts[:depth])

    def _make_folder(self, member: TarMember, parts: tuple[str, ...]) -> None:
        if parts in self._folders:
            return
        path = self._path(parts)
        if parts in self._links or os.path.lexists(path):
            raise NotExtractable(
                f"The member {member.name} lies below what is no folder: {REMEDY}."
            )
        self._count_entry()
        path.mkdir()
        path.chmod(0o755)
        self._folders.add(parts)

    def _make_file(self, member: TarMember) -> None:
        if self.written + member.size > self._stream.limit:
            raise too_large(self._stream.limit)
        self._clear(member)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(self._path(member.parts), flags, 0o600), "wb") as file:
            for chunk in self._stream.chunks(member.size):
                file.write(chunk)
                self.written += len(chunk)
            os.fchmod(file.fileno(), 0o755 if member.header.mode & 0o100 else 0o644)
        self._stream.exactly(pad_size(member.size) - member.size)

    def _make_hard_link(self, member: TarMember) -> None:
        parts = split_path(member.target, "link's target")
        target = self._path(parts)
        if parts == member.parts:
            return  # to itself: nothing to do, as tar has it
        if not _is_file(target):
            raise NotExtractable(
                f"The link {member.name} is to {quote_name(member.target)}, "
                "which is no file before it."
            )
        self._clear(member)
        os.link(target, self._path(member.parts), follow_symlinks=False)

    def _clear(self, member: TarMember) -> None:
        """The last member of a name wins."""
        self._links.pop(member.parts, None)
        self._path(member.parts).unlink(missing_ok=True)

    def make_links(self) -> None:
        """Make the symbolic links, and see that none of them leads out."""
        for member in self._links.values():
            _check_target(member)
            os.symlink(member.target, self._path(member.parts))
        into = os.path.realpath(self._into)
        for member in self._links.values():
            end = os.path.realpath(self._path(member.parts))
            if end != into and not end.startswith(f"{into}{os.sep}"):
                raise _leads_out(member)

    def _path(self, parts: tuple[str, ...]) -> Path:
        return self._into.joinpath(*parts)

    def _count_entry(self) -> None:
        self._entries += 1
        if self._entries > self._most_entries:
            raise too_many(self._most_entries)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _check_target(link: TarMember) -> None:
    """The link's text alone stays inside; what it means through other links is seen later."""
    if not link.target or "\0" in link.target:
        raise NotExtractable(f"The link {link.name} has the target {quote_name(link.target)}.")
    if any(len(os.fsencode(part)) > _NAME_BYTES for part in link.target.split("/")):
        raise NotExtractable(f"The link {link.name} leads to a name that no file can have.")
    if link.target.startswith("/") or _lowest(link) < 0:
        raise _leads_out(link)


def _lowest(link: TarMember) -> int:
    """The least depth below `into` that the link's target passes through."""
    depth = lowest = len(link.parts) - 1
    for part in link.target.split("/"):
        depth += {"..": -1, "": 0, ".": 0}.get(part, 1)
        lowest = min(lowest, depth)
    return lowest


def _leads_out(link: TarMember) -> NotExtractable:
    return NotExtractable(
        f"The link {link.name} leads to {quote_name(link.target)}, outside the archive: {REMEDY}."
    )
