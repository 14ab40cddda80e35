"""Why a verification could not be carried out. Each message is one sentence.

VerificationError
├── RequestsUnusable   the file or capture cannot be read, or holds no request of the v2 protocol
├── CountsUnusable     no container answers with counts of columns, or the file has none
├── NothingToAsk       no requests can be generated for this executor
├── FormUnfit          a request or its answer needs the binary form
├── NothingDeclared    a config without inputs
├── Decoupled          a model that answers in pieces
├── TooManyValues      a request that no container would take
├── RequestsUnfit      no request of the file has the inputs that an archive declares
├── NoAnswer           an archive that is compared hangs
├── MerlinMissing      the models' Python is the one that has numpy and torch alone
├── FormUnusable       one of the two forms cannot be published or loaded
└── TritonLost         tritonserver did not start, or died
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


class VerificationError(Exception):
    """Nothing can be said about whether the two forms are equal."""


class RequestsUnusable(VerificationError):
    """The file of requests cannot be used: where in it, what was found, what was expected."""

    def __init__(self, path: Path, where: str, found: str, expected: str) -> None:
        location = f"{path}: {where}" if where else f"{path}"
        super().__init__(f"{location}: {found}; expected {expected}")


class CountsUnusable(VerificationError):
    """Counts of columns cannot be read: where, what was found, what was expected."""

    def __init__(self, source: str, found: str, expected: str) -> None:
        super().__init__(f"{source}: {found}" + (f"; expected {expected}" if expected else ""))


class NothingToAsk(VerificationError):
    """Inputs of data types whose values nobody here knows how to make."""

    def __init__(self, config: Path, inputs: Iterable[str]) -> None:
        super().__init__(
            f"{config}: no requests can be generated for the data types of its inputs "
            f"{', '.join(inputs)}; give requests of your own (verify --requests FILE)"
        )


class FormUnfit(VerificationError):
    """JSON carries no numbers of 16 bits."""

    def __init__(self, config: Path, tensor: str, data_type: str) -> None:
        super().__init__(
            f"{config}: the tensor {tensor!r} is of {data_type}, which JSON cannot carry; ask for "
            "the binary form: --binary"
        )


class TooManyValues(VerificationError):
    """Declared sizes, or the rows that were asked for, beyond what any container takes."""

    def __init__(self, config: Path, found: int, most: int) -> None:
        super().__init__(
            f"{config}: a request for it would have {found} values, and at most {most} are made; "
            "ask for fewer --rows, or correct the sizes that it declares"
        )


class NothingDeclared(VerificationError):
    """A config without inputs, which the backend would complete."""

    def __init__(self, config: Path) -> None:
        super().__init__(
            f"{config}: it declares no inputs, of which a request could be made; write them into it"
        )


class Decoupled(VerificationError):
    """A model that answers in pieces is asked in another form."""

    def __init__(self, config: Path) -> None:
        super().__init__(
            f"{config}: the model is decoupled, and is asked with flat JSON, such as "
            '{"text": "one word"}, by generate_stream; see examples/clients/stream.py'
        )


class RequestsUnfit(VerificationError):
    """Every request would be refused: what is wrong with the first one."""

    def __init__(self, requests: Path, title: str, problem: str, who: str, advice: str) -> None:
        super().__init__(
            f"{requests}: no request has the inputs of {who}: {title} {problem}; {advice}"
        )


class NoAnswer(VerificationError):
    """An archive that hangs at a request is not asked again."""

    def __init__(self, who: str, archive: Path, title: str, timeout_s: float) -> None:
        super().__init__(
            f"{who} ({archive}) gave no answer to {title} within {timeout_s:g} s, and nothing is "
            "said of requests that come after it"
        )


class MerlinMissing(VerificationError):
    """Merlin's own answer is asked for, and there is no Merlin."""

    def __init__(self, python: Path) -> None:
        super().__init__(
            f"verify runs Merlin itself, and {python} has none; `make setup` makes .venv-merlin, "
            "which does (it needs Python 3.11), or name another interpreter with --python"
        )


class FormUnusable(VerificationError):
    """Which form, and what was said when it was loaded."""

    def __init__(self, form: str, reason: str) -> None:
        self.form = form
        self.reason = reason
        super().__init__(f"{form} cannot be loaded: {reason}")


class TritonLost(VerificationError):
    """There is no tritonserver to ask; its last words are part of the message."""

    def __init__(self, what: str, last_words: str) -> None:
        ending = f"; its last words: {last_words}" if last_words else ""
        super().__init__(f"{what}{ending}")
