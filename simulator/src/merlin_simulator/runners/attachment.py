"""Where containers run already, as `--instance` says it. No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Attachment:
    """--instance URL=ROOT: where containers answer, and the folder that is their /opt/ml/models.

    root is the folder as this process writes it; seen_as is the same one as the containers read it.
    """

    url: str
    root: Path
    seen_as: Path


def read_attachment(text: str) -> Attachment:
    """URL=ROOT or URL=ROOT=SEEN_AS. Raises ValueError with a sentence."""
    url, _, folders = text.partition("=")
    root, _, seen_as = folders.partition("=")
    if not _is_origin(url) or not root:
        raise ValueError(
            f"--instance is URL=FOLDER, for instance http://127.0.0.1:8080=/opt/ml/models; "
            f"found {text!r}"
        )
    absolute = Path(root).absolute()
    return Attachment(url.rstrip("/"), absolute, Path(seen_as) if seen_as else absolute)


def _is_origin(url: str) -> bool:
    """http://HOST or http://HOST:PORT, with a port that there is."""
    try:
        parts = urlsplit(url)
        whole = parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond 65535, a bracket without its other
        return False
    return whole and parts.path in ("", "/") and not (parts.query or parts.fragment)
