# numpy: arrays alone
"""Brings columns into the form and data type that the next model wants, as Merlin's executor does.

Generated beside the models of an archive, since Triton's ensembles neither cast nor reshape. Needs
numpy alone. CONVERSIONS, at the end, says what is done to which tensors and why.
"""

import numpy as np
import triton_python_backend_utils as pb_utils


class Refused(Exception):
    """The caller's numbers do not fit the model."""


class TritonPythonModel:
    """One answer for each request: the tensors that CONVERSIONS writes."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        try:
            convert(CONVERSIONS, tensors)
        except Refused as error:
            return pb_utils.InferenceResponse(error=callers_fault(error))
        names = [name for conversion in CONVERSIONS for name in conversion["writes"]]
        return pb_utils.InferenceResponse([tensor(name, tensors[name]) for name in names])


def tensor(name, array):
    return pb_utils.Tensor(name, np.ascontiguousarray(array))


# --- conversions


def convert(conversions, tensors):
    """Add what the conversions write to the tensors; raises Refused, naming the column."""
    for conversion in conversions:
        arrays = [tensors[name] for name in conversion["reads"]]
        try:
            with np.errstate(all="ignore"):  # a number too large for a type becomes what it becomes
                converted = KINDS[conversion["kind"]](arrays, conversion)
        except Exception as error:
            columns = ", ".join(repr(column) for column in conversion["columns"][:10])
            raise Refused(f"column {columns}: {error}") from error
        tensors.update(zip(conversion["writes"], converted, strict=True))


def callers_fault(error):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(str(error), *([] if code is None else [code]))


def cast(arrays, conversion):
    """Values as the wanted type; the offsets of a ragged column stay what they are."""
    values, *offsets = arrays
    return [astype(values, conversion), *(array.astype("int32") for array in offsets)]


def dense(arrays, conversion):
    """A ragged column, whose rows must all be of the wanted length, as one tensor."""
    values, offsets = arrays
    shape = conversion["shape"][1:]
    lengths = np.diff(offsets)
    if not len(lengths):
        raise ValueError("it has no rows; at least one is expected")
    if offsets[0] != 0 or offsets[-1] != len(values) or lengths.min() < 0:
        raise ValueError(
            f"its offsets go from {offsets[0]} to {offsets[-1]} for {len(values)} values; they "
            "are expected to rise from 0 to the number of values"
        )
    if lengths.min() != lengths.max() or (shape and lengths[0] != shape[0]):
        lengths_seen = f"{lengths.min()} to {lengths.max()} elements"
        expected = f"{shape[0]} elements" if shape else "one length"
        raise ValueError(f"its rows have {lengths_seen}; rows of {expected} are expected")
    return [astype(values.reshape(-1, *shape), conversion)]


def ragged(arrays, conversion):
    """One tensor as a ragged column, each row as long as the others."""
    (array,) = arrays
    if array.ndim < 2:
        raise ValueError(f"its shape is {list(array.shape)}; lists are expected")
    offsets = np.arange(array.shape[0] + 1, dtype="int64") * array.shape[1]
    values = array.reshape(-1, *array.shape[2:])
    return [astype(values, conversion), offsets.astype("int32")]


def astype(values, conversion):
    return values if conversion["dtype"] is None else values.astype(conversion["dtype"])


KINDS = {"cast": cast, "dense": dense, "ragged": ragged}

# --- what this model does

CONVERSIONS = ()
