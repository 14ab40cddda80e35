"""Operations: records, and what is done with them to the columns of a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..columns import Column
from ..lookups import Lookup
from ..records import Parameters

#: The columns that a step reads -> those that it makes; raises RequestError.
Transform = Callable[..., "list[Column]"]


class Operation(Parameters):
    """The literal meaning of one of NVTabular's operators, or of a part of one.

    It does to arrays what NVTabular 23.8 makes pandas 1.5 do to them, in the same order and the
    same types, so that every bit comes out alike.
    """

    #: Of an operation that has nothing to prepare.
    run: Transform

    def prepare(self, tables: Sequence[Lookup]) -> Transform:
        """Done once, when the model is loaded. tables: all of the program's."""
        return self.run
