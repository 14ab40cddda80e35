"""PURE. tritonserver's words for what is wrong with a request -> ours: which input, which value."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from serve.errors import shortened
from serve.invoke.wrong_data import describe_wrong_value

#: Bodies up to here are read again, which takes 2 ms; longer ones get tritonserver's sentence.
_LONGEST_BODY = 256 * 1024

_WRONG_DATA = "Unable to parse 'data': "
_OTHER_INPUTS = re.compile(
    r"(?:\[request id: .*?\] )?expected \d+ inputs but got \d+ inputs for model '[^']*'\. "
    r"Got input\(s\) \[(?P<got>.*)\], but missing required input\(s\) .*",
    re.DOTALL,
)
_UNKNOWN_INPUT = re.compile(
    r"unexpected inference input '(?P<name>.*)' for model '[^']*'", re.DOTALL
)
_DECOUPLED = "support models with decoupled transaction policy"


def explain_refusal(
    message: str,
    said: Sequence[bytes],
    find_inputs: Callable[[], Mapping[str, bool]],
    streaming: str,
) -> str:
    """The sentence for a caller; the message itself where it is clear, or not known here.

    said: the request, in pieces. find_inputs: the names of the model's and whether a request
    must have them; none where they are not known. streaming: what makes an endpoint answer in
    streams, in words.
    """
    if message.startswith(_WRONG_DATA) and sum(map(len, said)) <= _LONGEST_BODY:
        return describe_wrong_value(b"".join(said)) or message
    if others := _OTHER_INPUTS.fullmatch(message):
        got = re.findall(r"'([^']*)'", others["got"])
        return _describe_inputs(got, find_inputs()) or message
    if unknown := _UNKNOWN_INPUT.fullmatch(message):
        return _describe_inputs([unknown["name"]], find_inputs(), missing=False) or message
    if _DECOUPLED in message:
        return (
            "the model is decoupled: it answers in as many pieces as it likes, and an answer here "
            f"is one; {streaming} makes an endpoint that answers in streams"
        )
    return message


def _describe_inputs(
    got: Sequence[str], inputs: Mapping[str, bool], *, missing: bool = True
) -> str | None:
    """got: the names of a request. missing: whether they are all of them."""
    if not inputs:
        return None
    unknown = [name for name in got if name not in inputs]
    lacking = [name for name in inputs if inputs[name] and name not in got] if missing else []
    found = [
        *([f"{_list(unknown)}, which the model has not"] if unknown else []),
        *([f"nothing for {_list(lacking)}"] if lacking else []),
    ]
    if not found:
        return None
    return f"the inputs: found {', and '.join(found)}; expected {_list(inputs)}"


def _list(names: Collection[str]) -> str:
    shown = [shortened(name) for name in [*names][:_MOST]]
    return ", ".join(shown) + (", …" if len(names) > _MOST else "")


#: Names in one sentence.
_MOST = 20
