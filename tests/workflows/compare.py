"""Runs compiled cases with the models' environment, and compares them with NVTabular's answers.

    .venv-merlin/bin/python -m tests.workflows.compare DIR...

Directories come as arguments or as lines on stdin. Prints one line of JSON a case: how many
requests had which outcome, and each difference in words.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ensemble_tools.workflows.runtime.columns import RefusedByDesign, RequestError
from ensemble_tools.workflows.runtime.program import LoadedProgram
from tests.workflows.exchange import (
    ANSWERS,
    COMPILED,
    REQUESTS,
    Answer,
    Tensors,
    read_answers,
    read_requests,
)
from tests.workflows.partly import PartlyCompiled

EQUAL, BOTH_REFUSE, WE_REFUSE = "equal", "both refuse", "we refuse"
#: Of a partly compiled workflow: NVTabular answered the request whole, and why.
LEFT_WHOLE = "left to NVTabular"
_NAMES = re.compile(r"'[^']*'")
WRONG, CRASH = "wrong", "crash"


def compare_case(case: Path) -> dict[str, Any]:
    """Counts of requests by outcome, and what is bad."""
    counts: Counter[str] = Counter()
    bad: list[str] = []
    try:
        program = _program(case)
    except Exception as error:
        bad.append(f"{CRASH}: it does not load: {type(error).__name__}: {error}")
        return {"case": str(case), "counts": counts, "bad": bad}
    requests, answers = read_requests(case / REQUESTS), read_answers(case / ANSWERS)
    made = []
    for number, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        made.append(_made(program, request))
        outcome, detail = _judged(request, made[number], answer)
        why = program.left_whole if isinstance(program, PartlyCompiled) else ""
        whole = outcome == EQUAL and why
        counts[f"{LEFT_WHOLE}: {_NAMES.sub('X', why)}" if whole else outcome] += 1
        if outcome in (WRONG, CRASH):
            bad.append(f"request {number}: {outcome}: {detail}")
    bad += _remembered(program, requests, made)
    return {"case": str(case), "counts": counts, "bad": bad}


def _program(case: Path) -> LoadedProgram | PartlyCompiled:
    """The program; with NVTabular beside it where it keeps operators."""
    steps = json.loads((case / COMPILED / "program.json").read_text())["steps"]
    if any(step["operation"] == "kept" for step in steps):
        return PartlyCompiled(case)
    return LoadedProgram(case / COMPILED)


#: An answer, or why there is none.
Made = Tensors | Exception


def _made(program: LoadedProgram | PartlyCompiled, request: Tensors) -> Made:
    if isinstance(program, LoadedProgram):
        for array in request.values():
            array.flags.writeable = False  # Triton's own memory
    try:
        return program.run(request)
    except Exception as error:
        return error


def _judged(request: Tensors, made: Made, answer: Answer) -> tuple[str, str]:
    if isinstance(made, RequestError):
        if isinstance(answer, str):
            return BOTH_REFUSE, ""
        for words, holds in REFUSALS.items():
            if isinstance(made, RefusedByDesign) and words in str(made) and holds(request, answer):
                return f"{WE_REFUSE}: {words}", ""
        return WRONG, f"refused ({made}), and NVTabular answers"
    if isinstance(made, Exception):
        return CRASH, f"{type(made).__name__}: {made}"
    if isinstance(answer, str):
        return WRONG, f"answered, and NVTabular refuses: {answer[:300]}"
    difference = difference_of(answer, made)
    return (WRONG, difference) if difference else (EQUAL, "")


def _remembered(
    program: LoadedProgram | PartlyCompiled, requests: list[Tensors], made: list[Made]
) -> list[str]:
    """Requests that are answered otherwise when they come in another order."""
    found = []
    for number in reversed(range(len(requests))):
        first, again = made[number], _made(program, requests[number])
        if isinstance(first, Exception) or isinstance(again, Exception):
            same = type(first) is type(again)  # the whole workflow fails in other words than a part
        else:
            same = not difference_of(first, again)
        if not same:
            found.append(f"request {number}: {WRONG}: answered otherwise the second time")
    return found


def _rows(request: Tensors) -> set[int]:
    return {
        len(array) - name.endswith("__offsets")
        for name, array in request.items()
        if not name.endswith("__values")
    }


def _uneven(request: Tensors, _: Tensors) -> bool:
    return len(_rows(request)) > 1


def _none_left(request: Tensors, answer: Tensors) -> bool:
    """No rows are answered; or those of the request, untransformed."""
    return _rows(answer) == {0} or _rows(answer) <= _rows(request)


#: What a compiled workflow refuses although NVTabular answers, by the words of its message, and
#: what the request, or the answer, is then like. Of an operator that leaves no rows nothing is put
#: out, and the next one gets the request's own columns in its place; columns of several lengths are
#: filled up with NaN, which makes other numbers of whole ones.
REFUSALS: Mapping[str, Callable[[Tensors, Tensors], bool]] = {
    "columns are of one length": _uneven,
    "Dropna leaves none": _none_left,
    "Groupby leaves none": _none_left,
}


def difference_of(expected: Tensors, found: Tensors) -> str:
    """The first difference between two answers, in words; empty for none."""
    if expected.keys() != found.keys():
        return f"{sorted(found)} for {sorted(expected)}"
    for name, array in expected.items():
        difference = _difference(array, found[name])
        if difference:
            return f"{name}: {difference}"
    return ""


def _difference(expected: Any, found: Any) -> str:
    kinds = f"{expected.dtype}{expected.shape}, found {found.dtype}{found.shape}"
    if expected.dtype != found.dtype or expected.shape != found.shape:
        return f"expected {kinds}"
    places = [
        place
        for place, (one, other) in enumerate(zip(expected.flat, found.flat, strict=True))
        if _bits(one) != _bits(other)
    ]
    few = ", ".join(
        f"{expected.flat[place]!r} and not {found.flat[place]!r}" for place in places[:5]
    )
    return f"expected {kinds}; at {places[:5]}: {few}" if places else ""


def _bits(value: Any) -> bytes:
    """Every NaN alike: which of them an operation makes is the processor's affair."""
    if isinstance(value, bytes | str):
        return value if isinstance(value, bytes) else value.encode()
    return b"nan" if value != value else bytes(value.tobytes())


def main(arguments: list[str]) -> int:
    """Compares each case."""
    for text in arguments or sys.stdin:
        print(json.dumps(compare_case(Path(text.strip()))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
