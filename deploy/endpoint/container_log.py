"""The last lines of an endpoint's containers, as CloudWatch Logs has them."""

from __future__ import annotations

from deploy.aws.account import Account
from deploy.errors import DeployError

_STREAMS, _LINES = 2, 15


def find_last_lines(account: Account, endpoint_name: str) -> list[str]:
    """Of the instances that wrote last; nothing where there is no log, or no right to read it."""
    group = f"/aws/sagemaker/Endpoints/{endpoint_name}"
    try:
        found = account.find(
            "logs",
            "DescribeLogStreams",
            logGroupName=group,
            orderBy="LastEventTime",
            descending=True,
            limit=_STREAMS,
        )
        lines = []
        for stream in (found or {}).get("logStreams", ()):
            name = stream["logStreamName"]
            events = account.ask(
                "logs", "GetLogEvents", logGroupName=group, logStreamName=name, limit=_LINES
            )
            lines += [f"{name}: {event['message'].rstrip()}" for event in events["events"]]
    except DeployError:
        return []
    return lines
