"""A record as one line of text: time, level, sentence, fields. No I/O.

    2024-05-01T12:00:00.123Z INFO model loaded model_name=a took_s=1.9

Any code logs by the standard library alone: `log.info("model loaded", extra={"took_s": 1.9})`;
every `extra` becomes a field, and so does what `serve.log_context` has bound.

What tritonserver and the models print has a mark in front of each line, which none of ours has:

    | W1123 05:22:23.481513 28927 model.py:38] words of a model's
"""

from __future__ import annotations

import json
import logging
import re

from container.logs.values import fields, sentence, stamp, text

#: Why something happened: it stands behind the message.
_WHY = "sentence"
_PLAIN = re.compile(r'[^\s"=\\\x00-\x1f\x7f-\x9f\u2028\u2029]+')
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
#: In front of each line that is not ours; ours begin with a year.
MARK = "| "
#: What moves a cursor, or ends a line for some reader of the log; tabs do neither.
_MOVING = {
    code: chr(code).encode("unicode_escape").decode()
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
    if chr(code) not in "\t\n"
}
_PRINTABLE = bytes(range(0x20, 0x7F)) + b"\t\n"


class LineFormatter(logging.Formatter):
    """A record as exactly one line of printable characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Never raises for any value: what cannot be shown is shown by its type."""
        values = dict(fields(record))
        why = values.pop(_WHY, "")
        message = _escape(f"{sentence(record)}: {text(why)}" if why else sentence(record))
        shown = [f"{name}={_format_value(value)}" for name, value in values.items()]
        return " ".join([stamp(record.created), record.levelname, message, *shown])


def is_plain(data: bytes) -> bool:
    """Whether nothing of it is to be escaped, as far as is seen at once."""
    return not data.translate(None, _PRINTABLE)


def mark_lines(data: bytes) -> bytes:
    """Whole lines of somebody else's, each with the mark; what could leave its line is escaped."""
    if not is_plain(data):
        output = data.decode(errors="backslashreplace").replace("\r\n", "\n")
        data = output.translate(_MOVING).encode()
    mark = MARK.encode()
    return mark + data[:-1].replace(b"\n", b"\n" + mark) + b"\n"


def _format_value(value: object) -> str:
    shown = text(value)
    if _PLAIN.fullmatch(shown):
        return _escape(shown)
    return _escape(json.dumps(shown, ensure_ascii=False))


def _escape(raw: str) -> str:
    return _UNSAFE.sub(_escaped, raw)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()
