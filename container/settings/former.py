"""Variables that were settings once, and what holds in the place of each."""

from __future__ import annotations

from collections.abc import Mapping

FORMER: Mapping[str, str] = {
    "SERVE_COMPILE_CHECK": "no load compares a compiled workflow with NVTabular; `python -m"
    " ensemble_tools verify` does so before an archive is shipped",
}
