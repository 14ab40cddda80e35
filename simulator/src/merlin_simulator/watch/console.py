"""Events as lines for whoever started the simulator in a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from merlin_simulator.watch.events import Event

_MIB = 1024**2
#: Kinds of which one comes with each request: told when asked for.
_PER_REQUEST = frozenset({"invoked"})


def make_console(write: Callable[[str], None], verbose: bool) -> Callable[[Event], None]:
    """A listener that writes one line per event."""
    return partial(tell_event, write, verbose, "")


def tell_event(
    write: Callable[[str], None], verbose: bool, endpoint_name: str, event: Event
) -> None:
    """One event as a line, which begins with the endpoint's name where it is given."""
    if verbose or event.kind not in _PER_REQUEST:
        write(f"{endpoint_name} {format_event(event)}".strip())


def format_event(event: Event) -> str:
    """Time, instance, what happened, in words."""
    fields = dict(event.fields)
    words = [
        time.strftime("%H:%M:%S", time.localtime(event.at)),
        f"{event.instance or '-':<12}",
        event.kind.replace("_", " "),
    ]
    if endpoint := fields.get("endpoint"):
        words += [str(endpoint), str(fields.get("status", ""))]
    if alarm := fields.get("alarm"):
        words += [str(alarm), str(fields.get("state", ""))]
    words += [str(fields[name]) for name in ("target_model", "image") if fields.get(name)]
    if (reason := fields.get("reason")) is not None:
        words.append(f"({reason})")
    if isinstance(seconds := fields.get("seconds"), float):
        words.append(f"{seconds:.3f} s")
    for name in ("bytes", "memory"):
        if isinstance(size := fields.get(name), int):
            words.append(f"{size / _MIB:.1f} MiB")
    if fields.get("cold"):
        words.append("cold")
    words += [str(fields[name]) for name in ("error", "message") if fields.get(name)]
    return " ".join(words)
