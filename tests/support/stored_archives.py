"""What a bucket has of an endpoint's archives, and archives large enough for uploads in parts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from simulator.tests.support.control_plane import ControlPlane

BUCKET = "models"
#: Two parts.
LARGE = 9 * 2**20


def large_archive(folder: Path, name: str, seed: int = 0) -> Path:
    """Not looked at, it is one; the same bytes for the same seed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.tar.gz"
    path.write_bytes(random.Random(seed).randbytes(LARGE))
    return path


def keys_of(plane: ControlPlane, name: str) -> list[str]:
    """Of all objects of an endpoint, without its prefix."""
    found = plane.client("s3").list_objects_v2(Bucket=BUCKET, Prefix=f"{name}/")
    return [one["Key"].removeprefix(f"{name}/") for one in found.get("Contents", ())]


def aliases_of(plane: ControlPlane, name: str) -> dict[str, list[str]]:
    """The table; without any there are none."""
    if "aliases.json" not in keys_of(plane, name):
        return {}
    found = plane.client("s3").get_object(Bucket=BUCKET, Key=f"{name}/aliases.json")
    aliases: dict[str, list[str]] = json.loads(found["Body"].read())["aliases"]
    return aliases


def uploads_of(plane: ControlPlane, name: str) -> list[str]:
    """Keys of uploads that are not done."""
    found = plane.client("s3").list_multipart_uploads(Bucket=BUCKET, Prefix=f"{name}/")
    return [one["Key"] for one in found.get("Uploads", ())]


def state_of(plane: ControlPlane, name: str) -> Any:
    """All of it; it compares between endpoints."""
    return keys_of(plane, name), aliases_of(plane, name), uploads_of(plane, name)
