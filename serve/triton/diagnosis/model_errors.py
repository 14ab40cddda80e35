"""What a model raised, in one sentence for its caller: no code, no traceback and no paths. No I/O.

A workflow of which a part is compiled says which of its functions failed in a sentence of its own
(ensemble_tools/workflows/runtime/failures.py):

    the workflow's LambdaOp of 'ts' failed in weekday (etl.py:12): ValueError: no date: 'x'

Merlin's workflow step and its executor send a traceback, of which the same is made here. It does
not have the operator's columns.
"""

from __future__ import annotations

import re

#: The python backend wraps what a model raised; 2.36 answers it with 400.
RAISED = r"Failed to process the request\(s\) for model (?:instance )?'[^']*', message: "
#: How a workflow's words begin: Merlin's step, NVTabular in ours, and the sentence above.
WORKFLOW_FAILED = r"(?:Error: <class '|NVTabular: |the workflow's .{1,1000} failed(?: in|: ))"
#: In front of the traceback's lines, as a list, in the words of Merlin's workflow step.
_FORMATTED = ", Traceback: ['"

#: What the core puts in front where the request has no id.
_NO_ID = "[request id: <id_unknown>] "
#: A region of the python backend in /dev/shm: container/tritonserver/command.py's prefix and what
#: the backend makes of it, in 2.36 a number, later a UUID.
_REGION = re.compile(r"/?serve_[0-9]+_[0-9a-f]+_[0-9A-Za-z-]+")
_TRACEBACK = "\n\nAt:"
#: What stands in front of what a model raised: which model, of which ensemble.
_WRAPPER = re.compile(rf"in ensemble '[^']*', |{RAISED}")
#: Merlin's workflow step: "Error: <class 'KeyError'> - 'x'".
_MERLINS = re.compile(r"Error: <class '(?:[\w.]*\.)?(\w+)'> - ")
#: A message with one of these shows lines of code.
_WITH_CODE = re.compile(
    r'Traceback|^\s*File "|~~~|<--- HERE|\(most recent call|Detected at node|Exception raised from',
    re.MULTILINE,
)
#: How Python and TorchScript write an exception, the last line of theirs.
_EXCEPTION = re.compile(
    r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: |$)|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+: "
)
#: Lines that say where, and not why.
_LINES_OF_FRAMES = re.compile(
    r"Node:|\[\[|frame #|Detected at|Exception raised from|\^|During handling|\+-"
    r"|The above exception|.*(?:~~~|<--- HERE|Traceback|File \"|\(most recent call)"
)
#: A frame of Python's and TorchScript's, which write code below it, indented.
_INDENTED_FRAME = re.compile(r'\s+File "')
#: What stands in front of the lines of an ExceptionGroup.
_MARGIN = re.compile(r" +\| ?")
_OF_VALUES = re.compile(
    r"out of (?:range|bounds)|\b(?:index|indices|shapes?|sizes?|dimensions?)\b|is not in \["
    r"|could not convert|invalid literal",
    re.IGNORECASE,
)
_FULL_PATH = re.compile(r"(?<![\w.:/])/(?:[^\s/'\":,;()]+/)+(?=[^\s/'\":,;()])")
_UNSAID = "it did not say why in its last words; see the log"
#: How compiled workflows and generated steps begin to refuse a request. Merlin's executor, and a
#: model that stands in front of an ensemble, pass their words on with another error around them.
_REFUSED = re.compile(
    r"(?:\w+(?:Error|Exception): )?"
    r"(?P<said>(?:refused by design: |the request has no rows: |(?:\w+: )?column ').*)",
    re.DOTALL,
)
#: Of what the function raised, in characters.
_LONGEST_WORDS = 400
#: A frame as Python writes it, also where the line is a text in a list.
_FRAME = re.compile(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\\\n]+)')
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


def find_failure_cause(message: str, *, cut: bool = False) -> str:
    """Why a model failed, in one sentence for its caller: no code, no traceback and no paths.

    cut: the message had more words, and the reason stands in the last ones.
    """
    reason = message.replace(_NO_ID, "")
    while wrapped := _WRAPPER.match(reason):
        reason = reason[wrapped.end() :]
    cause = _FULL_PATH.sub("…/", remove_code(_MERLINS.sub(r"\1: ", reason), cut=cut))
    return _put_in_function(_find_failed_function(reason), cause)


