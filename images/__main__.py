"""Writes an SBOM for each image: `python -m images --out DIR` (make sbom).

SOURCE_DATE_EPOCH is the time that they tell, where it is set: then they are the same each time.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from images.contents import Image, images
from images.locks import read_lock
from images.sbom import write_sbom

ROOT = Path(__file__).parents[1]


def main(argv: Sequence[str]) -> int:
    """DIR/NAME.cdx.json for each image; says what was written."""
    parser = argparse.ArgumentParser(prog="python -m images", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("sbom"), metavar="DIR", help="made if need be (sbom)"
    )
    out: Path = parser.parse_args(argv).out
    try:
        seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
        written = datetime.fromtimestamp(seconds, timezone.utc)
        out.mkdir(parents=True, exist_ok=True)
        for image in images(ROOT / "Dockerfile"):
            path = out / f"{image.name}.cdx.json"
            path.write_text(sbom_of(image, written))
            print(path)
    except (OSError, ValueError) as error:
        print(f"no SBOM: {error}", file=sys.stderr)
        return 1
    return 0


def sbom_of(image: Image, written: datetime) -> str:
    """Its SBOM, by the locks of this checkout."""
    found = {
        it.folder: [
            pin
            for lock in it.locks
            for pin in read_lock(ROOT / f"requirements/{lock}.txt", image.python)
        ]
        for it in image.environments
    }
    return write_sbom(image, _version(), found, written)


def _version() -> str:
    """The project's; Python 3.10 has no tomllib."""
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise ValueError("pyproject.toml: found no version, expected one")
    return found[1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
