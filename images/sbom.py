"""Writes an image's contents as CycloneDX 1.6, JSON. No I/O.

A component for each package and version, with the environments that it lies in (occurrences), and
one for the base image, whose own contents are its maker's to tell. The same contents, at the same
time, give the same text: its serial number is made of them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.component_evidence import ComponentEvidence, Occurrence
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from images.contents import Image
from images.locks import Pin

PRODUCT = "merlin-sagemaker"
#: RFC 4122's for URLs; any fixed one would do.
_NAMESPACE = uuid.NAMESPACE_URL


def write_sbom(
    image: Image, version: str, found: Mapping[str, Iterable[Pin]], written: datetime
) -> str:
    """The document. version: the project's; found: each environment's packages, by its folder."""
    base = _base(image.base)
    product = Component(
        name=f"{PRODUCT}:{image.name}",
        type=ComponentType.CONTAINER,
        version=version,
        bom_ref="image",
    )
    bom = Bom(
        components=[base, *_packages(found)],
        metadata=BomMetaData(component=product, timestamp=written),
        serial_number=uuid.UUID(int=0),
    )
    bom.register_dependency(product, bom.components)
    bom.serial_number = uuid.uuid5(_NAMESPACE, JsonV1Dot6(bom).output_as_string())
    return JsonV1Dot6(bom).output_as_string(indent=1) + "\n"


def _packages(found: Mapping[str, Iterable[Pin]]) -> Iterator[Component]:
    """Each once, though environments share it. hashes: of all files that pip may take for it."""
    hashes: dict[tuple[str, str], set[str]] = {}
    folders: dict[tuple[str, str], list[str]] = {}
    for folder, pins in found.items():
        for pin in pins:
            hashes.setdefault((pin.name, pin.version), set()).update(pin.hashes)
            folders.setdefault((pin.name, pin.version), []).append(folder)
    for (name, version), digests in hashes.items():
        purl = PackageURL("pypi", name=name, version=version)
        # In one order: the library sorts them by their references.
        occurrences = [
            Occurrence(bom_ref=f"{purl}#{it}", location=it) for it in folders[name, version]
        ]
        yield Component(
            name=name,
            version=version,
            purl=purl,
            bom_ref=str(purl),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in digests],
            evidence=ComponentEvidence(occurrences=occurrences),
        )


def _base(reference: str) -> Component:
    """A base image, as `registry/path/name:tag`, with `@sha256:…` where it is known."""
    named, _, digest = reference.partition("@")
    path, _, tag = named.partition(":")
    host, slash, rest = path.partition("/")
    has_registry = bool(slash) and "." in host
    group, _, name = (rest if has_registry else path).rpartition("/")
    purl = PackageURL(
        "docker",
        namespace=group or None,
        name=name,
        version=digest or tag or None,
        qualifiers={"repository_url": host} if has_registry else None,
    )
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest.removeprefix("sha256:"))]
    return Component(
        name=path,
        version=tag or None,
        type=ComponentType.CONTAINER,
        purl=purl,
        bom_ref=str(purl),
        description="the base image; what is in it is not listed here",
        hashes=hashes if digest else [],
    )
