"""Messages of protobuf's parser in our words: without positions, with what may have been meant."""

from __future__ import annotations

import re
from difflib import get_close_matches

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from ensemble_tools.archive.backend_names import ALIKE
from ensemble_tools.errors import shortened

#: The parser's messages quote the line, which may be all of the file.
_LONGEST_REASON = 300
NO_FIELD = re.compile(r'Message type "(?P<message>[^"]+)" has no field named "(?P<field>[^"]+)"')
#: Values of an enumeration that a message names all.
_FEW = 8
_NO_VALUE = re.compile(r'Enum type "([^"]+)" has no value named (\w+)')


def describe_error(error: text_format.ParseError) -> str:
    """The parser's message without the position that it puts in front."""
    reason = re.sub(r"^\d+:\d+ : ", "", str(error)[:_LONGEST_REASON])
    reason = reason.replace("\n", " ").strip().rstrip(".")
    parts = _NO_VALUE.search(reason)
    return f"{reason}{_suggest_value(*parts.groups())}" if parts else reason


def _suggest_value(enum: str, value: str) -> str:
    """The value that may have been meant, or some of those there are."""
    try:
        known = [it.name for it in pb.DESCRIPTOR.pool.FindEnumTypeByName(enum).values]
    except KeyError:
        return ""
    close = get_close_matches(value, known, 1, ALIKE)
    if close and len(known) > _FEW:
        return f"; did you mean {close[0]}?"
    return f" (there are {', '.join(known)})"


def describe_unknown_field(error: text_format.ParseError) -> str:
    """The sentence about a field that protobuf does not know, with its line."""
    reason = describe_error(error)
    line = f"line {error.GetLine()}: "
    return f"{line}{name_unknown_field(reason) or shortened(reason)}"


def name_unknown_field(reason: str) -> str:
    """Of protobuf's words, Python's or C++'s: which field it does not know, and which one may have
    been meant; empty for other words."""
    parts = NO_FIELD.search(reason)
    if parts is None:
        return ""
    close = get_close_matches(parts["field"], _list_fields(parts["message"]), 1, ALIKE)
    hint = f"; did you mean {close[0]}?" if close and close[0] != parts["field"] else ""
    return f'no field named "{shortened(parts["field"])}"{hint}'


def _list_fields(message: str) -> list[str]:
    """The names that a message of the config's schema has; none for one that is not known."""
    try:
        descriptor = pb.DESCRIPTOR.pool.FindMessageTypeByName(message)
    except KeyError:
        return []
    return [field.name for field in descriptor.fields]
