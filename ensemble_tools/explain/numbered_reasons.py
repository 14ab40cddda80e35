"""The reasons as they are numbered in a picture: at the boxes, and in the words below."""

from __future__ import annotations

from ensemble_tools.explain.picture import Picture, Reason

#: What is shown of longer lists: what each reason is about, numbers at one box.
_SUBJECTS, _BADGES = 3, 4


def badge_numbers(picture: Picture) -> dict[str, tuple[int, ...]]:
    """The numbers of the reasons at each box, the last on the left."""
    numbers_at: dict[str, list[int]] = {}
    for number, reason in number_reasons(picture):
        if number is not None:
            for node in reason.nodes:
                numbers_at.setdefault(node, []).append(number)
    return {node: tuple(reversed(numbers[:_BADGES])) for node, numbers in numbers_at.items()}


def number_reasons(picture: Picture) -> list[tuple[int | None, Reason]]:
    """Reasons for the whole first and without a number, then those for places; like ones joined."""
    joined: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for reason in picture.reasons:
        subject, colon, cause = reason.text.partition(": ")
        key = (cause if colon else reason.text, reason.nodes)
        joined.setdefault(key, []).append(subject if colon else "")
    reasons = [
        Reason(f"{_join_subjects(subjects)}{cause}", nodes)
        for (cause, nodes), subjects in joined.items()
    ]
    overall: list[tuple[int | None, Reason]] = [
        (None, reason) for reason in reasons if not reason.nodes
    ]
    return overall + list(enumerate((reason for reason in reasons if reason.nodes), start=1))


def _join_subjects(subjects: list[str]) -> str:
    named = "; ".join(subjects[:_SUBJECTS])
    rest = f" and {len(subjects) - _SUBJECTS} more" if len(subjects) > _SUBJECTS else ""
    return f"{named}{rest}: " if named else ""
