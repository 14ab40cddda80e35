"""PURE. A record as one line of text: time, level, sentence, fields.

    2024-05-01T12:00:00.123Z INFO model loaded model_name=a took_s=1.9

Any code logs by the standard library alone: `log.info("model loaded", extra={"took_s": 1.9})`;
every `extra` becomes a field, and so does what `serve.context` has bound.
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


class LineFormatter(logging.Formatter):
    """A record as exactly one line of printable characters."""

    def format(self, record: logging.LogRecord) -> str:
        """Never raises for any value: what cannot be shown is shown by its type."""
        told = dict(fields(record))
        why = told.pop(_WHY, "")
        words = _escape(f"{sentence(record)}: {text(why)}" if why else sentence(record))
        shown = [f"{name}={_value(value)}" for name, value in told.items()]
        return " ".join([stamp(record.created), record.levelname, words, *shown])


def _value(value: object) -> str:
    words = text(value)
    if _PLAIN.fullmatch(words):
        return _escape(words)
    return _escape(json.dumps(words, ensure_ascii=False))


def _escape(words: str) -> str:
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), words)
