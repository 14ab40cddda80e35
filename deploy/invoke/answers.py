"""An answer in words: JSON as it is, or indented; tensors by name, type and shape. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator

from deploy.invoke.bodies import find_header_size
from deploy.quantities import show_bytes


def write_answer(content: bytes, content_type: str, *, pretty: bool) -> str:
    """For a terminal; what is no text is told by its size."""
    size = find_header_size(content_type)
    if size is not None:
        return "\n".join(_describe_tensors(content, size))
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"{show_bytes(len(content))} of {content_type}; --output FILE keeps them"
    return _indented(text) if pretty else text


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _describe_tensors(content: bytes, size: int) -> Iterator[str]:
    try:
        outputs = json.loads(content[:size])["outputs"]
        for output in outputs:
            shape = ", ".join(map(str, output["shape"]))
            yield f"{output['name']}  {output['datatype']} [{shape}]"
    except (ValueError, KeyError, TypeError) as error:
        yield f"its JSON has no outputs ({error}); --output FILE keeps it"
        return
    yield f"{show_bytes(len(content) - size)} of tensors; --output FILE keeps the answer"
