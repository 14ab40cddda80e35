"""tritonserver's words for what is wrong with a request -> ours: which input, which value. No I/O.

Callers' own words stand in its messages, so nothing here takes longer than their length.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches

from serve.errors import shortened
from serve.invoke.wrong_data import Explanation, find_wrong_value
from serve.triton.messages import MANY_ANSWERS

#: Bodies up to here are read again, which takes some ms; most longer ones are translated.
_LONGEST_BODY = 64 * 1024
#: Names in one sentence.
_MOST = 20
#: Of the model's, names that one of a request's is compared with, and characters of that.
_MOST_ALIKE, _LONGEST_NAME = 500, 100

_WRONG_DATA = "Unable to parse 'data': "
_ID, _ID_END, _LONGEST_ID = "[request id: ", "] ", 300
_GOT = re.compile(r"expected \d+ inputs but got \d+ inputs for model '[^']*'\. Got input\(s\) \[")
_MISSING = "], but missing required input(s) "
_NO_OUTPUT = "unexpected inference output '"
_UNKNOWN = re.compile(r"unexpected inference input '")
_OF_MODEL = "' for model '"


def explain_refusal(
    message: str,
    body: Sequence[bytes],
    find_inputs: Callable[[], Mapping[str, bool]],
    streaming: str,
    find_outputs: Callable[[], Collection[str]] = tuple,
) -> Explanation:
    """The sentence for a caller; the message itself where it is clear, or not known here.

    body: the request's, in pieces. find_inputs: the names of the model's and whether a request
    must have them; none where they are not known. streaming: what makes an endpoint answer in
    streams, in words. find_outputs: the names of its outputs, likewise.
    """
    if message.startswith(_WRONG_DATA) and sum(map(len, body)) <= _LONGEST_BODY:
        return find_wrong_value(b"".join(body)) or Explanation(message)
    if message.startswith(MANY_ANSWERS):
        return Explanation(
            "the model is decoupled: it answers in as many pieces as it likes, and an answer here "
            f"is one; {streaming} makes an endpoint that answers in streams"
        )
    rest = _remove_id(message)
    if rest.startswith(_NO_OUTPUT) and (there := find_outputs()):
        meant = _guess(rest.removeprefix(_NO_OUTPUT).rpartition(_OF_MODEL)[0], there)
        return Explanation(f"{message}; expected one of {_list(there)}{meant}")
    return Explanation(_explain_names(message, find_inputs) or message)


def _explain_names(message: str, find_inputs: Callable[[], Mapping[str, bool]]) -> str | None:
    rest = _remove_id(message)
    if got := _GOT.match(rest):
        names, given, _ = rest[got.end() :].rpartition(_MISSING)
        if given:
            return _describe_inputs(names.strip("'").split("','"), find_inputs())
    if unknown := _UNKNOWN.match(rest):
        name, given, _ = rest[unknown.end() :].rpartition(_OF_MODEL)
        if given:
            return _describe_inputs([name], find_inputs(), are_all=False)
    return None


def _remove_id(message: str) -> str:
    """A long id, which may hold anything, is left where it is: the message is then not known."""
    if not message.startswith(_ID):
        return message
    end = message.find(_ID_END, len(_ID), _LONGEST_ID)
    return message[end + len(_ID_END) :] if end >= 0 else message


def _describe_inputs(
    got: Sequence[str], inputs: Mapping[str, bool], *, are_all: bool = True
) -> str | None:
    """got: names of a request's inputs. are_all: whether it has no others."""
    if not inputs:
        return None
    there = {*got}
    unknown = [name for name in got if name and name not in inputs]
    lacking = [name for name, is_required in inputs.items() if is_required and name not in there]
    described = [
        *([f"{_list(unknown)}, which the model has not"] if unknown else []),
        *([f"nothing for {_list(lacking)}"] if lacking and are_all else []),
    ]
    if not described:
        return None
    meant = _guess(unknown[0], inputs) if unknown else ""
    return f"the inputs: found {', and '.join(described)}; expected {_list(inputs)}{meant}"


def _guess(name: str, names: Collection[str]) -> str:
    """What an unknown name was meant to be, if one of the model's is like it."""
    mark = f"; a byte order mark stands in front of {shortened(name)}" * name.startswith("\ufeff")
    known = {each.casefold(): each for each in [*names][:_MOST_ALIKE]}
    plain = name[:_LONGEST_NAME].strip("\ufeff \t\r\n").casefold()
    alike = get_close_matches(plain, known, 1)
    return mark + (f"; did you mean {shortened(known[alike[0]])}?" if alike else "")


def _list(names: Collection[str]) -> str:
    shown = [shortened(name) for name in [*names][:_MOST]]
    return ", ".join(shown) + (", …" if len(names) > _MOST else "")
