"""The regression corpus: no request and no archive of it hurts another tenant."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.reliability.beside import Place, try_archive, try_request
from tests.reliability.corpus.hostile_archives import HOSTILE_ARCHIVES, HostileArchive
from tests.reliability.corpus.hostile_requests import HostileRequest, hostile_requests

_LARGE = "512 MB to POST /models"

#: Without what takes seconds to make and to send.
_REQUESTS = [one for one in hostile_requests() if one.name not in ("gzip of 2 GB", _LARGE)]
#: Without what loads for as long as SERVE_LOAD_TIMEOUT lets it: that is for `beside`.
_ARCHIVES = [one for one in HOSTILE_ARCHIVES if not one.hangs]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A container with a target and a witness; another one when it was hurt."""
    found = Place("container", tmp_path_factory.mktemp("hostile"), limits={})
    yield found
    found.discard()


@pytest.mark.parametrize("hostile", _REQUESTS, ids=lambda hostile: hostile.name)
def test_request(hostile: HostileRequest, place: Place) -> None:
    """It is answered as a caller's fault; tritonserver lives, and the witness and /ping answer."""
    outcome = try_request(place, hostile)
    assert outcome.holds(hostile.allowed), outcome


@pytest.mark.parametrize("hostile", _ARCHIVES, ids=lambda hostile: hostile.name)
def test_archive(hostile: HostileArchive, place: Place) -> None:
    """Its load is refused as the archive's fault; other loads go on, and everything lives."""
    outcome = try_archive(place, hostile)
    assert outcome.holds(hostile.allowed), outcome
