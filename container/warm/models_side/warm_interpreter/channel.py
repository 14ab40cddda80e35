"""The channel between a stub and the process that runs its model: words, and arrays.

A message is a packet of a Unix socket (SOCK_SEQPACKET: whole, or the other side is gone). What does
not fit into one lies in memory that the sender shares: each side has a piece that it alone writes,
which the other reads in place. The sides take turns, so nothing is written that is still read.

    payload: length of the head, the head (marshal), then each array from the next multiple of 64
    packet:  b"P" and the payload, or b"S" and how many bytes the payload has in shared memory

marshal, not pickle: no code is run by reading it. Both sides run one version of Python.
"""

import array
import marshal
import mmap
import os
import socket
import struct

import numpy as np

#: Larger payloads lie in shared memory (measured: from here on that is faster).
PACKET_MAX = 64 * 1024
#: Shared memory that is kept for the next message.
KEPT = 8 * 1024 * 1024
_ALIGNED = 64
_LENGTH = struct.Struct("<Q")
_IN_PACKET, _SHARED = b"P", b"S"
#: Of data types whose elements are Python's objects: strings.
_OBJECTS = "O"
_PADDING = bytes(_ALIGNED)
#: Data types by what they are called in messages; there are few.
_KINDS = {}


class Gone(Exception):
    """The other side has ended."""


class Channel:
    """One end. own, theirs: descriptors of the memory that this side writes and that it reads.

    lifeline: of the pipe between the two, whose end tells the child that the stub has ended.
    """

    def __init__(self, connection, own, theirs, lifeline):
        self._socket, self._own, self._theirs = connection, _Shared(own), _Shared(theirs)
        self.lifeline = lifeline

    def close(self):
        """Give everything back; whoever is at the other end is told."""
        self._socket.close()
        self._own.close()
        self._theirs.close()
        os.close(self.lifeline)

    def send(self, message, arrays=()):
        """Send what marshal takes, and arrays. Raises Gone."""
        specs, parts, size = [], [], 0
        for each in arrays:
            if each.dtype.hasobject:
                specs.append((_OBJECTS, each.shape, [_text(one) for one in each.reshape(-1)]))
                continue
            size += -size % _ALIGNED
            specs.append((each.dtype.str, each.shape, size))
            parts.append((size, each))
            size += each.nbytes
        head = marshal.dumps((message, specs))
        start = _first_array(len(head))
        try:
            if start + size < PACKET_MAX:
                self._socket.send(_packet(head, start, parts))
            else:
                memory = self._own.writable(start + size)
                memory[: _LENGTH.size] = _LENGTH.pack(len(head))
                memory[_LENGTH.size : _LENGTH.size + len(head)] = head
                for at, part in parts:
                    if part.nbytes:
                        target = np.frombuffer(memory, part.dtype, part.size, start + at)
                        np.copyto(target, part.reshape(-1))
                self._socket.sendmsg([_SHARED, _LENGTH.pack(start + size)])
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None

    def receive(self):
        """(words, arrays) of the next message. Arrays hold until the next send. Raises Gone."""
        packet = bytearray(PACKET_MAX + 1)
        try:
            count = self._socket.recv_into(packet)
        except ConnectionResetError:
            count = 0
        if not count:
            raise Gone
        if packet[:1] == _SHARED:
            (size,) = _LENGTH.unpack_from(packet, 1)
            buffer, offset = self._theirs.readable(size), 0
        else:
            buffer, offset = packet, 1
        (length,) = _LENGTH.unpack_from(buffer, offset)
        head = offset + _LENGTH.size
        message, specs = marshal.loads(buffer[head : head + length])
        start = offset + _first_array(length)
        return message, [_array(buffer, start, *spec) for spec in specs]

    def trim(self):
        """Give back what a large message has taken, once it was read."""
        self._own.trim()

    def release(self, arrays):
        """The arrays of the message that came last, which the other side may write over now.

        Those of a large one are copied, and what they lay in is given back: else it would be kept
        until the next message. The other side does nothing with it before it has trimmed it.
        """
        if not self._theirs.is_large:
            return arrays
        arrays = [np.array(each) for each in arrays]
        self._theirs.trim()
        return arrays


