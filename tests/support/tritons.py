"""The two real tritonservers that the tests have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.container import TRITON_2_36

NEWEST = "2.51"
#: What makes a container take each of them; the nearest to Merlin's own 2.35 is 2.36.
TRITONS: Mapping[str, Mapping[str, str]] = {
    NEWEST: {},
    "2.36": {"SERVE_TRITON_SERVER": str(TRITON_2_36)},
}
#: Marks a test of what the two do differently. Any other test runs with the newest alone.
BOTH = pytest.mark.parametrize("triton", TRITONS, indirect=True)
