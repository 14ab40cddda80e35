"""The SBOMs, as others read them: by CycloneDX's schema."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from images.__main__ import main, sbom_of
from images.contents import Environment, Image, gpu_image, images
from images.locks import Pin
from images.sbom import write_sbom

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from cyclonedx.validation.json import JsonStrictValidator

ROOT = Path(__file__).parents[3]
IMAGES = list(images(ROOT / "Dockerfile"))
TIME = datetime(2026, 1, 2, tzinfo=timezone.utc)
DIGEST = "ab" * 32


@cache
def validator() -> JsonStrictValidator:
    """Of CycloneDX 1.6."""
    # Only here: importing it takes a second, in each process that collects tests.
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    return JsonStrictValidator(SchemaVersion.V1_6)


def invalid(text: str) -> object:
    """What the schema has against it, None for nothing."""
    return validator().validate_str(text)


def written(base: str, **found: list[Pin]) -> dict[str, Any]:
    """A small image's, read back."""
    folders = tuple(Environment(folder, ()) for folder in found)
    text = write_sbom(Image("small", base, "3.11", folders), "1.2", found, TIME)
    assert invalid(text) is None
    return dict(json.loads(text))


def components(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By their identity."""
    return {it["purl"]: it for it in document["components"]}


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: image.name)
def test_valid(image: Image) -> None:
    """Each image's is what the schema of CycloneDX 1.6 asks for; its packages have hashes."""
    text = sbom_of(image, TIME)
    assert invalid(text) is None
    packages = [it for it in json.loads(text)["components"] if it["type"] == "library"]
    assert len(packages) > 30
    assert all(it["hashes"] and it["version"] for it in packages)


def test_what_is_not_valid_is_seen() -> None:
    """The validator is one."""
    document = json.loads(sbom_of(IMAGES[0], TIME))
    document["components"][0]["type"] = "thing"
    assert invalid(json.dumps(document)) is not None


def test_a_package_of_two_environments_is_one() -> None:
    """It lies in both, and each of the hashes may be its file's; another version is another one."""
    one, other = "1" * 64, "2" * 64
    found = components(
        written(
            "base",
            server=[Pin("a", "1", (one,)), Pin("b", "1", (one,))],
            models=[Pin("a", "1", (other,)), Pin("b", "2", (one,))],
        )
    )
    both = found["pkg:pypi/a@1"]
    assert [it["location"] for it in both["evidence"]["occurrences"]] == ["models", "server"]
    assert [it["content"] for it in both["hashes"]] == [one, other]
    assert {"pkg:pypi/b@1", "pkg:pypi/b@2"} < found.keys()


@pytest.mark.parametrize(
    ("base", "purl", "version"),
    [
        ("python:3.11-slim", "pkg:docker/python@3.11-slim", "3.11-slim"),
        (
            "nvcr.io/nvidia/merlin/merlin-pytorch:23.12",
            "pkg:docker/nvidia/merlin/merlin-pytorch@23.12?repository_url=nvcr.io",
            "23.12",
        ),
        ("nvcr.io/a/b", "pkg:docker/a/b?repository_url=nvcr.io", None),
        (f"a/b:1@sha256:{DIGEST}", f"pkg:docker/a/b@sha256:{DIGEST}", "1"),
    ],
)
def test_the_base_is_a_component(base: str, purl: str, version: str | None) -> None:
    """By its registry, name and tag, or by its digest where that is known."""
    component = components(written(base))[purl]
    assert component.get("version") == version
    hashes = [it["content"] for it in component.get("hashes", [])]
    assert hashes == ([DIGEST] if "@" in base else [])


def test_the_same_contents_are_the_same_document() -> None:
    """Its serial number too; other contents have another one."""
    text = sbom_of(gpu_image("base", "3.12"), TIME)
    assert sbom_of(gpu_image("base", "3.12"), TIME) == text
    other = sbom_of(gpu_image("base", "3.10"), TIME)
    assert json.loads(other)["serialNumber"] != json.loads(text)["serialNumber"]


def test_a_file_for_each_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are named on the output; a time that is set is theirs."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(TIME.timestamp()))
    assert main(["--out", str(tmp_path)]) == 0
    paths = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert paths == [tmp_path / f"{image.name}.cdx.json" for image in IMAGES]
    for path, image in zip(paths, IMAGES, strict=True):
        assert path.read_text() == sbom_of(image, TIME)


def test_where_nothing_can_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line says why."""
    (tmp_path / "file").touch()
    assert main(["--out", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.startswith("no SBOM: ")
