"""Functions of Triton's triton_python_backend_utils, which stand above this when it is run.

Every string that a Python model reads or writes goes through two of them, one by one. Here
likewise, in a third of the time; whatever is not plainly the same is left to Triton's own. The
third makes objects of all inputs for each name: of 140 that are read so, most of a request's time.
"""

import struct as _struct
import weakref as _weakref

import numpy as _np

_read_length, _write_length = _struct.Struct("<I").unpack_from, _struct.Struct("<I").pack
_serialize, _deserialize = serialize_byte_tensor, deserialize_bytes_tensor  # noqa: F821
_get_input = get_input_tensor_by_name  # noqa: F821
#: By requests, for as long as each is there: its tensors by their names.
_inputs = _weakref.WeakKeyDictionary()


def serialize_byte_tensor(input_tensor):
    """The strings, each with its length in front of it."""
    if not input_tensor.size or input_tensor.dtype.kind not in "OS":
        return _serialize(input_tensor)
    strings = _np.asarray(input_tensor).ravel().tolist()
    kinds = {*map(type, strings)}
    if kinds == {str}:
        strings = [*map(str.encode, strings)]
    elif kinds != {bytes}:
        return _serialize(input_tensor)
    pieces = [b""] * (2 * len(strings))
    pieces[::2], pieces[1::2] = map(_write_length, map(len, strings)), strings
    return b"".join(pieces)


def deserialize_bytes_tensor(encoded_tensor):
    """The strings as an array of bytes objects."""
    if not len(encoded_tensor):
        return _deserialize(encoded_tensor)  # of the () that nothing is written as, too
    encoded = memoryview(encoded_tensor).tobytes()
    strings, position, size = [], 0, len(encoded_tensor)
    while position + 4 <= size:
        start = position + 4
        position = start + _read_length(encoded, position)[0]
        strings.append(encoded[start:position])
    if position != size:
        return _deserialize(encoded_tensor)  # which says what is wrong
    array = _np.empty(len(strings), _np.object_)
    array[:] = strings
    return array


def get_input_tensor_by_name(inference_request, name):
    """The request's tensor of that name, None where it has none."""
    try:
        tensors = _inputs.get(inference_request)
        if tensors is None:
            given = inference_request.inputs()
            tensors = {tensor.name(): tensor for tensor in reversed(given)}  # the first of two
            _inputs[inference_request] = tensors
        return tensors.get(name)
    except TypeError:  # what is no request of Triton's, or no name
        return _get_input(inference_request, name)
