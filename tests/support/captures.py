"""Files of data capture, as SageMaker and the container write them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

JSON_TYPE = "application/json"


def make_record(
    body: bytes, content_type: str = JSON_TYPE, at: str = "2026-11-26T09:00:00Z"
) -> dict[str, Any]:
    """One request and an answer; JSON as text, all else in BASE64."""
    is_json = content_type == JSON_TYPE
    return {
        "captureData": {
            "endpointInput": {
                "observedContentType": content_type,
                "mode": "INPUT",
                "data": body.decode() if is_json else base64.b64encode(body).decode(),
                "encoding": "JSON" if is_json else "BASE64",
            },
            "endpointOutput": {
                "observedContentType": JSON_TYPE,
                "mode": "OUTPUT",
                "data": '{"outputs": []}',
                "encoding": "JSON",
            },
        },
        "eventMetadata": {"eventId": "6f0b3a2e", "inferenceTime": at},
        "eventVersion": "0",
    }


def write_capture(
    root: Path,
    records: Iterable[dict[str, Any]],
    target_model: str = "m.tar.gz",
    hour: str = "2026/11/26/09",
    name: str = "00-00-000.jsonl",
) -> Path:
    """The file, in root/shop/AllTraffic/<target model>/<hour>/."""
    file = root / "shop/AllTraffic" / target_model / hour / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return file
