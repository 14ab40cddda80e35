"""The members of a tar, one after another, with what extended headers say of them.

Headers are decoded by tarfile; the loop over them is ours, since tarfile takes a damaged header in
the middle for the archive's end, and reads extended headers of any size into memory.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from merlin_simulator.archives.archive_faults import REMEDY, NotExtractable, quote_name, too_many
from merlin_simulator.archives.tar_stream import BLOCK, TarStream, pad_size

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
        """For messages."""
        return quote_name("/".join(self.parts))


@dataclass
class _Extended:
    """What extended headers say of the next member."""

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
        what = "It is no tar archive" if first else "One of its headers is damaged"
        raise NotExtractable(f"{what}: {REMEDY}.") from error
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


def split_path(name: str, what: str) -> tuple[str, ...]:
    """The components of a path that stays below the folder it is joined to."""
    if name.startswith("/"):
        raise NotExtractable(f"The {what} {quote_name(name)} has an absolute path: {REMEDY}.")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise NotExtractable(f"The {what} {quote_name(name)} leads to a parent folder: {REMEDY}.")
    if len(parts) > _DEPTH:
        raise NotExtractable(
            f"The {what} {quote_name(name)} lies below more than {_DEPTH} folders."
        )
    if "\0" in name:
        raise NotExtractable(f"The {what} {quote_name(name)} has a NUL in its name: {REMEDY}.")
    return parts