def remove_code(message: str, *, cut: bool = False) -> str:
    """A message on one line without code, tracebacks and regions; cut: find_failure_cause's.

    Models write some that are told as no failure of theirs: a wrong request, a lack of memory.
    """
    reason = remove_regions(message).replace(_NO_ID, "")
    reason = reason.partition(_TRACEBACK)[0].partition(_FORMATTED)[0]
    lines = [line.rstrip() for line in reason.rstrip("; \n").splitlines() if line.strip()]
    if _WITH_CODE.search(reason):
        reason = _find_last_reason([_MARGIN.sub("", line, 1) for line in lines], cut=cut)
        return _FULL_PATH.sub("…/", reason)
    return " ".join(map(str.strip, lines))


def remove_regions(message: str) -> str:
    """A message without the names of shared memory regions.

    Who knows one could have tritonserver map it and so read and write a model's memory
    (CVE-2025-23319, -23320, -23334): such names are nobody's business outside the container.
    """
    return _REGION.sub("(a shared memory region)", message)


def make_one_sentence(message: str) -> str:
    """A message on one line, without a traceback's frames, regions' names and an id of nobody's."""
    message = remove_regions(message).replace(_NO_ID, "")
    reason = message.partition(_TRACEBACK)[0].partition(_FORMATTED)[0].rstrip("; \n")
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    if any("Traceback (most recent call last)" in line for line in lines):
        lines = lines[-1:]
    return " ".join(lines) or " ".join(message.split())


def refused_by_step(cause: str) -> str | None:
    """The words of a step of ours, if a model failed for them; None for anybody else's words."""
    refused = _REFUSED.fullmatch(cause)
    return refused["said"] if refused else None


def speaks_of_values(cause: str) -> bool:
    """Whether a failure's cause speaks of what a request's values and shapes decide.

    It does, by its words; and where a workflow's function failed, by the class of its exception.
    """
    return _OF_VALUES.search(cause) is not None or _OF_COLUMNS.match(cause) is not None


def is_never_the_callers(cause: str) -> bool:
    """Whether a failure's cause is one that no request can have brought about."""
    return _NEVER_OF_REQUEST.match(cause) is not None


def _find_failed_function(message: str) -> str:
    """The beginning of the sentence above, where a traceback of Merlin's says it; else empty."""
    _, formatted, listed = message.partition(_FORMATTED)
    frames = _FRAME.findall(listed if formatted else message)
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


def _put_in_function(failed_in: str, cause: str) -> str:
    """The sentence, of bounded length; the cause alone where none is known."""
    if not failed_in:
        return re.sub(rf"^{_RAISED_ANEW}(?=the workflow's )", "", cause)
    raised = re.sub(rf"^{_RAISED_ANEW}(?=\w+Error: )", "", cause)
    cut = "…" if len(raised) > _LONGEST_WORDS else ""
    return f"{failed_in}{raised[:_LONGEST_WORDS]}{cut}"


def _find_last_reason(lines: list[str], *, cut: bool) -> str:
    """The line behind a traceback's last frame; else the last exception, or the last line.

    lines: with the indents by which code is known.
    """
    last = max((at for at, line in enumerate(lines) if _INDENTED_FRAME.match(line)), default=-1)
    reasons = [(at, line) for at, line in enumerate(lines) if _is_reason(line, cut=cut)]
    behind = [line for at, line in reasons if 0 <= last < at]
    exceptions = [line for _, line in reasons if _EXCEPTION.match(line)]
    if behind:
        return behind[0]
    return (exceptions or [line for _, line in reasons] or [_UNSAID])[-1]


def _is_reason(line: str, *, cut: bool) -> bool:
    """Whether it says why. Of a message that was cut an exception's line alone does for certain."""
    if line[0].isspace() or _LINES_OF_FRAMES.match(line):
        return False
    return not cut or _EXCEPTION.match(line) is not None
