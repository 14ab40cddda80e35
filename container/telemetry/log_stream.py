"""A stream of CloudWatch Logs. boto3 is imported when it is used first: it costs about 30 MB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from container.telemetry.event_queue import Event

CALL_TIMEOUT_S = 5.0  # of AWS
#: Without it events were no metrics, by the format's specification.
_FORMAT_HEADER = ("x-amzn-logs-format", "json/emf")
_PASSING = ("throttl", "unavailable", "toomanyrequests", "limitexceeded", "aborted", "internal")


class LogStream:
    """A stream of a log group, both made when missing. Blocks; not for several threads."""

    def __init__(self, client: Any, group: str, stream: str) -> None:
        self._client, self._group, self._stream = client, group, stream

    def put(self, events: Sequence[Event]) -> int:
        """Sends what fits in one call; how many of it CloudWatch refused for their age.

        Raises what botocore raises.
        """
        try:
            return self._put(events)
        except self._client.exceptions.ResourceNotFoundException:
            self._create()
            return self._put(events)

    def _put(self, events: Sequence[Event]) -> int:
        answer = self._client.put_log_events(
            logGroupName=self._group,
            logStreamName=self._stream,
            logEvents=[{"timestamp": event.at_ms, "message": event.text} for event in events],
        )
        return _count_refused(answer.get("rejectedLogEventsInfo") or {}, len(events))

    def _create(self) -> None:
        there = self._client.exceptions.ResourceAlreadyExistsException
        for create, names in (
            (self._client.create_log_group, {"logGroupName": self._group}),
            (
                self._client.create_log_stream,
                {"logGroupName": self._group, "logStreamName": self._stream},
            ),
        ):
            try:
                create(**names)
            except there:
                continue


def make_boto3_client() -> Any:
    """CloudWatch Logs by the container's role and region. It tries once: who calls tries again."""
    import boto3
    from botocore.config import Config

    limits = Config(
        connect_timeout=CALL_TIMEOUT_S,
        read_timeout=CALL_TIMEOUT_S,
        retries={"total_max_attempts": 1},
    )
    client = boto3.client("logs", config=limits)
    client.meta.events.register("before-call.logs.PutLogEvents", _add_format)
    return client


def name_failure(error: Exception) -> str:
    """The name by which failures are told apart: AWS's code if there is one, else the type."""
    return str(_read_response(error).get("Error", {}).get("Code") or type(error).__name__)


def is_passing(error: Exception) -> bool:
    """Whether another try may go well: want of the network, or of AWS's own."""
    response = _read_response(error)
    if not response or response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
        return True
    return any(word in name_failure(error).lower() for word in _PASSING)


def is_refusal(error: Exception) -> bool:
    """Whether it is these events that CloudWatch does not take, now or ever."""
    return name_failure(error) in ("InvalidParameterException", "InvalidParameterValue")


def _add_format(params: Any, **_: Any) -> None:
    name, value = _FORMAT_HEADER
    params["headers"][name] = value


def _read_response(error: Exception) -> Any:
    response = getattr(error, "response", None)
    return response if isinstance(response, dict) else {}


def _count_refused(info: dict[str, int], count: int) -> int:
    """Of events in order of time: the first so many are too old, the last from one on too new.

    By the API's reference an end is exclusive, a start inclusive.
    """
    too_old = max(info.get("tooOldLogEventEndIndex", 0), info.get("expiredLogEventEndIndex", 0))
    too_new = info.get("tooNewLogEventStartIndex", count)
    return min(count, max(0, too_old) + max(0, count - too_new))
