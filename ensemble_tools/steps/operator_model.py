"""Does what an operator of Merlin's graph does that has no model of its own.

Generated beside the models of an archive. Needs numpy alone. A column is one tensor, or two where
its rows are lists of their own lengths: values and offsets.
"""

import numpy as np
import triton_python_backend_utils as pb_utils

#: Rows that are repeated for each item grow with the square of a request: so many bytes are made.
MOST_UNROLLED = 256 * 1024 * 1024


class Refused(Exception):
    """The caller's numbers do not fit the operator."""


class TritonPythonModel:
    """One answer for each request: the columns that WRITES names."""

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensors = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
        columns = {column: [tensors[name] for name in names] for column, names in READS.items()}
        try:
            for column, arrays in columns.items():
                check_offsets(column, *arrays)
            with np.errstate(all="ignore"):  # as in Merlin's executor, which warns in its log
                outputs = DOES[KIND](columns)
        except Refused as error:
            return pb_utils.InferenceResponse(error=callers_fault(f"{OPERATOR}: {error}"))
        return pb_utils.InferenceResponse(
            [pb_utils.Tensor(name, np.ascontiguousarray(outputs[name])) for name in WRITES]
        )


def callers_fault(message):
    """Triton's error for it: 400. Triton 2.36 has no codes and answers 400 to all of them."""
    code = getattr(pb_utils.TritonError, "INVALID_ARG", None)
    return pb_utils.TritonError(message, *([] if code is None else [code]))


def check_offsets(column, values, offsets=None):
    """Raises Refused where they are not the rows of the values, as Merlin's TensorColumn does."""
    if offsets is None:
        return
    if not len(offsets) or offsets[-1] != len(values) or np.any(offsets[1:] < offsets[:-1]):
        raise Refused(
            f"the offsets of column {column!r} are not those of its {len(values)} values; they are "
            f"expected to ascend to {len(values)}"
        )


def unroll(columns):
    """Each row as often as the item column, the first that is read, has rows."""
    item = next(iter(READS))
    times = rows(*columns[item])
    size = times * sum(columns[column][0].nbytes for column in WRITES.values())
    if size > MOST_UNROLLED:
        raise Refused(
            f"{size} bytes would be made of the columns {', '.join(WRITES.values())} for {times} "
            f"items; {MOST_UNROLLED} are made: ask for fewer users or items at a time"
        )
    return {
        name: np.repeat(whole(column, *columns[column]), times, axis=0)
        for name, column in WRITES.items()
    }


def rows(values, offsets=None):
    return len(values) if offsets is None else len(offsets) - 1


def whole(column, values, offsets=None):
    """The column as one array, whose rows must be of one length."""
    if offsets is None:
        return values
    lengths = np.diff(offsets)
    if len(lengths) and (
        lengths.min() != lengths.max() or lengths[0] * len(lengths) != len(values)
    ):
        raise Refused(
            f"the lists of column {column!r} have {lengths.min()} to {lengths.max()} elements; "
            "lists of one length are expected"
        )
    length = int(lengths[0]) if len(lengths) else 0
    return values.reshape(len(lengths), length, *values.shape[1:])


def sample(columns):
    """Ids without those drawn before, each draw by the softmax of the scores; the first topk.

    Who divides independent exponential numbers by weights and sorts them has drawn by the weights
    without replacement (Efraimidis and Spirakis, Information Processing Letters 97, 2006).
    """
    ids, scores = (columns[column][0].reshape(-1) for column in WRITES.values())
    if len(ids) != len(scores):
        raise Refused(
            f"it has {len(ids)} ids and {len(scores)} scores; one score an id is expected"
        )
    weights = np.exp(SETTINGS["temperature"] * scores) / np.sum(scores)
    waits = -np.log(np.random.uniform(0, 1, size=len(ids))) / weights
    first = np.argsort(waits)[: SETTINGS["topk"]]
    return {
        "ordered_ids": ids[first].reshape(1, -1),
        "ordered_scores": scores[first].reshape(1, -1),
    }


def filter_out(columns):
    """Values that the other column has not."""
    (candidates,) = (columns[column][0] for column in WRITES.values())
    without = columns[SETTINGS["without"]][0]
    return {"filtered_ids": candidates[~np.isin(candidates, without)]}


DOES = {"unroll": unroll, "sample": sample, "filter": filter_out}

# --- what this model does

KIND = ""
OPERATOR = ""
READS = {}
WRITES = {}
SETTINGS = {}
