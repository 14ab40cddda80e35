"""Which function of a workflow failed, and whose fault that can be, by a model's words. No I/O.

A workflow of which a part is compiled says it in a sentence of its own
(ensemble_tools/workflows/runtime/failures.py):

    the workflow's LambdaOp of 'ts' failed in weekday (etl.py:12): ValueError: no date: 'x'

Merlin's workflow step and its executor send a traceback, of which the same is made here. It does
not have the operator's columns.
"""

from __future__ import annotations

import re

#: How a workflow's words begin: Merlin's step, NVTabular in ours, and the sentence above.
WORKFLOW_FAILED = r"(?:Error: <class '|NVTabular: |the workflow's .{1,1000} failed(?: in|: ))"
#: In front of the traceback's lines, as a list, in the words of Merlin's workflow step.
FORMATTED = ", Traceback: ['"

#: Of what the function raised, in characters.
_LONGEST_WORDS = 400
#: A place as Python writes it, also where the line is a text in a list.
_PLACE = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\\\n]+)')
#: Where merlin-core runs an operator.
_EXECUTOR = ("/merlin/dag/executors.py", "_run_node_transform")
#: The operators of NVTabular's that call functions, by their files.
_CALLING = {"/merlin/dag/ops/udf.py": "LambdaOp", "/nvtabular/ops/filter.py": "Filter"}
#: Installed packages, compiled ones by their sources, Python's own modules, and the code in a
#: TorchScript file.
_INSTALLED = re.compile(
    r"/(?:site|dist)-packages/|\.p(?:yx|xi|xd)$|/lib/python3\.\d+/|<(?:frozen|__array)"
    r"|^code/__torch__"
)
#: Merlin's executor raises it anew with what a model said.
_RAISED_ANEW = r"(?:RuntimeError: )?"
_FAILED = (
    rf"{_RAISED_ANEW}the (?:workflow|graph)'s .{{1,1000}}? failed"
    r"(?: in [^:]{1,200}(?::\d+\))?)?: "
)
#: No request makes a model's code lack a name or a module. Where a function reads code, as
#: ast.literal_eval reads lists, the request may have some that is none.
_NEVER_OF_REQUEST = re.compile(
    rf"(?:{_FAILED})?{_RAISED_ANEW}(?:"
    r"(?:ModuleNotFound|Import|Name|UnboundLocal)Error(?::|$)"
    r"|AttributeError: (?:partially initialized )?module '"
    r"|(?:Syntax|Indentation|Tab)Error: (?!.*\(<(?:unknown|string)>, line \d+\)$))"
)
#: A workflow's function is given the request's columns alone: these are about values in them.
_OF_COLUMNS = re.compile(
    rf"{_FAILED}(?:(?:Value|ZeroDivision|Overflow|FloatingPoint|Index|Syntax|Parser|IntCastingNaN"
    r"|Unicode\w*)Error(?::|$)|OutOfBounds\w+:)"
)


def find_failed_function(message: str) -> str:
    """The beginning of the sentence above, where a traceback of Merlin's says it; else empty."""
    _, formatted, listed = message.partition(FORMATTED)
    frames = _PLACE.findall(listed if formatted else message)
    file, function = _EXECUTOR
    ran = [at for at, each in enumerate(frames) if each[0].endswith(file) and each[2] == function]
    below = frames[ran[-1] + 1 :] if ran else []
    yours = [frame for frame in below if not _INSTALLED.search(frame[0])]
    if not yours:
        return ""
    file, line, function = yours[-1]
    calling = (
        operator
        for path, _, _ in below
        for name, operator in _CALLING.items()
        if path.endswith(name)
    )
    whose = "workflow" if formatted else "graph"
    return (
        f"the {whose}'s {next(calling, 'operator')} failed in {function} "
        f"({file.rpartition('/')[2]}:{line}): "
    )


def in_function(place: str, cause: str) -> str:
    """The sentence, of bounded length; the cause alone where there is no place."""
    if not place:
        return re.sub(rf"^{_RAISED_ANEW}(?=the workflow's )", "", cause)
    raised = re.sub(rf"^{_RAISED_ANEW}(?=\w+Error: )", "", cause)
    cut = "…" if len(raised) > _LONGEST_WORDS else ""
    return f"{place}{raised[:_LONGEST_WORDS]}{cut}"


def is_never_the_callers(cause: str) -> bool:
    """Whether a failure's cause is one that no request can have brought about."""
    return _NEVER_OF_REQUEST.match(cause) is not None


def speaks_of_columns(cause: str) -> bool:
    """Whether a function failed, by the class of its exception, at values that it was given."""
    return _OF_COLUMNS.match(cause) is not None