class _Shared:
    """A piece of memory without a name; it grows with what is written."""

    def __init__(self, descriptor):
        self._descriptor, self._map, self._size = descriptor, None, 0

    def writable(self, size):
        """At least so many bytes of it."""
        if size > self._size:
            self._size = size + -size % mmap.PAGESIZE
            os.ftruncate(self._descriptor, self._size)
            self._map = mmap.mmap(self._descriptor, self._size)
        return self._map

    def readable(self, size):
        """Likewise, as the other side has made it."""
        if size > self._size:
            self._size = os.fstat(self._descriptor).st_size
            self._map = mmap.mmap(self._descriptor, self._size)
        return self._map

    @property
    def is_large(self):
        """Whether it is more than is kept."""
        return self._size > KEPT

    def close(self):
        """Whoever still reads what lies in it may go on."""
        os.close(self._descriptor)

    def trim(self):
        """Trim to the beginning: that stays mapped in the reader as well."""
        if self.is_large:
            os.ftruncate(self._descriptor, KEPT)
            self._map, self._size = mmap.mmap(self._descriptor, KEPT), KEPT


def _packet(head, start, parts):
    """A payload as one packet; put together here, since the kernel takes some 1,000 pieces."""
    pieces = [_IN_PACKET, _LENGTH.pack(len(head)), head]
    written = _LENGTH.size + len(head) - start
    for at, part in parts:
        pieces += (_PADDING[: at - written], part.tobytes())
        written = at + part.nbytes
    return b"".join(pieces)


def _first_array(head_length):
    """The offset of the first array in a payload."""
    end = _LENGTH.size + head_length
    return end + -end % _ALIGNED


def _array(buffer, start, dtype, shape, location):
    """location: the offset of an array; strings stand there themselves."""
    if dtype == _OBJECTS:
        strings = np.empty(len(location), np.object_)
        strings[:] = location
        return strings.reshape(shape)
    kind = _KINDS.get(dtype) or _KINDS.setdefault(dtype, np.dtype(dtype))
    if 0 in shape or not kind.itemsize:
        return np.zeros(shape, kind)
    return np.ndarray(shape, kind, buffer, start + location)


def _text(one):
    """Strings are bytes, or what Triton makes bytes of."""
    return one if isinstance(one, bytes) else str(one)


# --- how it begins

_DESCRIPTORS = struct.calcsize("3i")


def connect(path, timeout_s):
    """The stub's end of a channel to a child that is forked for it, and its socket.

    The child has one end of a pipe, and only this process has the other: it ends with this process,
    whatever ends that.

    Raises OSError where nobody listens, or nobody answers in time; Gone where who did has ended.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    opened = []
    try:
        connection.settimeout(timeout_s)
        folder, name = os.path.split(path)
        within = os.open(folder, os.O_PATH)  # a socket's path may have 107 bytes
        try:
            connection.connect(f"/proc/self/fd/{within}/{name}")
        finally:
            os.close(within)
        opened += [os.memfd_create("request"), os.memfd_create("response"), *os.pipe()]
        rights = array.array("i", opened[:3])
        connection.sendmsg([b"!"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    except OSError as error:
        connection.close()
        for descriptor in opened:
            os.close(descriptor)
        if isinstance(error, (BrokenPipeError, ConnectionResetError)):
            raise Gone from None
        raise
    own, theirs, childs, lifeline = opened
    os.close(childs)
    return Channel(connection, own, theirs, lifeline), connection


def accept(connection):
    """The child's end. Raises Gone."""
    room = socket.CMSG_SPACE(_DESCRIPTORS)
    data, ancillary, _, _ = connection.recvmsg(1, room, socket.MSG_CMSG_CLOEXEC)
    if not data or not ancillary or len(ancillary[0][2]) < _DESCRIPTORS:
        raise Gone
    theirs, own, lifeline = array.array("i", ancillary[0][2][:_DESCRIPTORS])
    return Channel(connection, own, theirs, lifeline)
