"""The account's quotas of instances. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from merlin_simulator.control.errors import ResourceLimitExceeded

#: Of each type. Chosen: far more than one machine has, so that a slip of the pen does not end it.
DEFAULT_MOST = 100


class Quotas:
    """most: instances at the same time for endpoints, by type; of others DEFAULT_MOST."""

    def __init__(self, most: Mapping[str, int]) -> None:
        self._most = most

    def check(
        self, variants: Sequence[Mapping[str, Any]], in_use: Sequence[tuple[str, int]]
    ) -> None:
        """Raises ResourceLimitExceeded where these would be too many beside those in use.

        Fewer than before are never too many.
        """
        asked, used = Counter[str](), Counter[str]()
        for variant in variants:
            asked[variant["InstanceType"]] += variant["InitialInstanceCount"]
        for instance_type, count in in_use:
            used[instance_type] += count
        for instance_type, count in asked.items():
            most = self._most.get(instance_type, DEFAULT_MOST)
            if count > 0 and used[instance_type] + count > most:
                # SageMaker's own words.
                raise ResourceLimitExceeded(
                    f"The account-level service limit '{instance_type} for endpoint usage' is "
                    f"{most} Instances, with current utilization of {used[instance_type]} "
                    f"Instances and a request delta of {count} Instances. Please use AWS Service "
                    "Quotas to request an increase for this quota. If AWS Service Quotas is not "
                    "available, contact AWS support to request an increase for this quota."
                )
