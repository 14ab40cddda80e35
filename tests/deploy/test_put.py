"""`put`, and what names mean afterwards, on the control plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.container import ROOT
from tests.support.control_plane import ControlPlane
from tests.support.deploying import deploy, write_config
from tests.support.simulator import fake_model

MERLIN = ROOT / "examples/merlin"


def test_the_whole_way(plane: ControlPlane, tmp_path: Path) -> None:
    """New content is served at the next request by its name, and goes back by one command."""
    config, request = write_config(tmp_path, "way"), tmp_path / "request.json"
    request.write_text('{"inputs": []}')

    def answer() -> Any:
        said = deploy(plane, "invoke", config, "--model", "shop-a", "--request", request)
        return json.loads(said.splitlines()[0])["answer"]

    first = fake_model(tmp_path / "first", "shop-a.tar.gz")
    said = deploy(plane, "put", config, first, "--no-check")
    assert f"python -m deploy invoke {config} --model shop-a --request FILE" in said
    deploy(plane, "up", config)
    assert answer() == "shop-a.tar.gz"
    second = fake_model(tmp_path / "second", "other.tar.gz")
    deploy(plane, "put", config, second, "--as", "shop-a", "--no-check")
    assert answer() == "other.tar.gz"


def test_folders_are_checked_and_packed(plane: ControlPlane, tmp_path: Path) -> None:
    """A folder of exports is each of them; what is there is not sent again."""
    config, folder = write_config(tmp_path, "folders"), tmp_path / "exports"
    folder.mkdir()
    (folder / "dense").symlink_to(MERLIN / "dense/repository")
    (folder / "session").symlink_to(MERLIN / "session/repository")
    dry = deploy(plane, "put", config, folder, "--dry-run").splitlines()
    assert dry[0] == f"python -m ensemble_tools pack {folder}/dense -o dense.tar.gz"
    assert dry[1].startswith("aws s3 cp dense.tar.gz s3://models/folders/archives/dense/")
    assert dry[4].startswith("printf %s ")
    assert keys(plane, "folders") == []
    said = deploy(plane, "put", config, folder)
    assert said.count("uploaded") == 2
    made = keys(plane, "folders")
    assert [key.split("/")[2] for key in made[1:]] == ["dense", "session"]
    assert deploy(plane, "put", config, folder).count("is there") == 2
    assert keys(plane, "folders") == made


def keys(plane: ControlPlane, name: str) -> list[str]:
    """Of all objects of an endpoint."""
    found = plane.client("s3").list_objects_v2(Bucket="models", Prefix=f"{name}/")
    return [one["Key"] for one in found.get("Contents", ())]
