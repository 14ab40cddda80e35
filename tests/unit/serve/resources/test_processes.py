"""Processes as /proc tells of them."""

from __future__ import annotations

from serve.resources.processes import Process, find_family


def test_an_id_that_is_used_again_makes_no_circle() -> None:
    """/proc is read process by process, and another one may have a parent's id meanwhile."""
    first, second, third = (Process(pid, "S", 0, 1, 0) for pid in (1, 2, 3))
    children = {1: [second], 2: [third, first], 3: [second]}
    assert find_family(first, children) == [first, second, third]
