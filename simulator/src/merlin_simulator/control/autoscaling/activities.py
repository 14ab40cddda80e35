"""What scaling did, and what it did not do and why: kept, bounded, and described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from merlin_simulator.control.autoscaling.names import DIMENSION, NAMESPACE, make_id, split_resource
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.records import Record, Records
from merlin_simulator.watch.events import EventLog

#: Of one variant, the last ones. AWS has them for six weeks.
_KEPT = 100
#: Variants whose activities are kept, also after they are gone.
_RESOURCES = 200


class Activities:
    """Scaling activities by resource. log: hears of those that change something."""

    def __init__(self, records: Records, clock: Clock, log: EventLog) -> None:
        self._records, self._clock, self._log = records, clock, log

    def restore(self) -> None:
        """What was under way when the simulator ended is not any more."""
        for record in self._records.values():
            cut = [one for one in record["Activities"] if one["StatusCode"] == "InProgress"]
            for activity in cut:
                activity["EndTime"] = self._clock.now()
                activity["StatusCode"] = "Unfulfilled"
                activity["StatusMessage"] = "The simulator ended before it was fulfilled."
            if cut:
                self._records.put(record["ResourceId"], record)

    def begin(self, resource: str, description: str, cause: str) -> Record:
        """An activity that is under way from now on."""
        activity = self._keep(resource, description, cause, "InProgress")
        self._tell(activity)
        return activity

    def end(self, activity: Record, status: str, message: str) -> None:
        """It is over. status: a StatusCode; message: its StatusMessage."""
        record = self._of(activity["ResourceId"])
        kept: list[Record] = record["Activities"]
        activity.update(EndTime=self._clock.now(), StatusCode=status, StatusMessage=message)
        before = kept[1] if len(kept) > 1 and kept[0] is activity else None
        if before is not None and status == "Failed" and _alike(before, activity):
            # Tried again every minute: told once.
            before["EndTime"] = activity["EndTime"]
            kept.remove(activity)
        self._put(record)
        self._tell(activity)

    def not_scaled(self, resource: str, cause: str, reason: Mapping[str, Any]) -> None:
        """An alarm would have another number, which cannot be; told once until that changes."""
        newest = next(iter(self._of(resource)["Activities"]), None)
        if newest is not None and _code(newest) == reason["Code"]:
            return
        # AWS, "Scaling activities": an alarm's attempt, Failed.
        words = "Attempting to scale due to alarm triggered"
        self._keep(resource, words, cause, "Failed", NotScaledReasons=[dict(reason)])

    def of(self, resource: str | None, not_scaled: bool) -> list[Record]:
        """Newest first; of all resources: None. not_scaled: those that did nothing, too."""
        records = self._records.values() if resource is None else (self._of(resource),)
        found = [
            one
            for record in records
            for one in record["Activities"]
            if not_scaled or "NotScaledReasons" not in one
        ]
        return sorted(found, key=lambda one: -one["StartTime"])

    def _keep(
        self, resource: str, description: str, cause: str, status: str, **more: Any
    ) -> Record:
        activity = {
            "ActivityId": make_id(),
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource,
            "ScalableDimension": DIMENSION,
            "Description": description,
            "Cause": cause,
            "StartTime": self._clock.now(),
            "StatusCode": status,
            **more,
        }
        record = self._of(resource)
        record["Activities"] = [activity, *record["Activities"]][:_KEPT]
        self._put(record)
        return activity

    def _of(self, resource: str) -> Record:
        return self._records.get(resource) or {
            "ResourceId": resource,
            "CreationTime": self._clock.now(),
            "Activities": [],
        }

    def _put(self, record: Record) -> None:
        self._records.put(record["ResourceId"], record)
        if len(self._records) > _RESOURCES:
            self._records.remove(next(iter(self._records)))

    def _tell(self, activity: Record) -> None:
        target = split_resource(activity["ResourceId"])
        self._log.tell(
            "scaling_activity",
            endpoint=target.endpoint,
            variant=target.variant,
            status=activity["StatusCode"],
            description=activity["Description"],
            cause=activity["Cause"],
            message=activity.get("StatusMessage"),
        )


def _alike(one: Record, other: Record) -> bool:
    members = ("StatusCode", "Description", "Cause", "StatusMessage")
    return all(one.get(member) == other.get(member) for member in members)


def _code(activity: Record) -> str | None:
    reasons = activity.get("NotScaledReasons")
    return reasons[0]["Code"] if reasons else None
