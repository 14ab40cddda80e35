"""Images to ask about, and requests with them: as JSON, and in SageMaker's binary form.

The tensor `image` holds files as they are, JPEG or PNG, one a row: a byte is a number from 0 to
255, so JSON carries it without base64, in three to four times the room.
"""

from __future__ import annotations

import io
import json
import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

BINARY = "application/vnd.sagemaker-triton.binary+json;json-header-size="


def draw(seed: int, kind: str) -> bytes:
    """A made-up picture: forms on a plain ground. kind is JPEG or PNG."""
    numbers = random.Random(seed)
    width, height = numbers.randint(160, 320), numbers.randint(160, 320)

    def colour() -> tuple[int, int, int]:
        return numbers.randrange(256), numbers.randrange(256), numbers.randrange(256)

    image = Image.new("RGB", (width, height), colour())
    pen = ImageDraw.Draw(image)
    for form in (pen.ellipse, pen.rectangle) * 4:
        left, top = numbers.randrange(width), numbers.randrange(height)
        corner = (left + numbers.randint(10, width), top + numbers.randint(10, height))
        form((left, top, *corner), fill=colour())
    written = io.BytesIO()
    image.save(written, kind)
    return written.getvalue()


def is_readable(path: Path) -> bool:
    """Whether there is a JPEG or PNG."""
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as image:
            image.load()
    except (OSError, SyntaxError, ValueError):
        return False
    return True


def as_rows(images: Sequence[bytes]) -> np.ndarray[Any, Any]:
    """(images, longest file) UINT8; shorter files end in zeros, which decoders pass over."""
    rows: np.ndarray[Any, Any] = np.zeros((len(images), max(map(len, images))), np.uint8)
    for row, image in zip(rows, images, strict=True):
        row[: len(image)] = np.frombuffer(image, np.uint8)
    return rows


def as_json(images: Sequence[bytes]) -> tuple[bytes, str]:
    """Body and Content-Type."""
    rows = as_rows(images)
    tensor = {"name": "image", "datatype": "UINT8", "shape": rows.shape, "data": rows.tolist()}
    return json.dumps({"inputs": [tensor]}).encode(), "application/json"


def as_binary(images: Sequence[bytes]) -> tuple[bytes, str]:
    """Body and Content-Type: a head of JSON, then the rows' bytes. The answer is binary, too."""
    rows = as_rows(images)
    size = {"binary_data_size": rows.nbytes}
    tensor = {"name": "image", "datatype": "UINT8", "shape": rows.shape, "parameters": size}
    head = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    return head + rows.tobytes(), f"{BINARY}{len(head)}"


def read_answer(body: bytes, content_type: str) -> tuple[list[list[float]], list[str]]:
    """The probabilities and the labels, of an answer in either form."""
    binary = content_type.startswith(BINARY)
    head = int(content_type.removeprefix(BINARY)) if binary else len(body)
    found: dict[str, Any] = {}
    for output in json.loads(body[:head])["outputs"]:
        size = output.get("parameters", {}).get("binary_data_size", 0)
        data, head = body[head : head + size], head + size
        found[output["name"]] = _read(output, data) if binary else output["data"]
    flat = np.asarray(found["probabilities"], np.float32)
    return flat.reshape(len(found["label"]), -1).tolist(), found["label"]


def _read(output: dict[str, Any], data: bytes) -> Any:
    if output["datatype"] != "BYTES":
        return np.frombuffer(data, np.float32)
    texts = []
    while data:  # each has its length before it
        (length,) = struct.unpack("<I", data[:4])
        texts.append(data[4 : 4 + length].decode())
        data = data[4 + length :]
    return texts
