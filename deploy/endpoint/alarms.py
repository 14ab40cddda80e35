"""Alarms brought to what is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploy.aws.account import Account, Say
from deploy.wanted.alarms import is_alarm_of, make_alarm_prefix
from deploy.wanted.comparing import has_all
from deploy.wanted.wanted import Members

#: DeleteAlarms takes so many at once.
_MOST_DELETED = 100


def find_alarms(account: Account, endpoint_name: str) -> list[Mapping[str, Any]]:
    """All that `up` makes for an endpoint, as DescribeAlarms has them."""
    listed = account.ask_all(
        "cloudwatch",
        "DescribeAlarms",
        "MetricAlarms",
        AlarmNamePrefix=make_alarm_prefix(endpoint_name),
    )
    return [one for one in listed if is_alarm_of(endpoint_name, one["AlarmName"])]


def bring_alarms(account: Account, endpoint_name: str, wanted: Sequence[Members], say: Say) -> None:
    """Those that differ are written, those that nobody wants any more go."""
    present = {alarm["AlarmName"]: alarm for alarm in find_alarms(account, endpoint_name)}
    for alarm in wanted:
        if not has_all(present.get(alarm["AlarmName"]), alarm):
            account.change("cloudwatch", "PutMetricAlarm", **alarm)
            say(f"alarm {alarm['AlarmName']}: written")
    names = {alarm["AlarmName"] for alarm in wanted}
    remove_alarms(account, sorted(set(present) - names), say)


def remove_alarms(account: Account, names: Sequence[str], say: Say) -> None:
    """By their names."""
    for start in range(0, len(names), _MOST_DELETED):
        some = list(names[start : start + _MOST_DELETED])
        account.remove("cloudwatch", "DeleteAlarms", AlarmNames=some)
        for name in some:
            say(f"alarm {name}: removed")
