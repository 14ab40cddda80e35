"""Model directories as archives have them, written for a test."""

from __future__ import annotations

from pathlib import Path


def make(root: Path, *files: str, **configs: str) -> Path:
    """Files (or directories, with a `/` at the end) and config.pbtxt files by model name."""
    for name in files:
        path = root / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.touch()
    for model, text in configs.items():
        (root / model).mkdir(parents=True, exist_ok=True)
        (root / model / "config.pbtxt").write_text(text)
    return root


def ensemble(*steps: str) -> str:
    listed = " ".join(f'step {{ model_name: "{step}" }}' for step in steps)
    return f'platform: "ensemble" ensemble_scheduling {{ {listed} }}'
