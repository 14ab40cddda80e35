"""Scheduled actions: PutScheduledAction and what goes with it, and which of them are due."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from merlin_simulator.control.autoscaling.listing import about_variants, answer
from merlin_simulator.control.autoscaling.names import (
    DIMENSION,
    NAMESPACE,
    LimitExceeded,
    action_arn,
    make_id,
    no_action,
    read_resource,
)
from merlin_simulator.control.autoscaling.schedules import At, read_schedule
from merlin_simulator.control.autoscaling.targets import Targets, check_bounds
from merlin_simulator.control.caller import Call
from merlin_simulator.control.clock import Clock
from merlin_simulator.control.errors import ServiceError, Unserializable
from merlin_simulator.control.records import Record, Records

_OURS = ("ActionId", "Next")
#: AWS, "Quotas for Application Auto Scaling": scheduled actions of a target.
_MOST = 200
_TIMES = ("StartTime", "EndTime")


class ScheduledActions:
    """All of them, by an id of their own. Next: when one is due, platform seconds."""

    def __init__(self, records: Records, clock: Clock, targets: Targets) -> None:
        self._records, self._clock, self._targets = records, clock, targets
        targets.gone.append(self._forget)

    def restore(self) -> None:
        """What was due while nothing ran is not made up for."""
        for action in self._records.values():
            self._records.put(action["ActionId"], _planned(action, self._clock.now()))

    def due(self, now: float) -> Iterator[Record]:
        """Those whose time has come, each once: their next time is set."""
        for action in self._records.values():
            following = action.get("Next")
            if following is None or following > now:
                continue
            planned = _planned(action, now)
            self._records.put(action["ActionId"], planned)
            yield planned

    # -- the calls

    async def put(self, call: Call) -> Mapping[str, Any]:
        """PutScheduledAction: a new one, or changes of one that is there."""
        members, name = call.members, call.members["ScheduledActionName"]
        resource = str(read_resource(members))
        self._targets.get(resource)
        before = self._find(resource, name)
        if before is None and len(self._of(resource)) >= _MOST:
            raise LimitExceeded(f"A scalable target may have at most {_MOST} scheduled actions.")
        action = dict(before or self._made(resource, name, call))
        for member in ("Schedule", "Timezone", "ScalableTargetAction"):
            if members.get(member) is not None:
                action[member] = members[member]
        for member in _TIMES:
            if members.get(member) is not None:
                action[member] = _seconds(member, members[member])
        _check(action)
        action = _planned(action, self._clock.now())
        if "Next" not in action and isinstance(_schedule(action), At):
            raise ServiceError(f"Schedule {action['Schedule']} is in the past.")
        self._records.put(action["ActionId"], action)
        return {}

    async def describe(self, call: Call) -> Mapping[str, Any]:
        """DescribeScheduledActions."""
        members, found = call.members, list[Record]()
        if about_variants(members):
            names, resource = members.get("ScheduledActionNames"), members.get("ResourceId")
            found = [
                one
                for one in self._records.values()
                if (not names or one["ScheduledActionName"] in names)
                and resource in (None, one["ResourceId"])
            ]
        return answer("ScheduledActions", found, members, _OURS)

    async def delete(self, call: Call) -> Mapping[str, Any]:
        """DeleteScheduledAction."""
        resource, name = str(read_resource(call.members)), call.members["ScheduledActionName"]
        action = self._find(resource, name)
        if action is None:
            raise no_action(resource, name)
        self._records.remove(action["ActionId"])
        return {}

    def _find(self, resource: str, name: str) -> Record | None:
        found = (one for one in self._of(resource) if one["ScheduledActionName"] == name)
        return next(found, None)

    def _of(self, resource: str) -> list[Record]:
        return [one for one in self._records.values() if one["ResourceId"] == resource]

    def _forget(self, resource: str) -> None:
        for action in self._of(resource):
            self._records.remove(action["ActionId"])

    def _made(self, resource: str, name: str, call: Call) -> Record:
        if not call.members.get("Schedule"):
            raise ServiceError("Schedule must be specified")
        action_id = make_id()
        return {
            "ActionId": action_id,
            "ScheduledActionName": name,
            "ScheduledActionARN": action_arn(action_id, resource, name, call.region),
            "ServiceNamespace": NAMESPACE,
            "ResourceId": resource,
            "ScalableDimension": DIMENSION,
            "CreationTime": self._clock.now(),
        }


def _check(action: Mapping[str, Any]) -> None:
    wanted = action.get("ScalableTargetAction") or {}
    least, most = wanted.get("MinCapacity"), wanted.get("MaxCapacity")
    if least is None and most is None:
        # The service's own words (community-registry-extensions#255).
        raise ServiceError(
            "At least one of minimum capacity and maximum capacity should be provided"
        )
    check_bounds(least, most)
    start, end = (action.get(member) for member in _TIMES)
    if start is not None and end is not None and end <= start:
        raise ServiceError("EndTime must be after StartTime")


def _schedule(action: Mapping[str, Any]) -> Any:
    anchor = action.get("StartTime", action["CreationTime"])
    return read_schedule(action["Schedule"], action.get("Timezone"), anchor)


def _planned(action: Mapping[str, Any], now: float) -> Record:
    """With its next time after now, within StartTime and EndTime; without one it is over."""
    planned = {key: value for key, value in action.items() if key != "Next"}
    # The very second of StartTime is a time of it.
    earliest = max(now, action.get("StartTime", now) - 1e-3)
    following = _schedule(action).after(earliest)
    if following is not None and following <= action.get("EndTime", following):
        planned["Next"] = following
    return planned


def _seconds(member: str, value: Any) -> float:
    """The wire has seconds since the epoch; a text is ISO 8601."""
    try:
        if isinstance(value, str):
            return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
        return float(value)
    except ValueError as error:
        raise Unserializable(f"{member} is {value!r}: expected a time.") from error
