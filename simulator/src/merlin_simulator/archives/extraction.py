"""Archives are extracted: within bounds, as they come, and never beside their folder."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from merlin_simulator.errors import PlatformFailed
from merlin_simulator.rules import ExtractionLimits

REMEDY = "pack it again (tar -C FOLDER -czf model.tar.gz .)"


class NotExtractable(Exception):
    """The archive holds something that may not, or cannot, be extracted: one sentence."""


def too_large(limit: int) -> NotExtractable:
    """limit: bytes."""
    return NotExtractable(
        f"It would take more than {limit} bytes on disk, the most that it may take."
    )


def too_many(most: int) -> NotExtractable:
    """Members, or what is made of them."""
    return NotExtractable(f"It has more than {most} members, the most that an archive may have.")


def quote_name(name: str) -> str:
    """A name for a message: printable, and not endless."""
    return ascii(name if len(name) <= 100 else f"{name[:100]}...")


BLOCK = 512  # bytes; POSIX ustar
CHUNK = 1024 * 1024
_GZIP_MAGIC = b"\x1f\x8b"
_OTHER_FORMATS = {
    b"PK": "a zip file",
    b"BZh": "compressed with bzip2",
    b"\xfd7zXZ": "compressed with xz",
    b"\x28\xb5\x2f\xfd": "compressed with zstandard",
}


class TarStream:
    """The tar's bytes, inflated where they are compressed; every reader of them counts here."""

    def __init__(
        self, raw: IO[bytes], limits: ExtractionLimits, cancelled: Callable[[], bool]
    ) -> None:
        self._cancelled = cancelled
        size = os.fstat(raw.fileno()).st_size
        start = raw.read(8)
        raw.seek(0)
        self.compressed = start.startswith(_GZIP_MAGIC)
        self._check_start(start, size)
        self._bytes: IO[bytes] = gzip.GzipFile(fileobj=raw) if self.compressed else raw  # type: ignore[assignment]
        self.limit = _most_bytes(size, limits)
        # Headers and padding come on top of the files, in measure.
        self._remaining = self.limit + 4 * BLOCK * limits.members

    def _check_start(self, start: bytes, size: int) -> None:
        if not start:
            raise NotExtractable(f"It is empty (0 bytes): {REMEDY}.")
        if size < BLOCK and not self.compressed:
            raise NotExtractable(
                f"It is no archive ({size} bytes, expected a gzip-compressed tar): {REMEDY}."
            )
        for magic, what in _OTHER_FORMATS.items():
            if start.startswith(magic):
                raise NotExtractable(f"It is {what}, expected a gzip-compressed tar: {REMEDY}.")

    def read(self, size: int) -> bytes:
        """As many bytes as asked for; fewer at the end only. size is small (a chunk)."""
        if self._cancelled():
            raise PlatformFailed("The extraction was given up: the endpoint is stopping.")
        try:
            data = self._read(size)
        except EOFError as error:
            raise NotExtractable(f"It is cut off inside its gzip data: {REMEDY}.") from error
        except (zlib.error, gzip.BadGzipFile) as error:
            raise NotExtractable(f"Its gzip data is damaged ({error}): {REMEDY}.") from error
        self._remaining -= len(data)
        if self._remaining < 0:
            raise too_large(self.limit)
        return data

    def _read(self, size: int) -> bytes:
        parts = []
        while size and (part := self._bytes.read(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """As many bytes as asked for, or NotExtractable."""
        data = self.read(size)
        if len(data) != size:
            raise NotExtractable(f"It is cut off: {REMEDY}.")
        return data

    def chunks(self, size: int) -> Iterator[bytes]:
        """Exactly size bytes in parts."""
        while size:
            chunk = self.exactly(min(size, CHUNK))
            size -= len(chunk)
            yield chunk

    def check_rest(self) -> None:
        """Read to the end: gzip's checksums stand there. What follows the tar's end is ignored."""
        while self.read(CHUNK):
            pass


def pad_size(size: int) -> int:
    """With what fills the last block."""
    return -(-size // BLOCK) * BLOCK


def _most_bytes(archive_bytes: int, limits: ExtractionLimits) -> int:
    by_ratio = max(limits.ratio_from_bytes, int(limits.ratio * archive_bytes))
    return min(limits.total_bytes, by_ratio)


#: Of one extended header (pax, GNU long name): Linux's longest path is 4 KiB.
_METADATA_BYTES = 1024 * 1024
#: Of the length of one record in it, and the space behind.
_LENGTH_DIGITS = 10
_PAX_KEYS = (b"path", b"linkpath", b"size")
_PAX_SPARSE = b"GNU.sparse."
#: Folders within folders: far above any model's, and below what Python's rmtree can remove.
_DEPTH = 100


@dataclass(frozen=True)
class TarMember:
    """One entry. parts is its path below `into`; target is a link's, as it stands there."""

    parts: tuple[str, ...]
    header: tarfile.TarInfo
    target: str
    size: int

    @property
    def name(self) -> str:
        """The member's name, for messages."""
        return quote_name("/".join(self.parts))


@dataclass
class _Extended:
    """Extended headers of the next member."""

    every: dict[str, str] = field(default_factory=dict)
    next: dict[str, str] = field(default_factory=dict)

    def take(self) -> dict[str, str]:
        values, self.next = {**self.every, **self.next}, {}
        return values


def read_members(stream: TarStream, most: int) -> Iterator[TarMember]:
    """Every member, in order; the caller reads its data before the next."""
    extended = _Extended()
    count = 0
    while (block := _header_block(stream)) is not None:
        count += 1
        if count > most:
            raise too_many(most)
        header = _header(block, first=count == 1)
        if not _is_extension(stream, header, extended):
            yield _member(header, extended.take(), block)


def _header_block(stream: TarStream) -> bytes | None:
    block = stream.read(BLOCK)
    if not block and stream.compressed:
        return None  # gzip's checksum vouches for the end; some writers leave the marker out
    if len(block) < BLOCK:
        raise NotExtractable(f"It is cut off: {REMEDY}.")
    return block if any(block) else None


def _header(block: bytes, first: bool) -> tarfile.TarInfo:
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, ValueError) as error:
        subject = "It is no tar archive" if first else "One of its headers is damaged"
        raise NotExtractable(f"{subject}: {REMEDY}.") from error
    if header.size < 0:
        raise NotExtractable(f"The size of {quote_name(header.name)} is {header.size} bytes.")
    return header


def _is_extension(stream: TarStream, header: tarfile.TarInfo, extended: _Extended) -> bool:
    """Whether the header only says something of those that follow; its data is read then."""
    if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
        key = "path" if header.type == tarfile.GNUTYPE_LONGNAME else "linkpath"
        extended.next[key] = _text(_metadata(stream, header.size).split(b"\0", 1)[0])
    elif header.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
        extended.next.update(_pax_records(_metadata(stream, header.size)))
    elif header.type == tarfile.XGLTYPE:
        extended.every.update(_pax_records(_metadata(stream, header.size)))
    else:
        return False
    return True


def _metadata(stream: TarStream, size: int) -> bytes:
    if size > _METADATA_BYTES:
        raise NotExtractable(
            f"An extended header of {size} bytes is in it, expected at most {_METADATA_BYTES}."
        )
    return stream.exactly(pad_size(size))[:size]


def _pax_records(data: bytes) -> dict[str, str]:
    """POSIX pax: records "LENGTH KEY=VALUE\\n", LENGTH counting all of it; those that matter."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at]:
        space = data.find(b" ", at, at + _LENGTH_DIGITS)
        digits = data[at : max(space, at)]
        end = at + int(digits) if digits.isdigit() else at
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not equals or data[end - 1 : end] != b"\n":
            raise NotExtractable(f"One of its extended headers is damaged: {REMEDY}.")
        if key in _PAX_KEYS:
            records[_text(key)] = _text(value)
        elif key.startswith(_PAX_SPARSE):
            records["sparse"] = ""
        at = end
    return records


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _member(header: tarfile.TarInfo, extended: dict[str, str], block: bytes) -> TarMember:
    name = extended.get("path") or header.name
    if "sparse" in extended:
        header.type = tarfile.GNUTYPE_SPARSE
    if block[156:157] == tarfile.AREGTYPE and header.type in (tarfile.DIRTYPE, tarfile.AREGTYPE):
        # Before POSIX a folder was a file whose name ends in a slash: that of the whole name.
        header.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
    size = _pax_size(extended.get("size"), header.size)
    target = extended.get("linkpath") or header.linkname
    return TarMember(split_path(name, "member"), header, target, size)


def _pax_size(text: str | None, size: int) -> int:
    if text is None:
        return size
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise NotExtractable(f"An extended header has the size {quote_name(text)}: {REMEDY}.")
    return int(text)


def split_path(name: str, subject: str) -> tuple[str, ...]:
    """The components of a path that stays below the folder it is joined to."""
    if name.startswith("/"):
        raise NotExtractable(f"The {subject} {quote_name(name)} has an absolute path: {REMEDY}.")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise NotExtractable(
            f"The {subject} {quote_name(name)} leads to a parent folder: {REMEDY}."
        )
    if len(parts) > _DEPTH:
        raise NotExtractable(
            f"The {subject} {quote_name(name)} lies below more than {_DEPTH} folders."
        )
    if "\0" in name:
        raise NotExtractable(f"The {subject} {quote_name(name)} has a NUL in its name: {REMEDY}.")
    return parts


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
    count = 0
    for member in read_members(stream, limits.members):
        tree.add(member)
        count += 1
    stream.check_rest()
    if not count:
        raise NotExtractable(f"It has no files: {REMEDY}.")
    tree.make_links()
    return tree.written


class _Tree:
    """The files and folders written below `into`. Its own count of what it made stays within the
    limits.
    """

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
