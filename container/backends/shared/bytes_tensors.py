"""Two functions of Triton's triton_python_backend_utils, which stand above this when it is run.

Every string that a Python model reads or writes goes through them, one by one. Here likewise, in a
third of the time; whatever is not plainly the same is left to Triton's own.
"""

import struct as _struct

import numpy as _np

_read_length, _write_length = _struct.Struct("<I").unpack_from, _struct.Struct("<I").pack
_serialize, _deserialize = serialize_byte_tensor, deserialize_bytes_tensor  # noqa: F821


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
