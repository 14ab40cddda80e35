"""What the engine writes while it pushes, summed up: layers, bytes, the digest. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


class PushStopped(Exception):
    """The engine gave it up; the message has its words, without a full stop."""


@dataclass
class Layer:
    """sent of total: bytes as the layer is on this machine; 0 of 0 where nothing was sent."""

    sent: int = 0
    total: int = 0
    done: bool = False
    was_there: bool = False


@dataclass
class PushTally:
    """One push so far. waiting: the engine's words while it waits to try a layer again."""

    layers: dict[str, Layer] = field(default_factory=dict)
    digest: str | None = None
    waiting: str | None = None

    def hear(self, line: Mapping[str, Any]) -> None:
        """One line of the engine. Raises PushStopped."""
        if "error" in line:
            raise PushStopped(" ".join(str(line["error"]).split()).rstrip("."))
        if digest := (line.get("aux") or {}).get("Digest"):
            self.digest = str(digest)
        if name := line.get("id"):
            self._hear_layer(str(name), str(line.get("status", "")), line)

    def _hear_layer(self, name: str, status: str, line: Mapping[str, Any]) -> None:
        words = status.lower()
        self.waiting = status if words.startswith("retrying") else None
        if words == "pushing":
            layer, detail = self._layer(name), line.get("progressDetail") or {}
            layer.sent = int(detail.get("current", layer.sent))
            layer.total = max(int(detail.get("total", layer.total)), layer.sent)
        elif words == "pushed":
            layer = self._layer(name)
            layer.done, layer.sent = True, layer.total
        elif words.endswith("already exists") or words.startswith("mounted"):
            layer = self._layer(name)
            layer.done = layer.was_there = True
        elif words in ("preparing", "waiting"):
            self._layer(name)

    def _layer(self, name: str) -> Layer:
        return self.layers.setdefault(name, Layer())

    @property
    def done(self) -> int:
        """How many layers the registry has."""
        return sum(layer.done for layer in self.layers.values())

    @property
    def were_there(self) -> int:
        """How many of them it had before."""
        return sum(layer.was_there for layer in self.layers.values())

    @property
    def sent(self) -> int:
        """Bytes of all layers."""
        return sum(layer.sent for layer in self.layers.values())

    @property
    def total(self) -> int:
        """Bytes of those layers that are sent, as far as the engine has told."""
        return sum(layer.total for layer in self.layers.values())

    @property
    def share(self) -> float:
        """Of the layers that are there; those on their way count by their bytes."""
        parts = [
            1.0 if layer.done else layer.sent / layer.total if layer.total else 0.0
            for layer in self.layers.values()
        ]
        return sum(parts) / len(parts) if parts else 0.0

    def in_words(self) -> str:
        """Layers and bytes, and what it waits for."""
        words = f"{self.done} of {len(self.layers)} layers, {format_bytes(self.sent)}"
        if self.sent < self.total:
            words += f" of {format_bytes(self.total)}"
        return f"{words} ({self.waiting})" if self.waiting else words


def format_bytes(count: int) -> str:
    """In powers of ten, as registries count."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
