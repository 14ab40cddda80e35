"""What is said of an archive that cannot be extracted. Each is one printable sentence."""

from __future__ import annotations

REMEDY = "pack it again (tar -C FOLDER -czf model.tar.gz .)"


class NotExtractable(Exception):
    """What the archive has that may not be, or cannot be, extracted: one sentence."""


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
