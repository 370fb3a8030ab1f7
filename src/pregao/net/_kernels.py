"""Kernels that receive and send datagrams in batches, with system calls that release the GIL.

Addresses are passed to the system as integers: the caller keeps the arrays alive. The layouts are
those of 64-bit Linux: a ``mmsghdr`` has 8 words, an ``iovec`` 2, a ``pollfd`` 1.
"""

from __future__ import annotations

import numpy as np
from numba import carray  # type: ignore[attr-defined]
from numba.core import types

from pregao._njit import load_i32, load_i64, njit

HEADER_WORDS = 8
CONTROL_BYTES = 64
SOCKADDR_BYTES = 16

# Words of a message header.
NAME, NAME_LENGTH, VECTOR, VECTORS, CONTROL, CONTROL_LENGTH, FLAGS, LENGTH = range(HEADER_WORDS)

# Results of `receive` other than the datagrams.
COUNT, HEAD, TROUBLE, TROUBLED, MORE = range(5)
RESULTS = 5

# Counters of each socket.
PACKETS, BYTES, CUT = range(3)
TALLIES = 3

_DONT_WAIT = 0x40
_TRUNCATED = 0x20
_POLL_IN = 1
_POLL_BAD = 0x28  # POLLERR, POLLNVAL
_INTERRUPTED, _WOULD_BLOCK = 4, 0xB
_NO_ERRORS = (_INTERRUPTED, _WOULD_BLOCK)  # EINTR, EAGAIN: there is nothing to receive
_SOL_SOCKET = 1
_TIMESTAMPNS = 35
_CONTROL_HEAD = 16
_SECOND = 1_000_000_000

_recvmmsg = types.ExternalFunction(
    "recvmmsg", types.int32(types.int32, types.intp, types.uint32, types.int32, types.intp)
)
_sendmmsg = types.ExternalFunction(
    "sendmmsg", types.int32(types.int32, types.intp, types.uint32, types.int32)
)
_poll = types.ExternalFunction("poll", types.int32(types.intp, types.uint64, types.int32))
_errno_at = types.ExternalFunction("__errno_location", types.CPointer(types.int32)())


@njit
def kernel_time(control, start, length):
    """Return the kernel's receive time of a datagram, from its control messages; 0 if none."""
    at, end = start, start + length
    while at + _CONTROL_HEAD <= end:
        size = load_i64(control, at)
        if size < _CONTROL_HEAD or at + size > end:
            return 0
        level, kind = load_i32(control, at + 8), load_i32(control, at + 12)
        if level == _SOL_SOCKET and kind == _TIMESTAMPNS and size >= _CONTROL_HEAD + 16:
            return load_i64(control, at + 16) * _SECOND + load_i64(control, at + 24)
        at += (size + 7) & ~7
    return 0


@njit
def _take(fd, headers_at, head, max_count):
    """Receive up to ``max_count`` datagrams of a socket into the slots from ``head`` on.

    Returns their number, or the negative number of the socket's error, which the call clears.
    """
    got = _recvmmsg(fd, headers_at + head * HEADER_WORDS * 8, max_count, _DONT_WAIT, 0)
    if got >= 0:
        return got
    error = carray(_errno_at(), 1)[0]
    return 0 if error in _NO_ERRORS else -error


@njit
def _note(headers, control, slot, slot_bytes, length, time_ns):
    """Read length and time of a slot, and reset it; return whether its datagram was truncated."""
    row = slot * HEADER_WORDS
    control_length = headers[row + CONTROL_LENGTH]
    time_ns[slot] = kernel_time(control, slot * CONTROL_BYTES, control_length)
    length[slot] = min(headers[row + LENGTH] & 0xFFFFFFFF, slot_bytes)
    # The kernel overwrites the capacity with the length that it used.
    headers[row + CONTROL_LENGTH] = CONTROL_BYTES
    return (headers[row + FLAGS] & _TRUNCATED) != 0


@njit
def receive(
    polled,
    polled_at,
    lines,
    headers,
    headers_at,
    control,
    slot_bytes,
    slot_length,
    slot_time,
    names,
    batch,
    first,
    rounds,
    timeout_ms,
    offset,
    length,
    time_ns,
    line,
    source,
    tallies,
    result,
):
    """Receive from the sockets, wait if there is nothing, and merge the datagrams by time.

    ``polled`` has each socket as a ``pollfd``, and last the one that wakes a waiting receiver.
    Sockets are read in turn, beginning with ``first``, so that none starves. They are read
    ``rounds`` times without waiting (to spin), then once more after at most ``timeout_ms``. The
    error of a socket, if any, is in ``result``, with the socket's position among those polled.
    """
    sockets = len(polled) - 1
    result[COUNT] = 0
    result[TROUBLE] = 0
    result[MORE] = 0
    if result[HEAD] + batch > len(slot_length):
        result[HEAD] = 0
    head = result[HEAD]
    runs = np.empty(sockets + 1, np.int64)
    owners = np.empty(sockets, np.int64)
    share = batch if sockets <= 1 else max(batch // sockets, 1)
    found = 0
    turn = 0
    while True:
        runs[0] = head
        for index in range(sockets):
            number = (first + index) % sockets
            if turn == rounds and not (polled[number] >> 48) & (_POLL_IN | _POLL_BAD):
                continue  # poll reported neither data nor an error
            begin = runs[found]
            max_count = min(share, head + batch - begin)
            if max_count <= 0:
                result[MORE] = 1
                break
            got = _take(polled[number] & 0xFFFFFFFF, headers_at, begin, max_count)
            if got < 0:
                result[TROUBLE] = -got
                result[TROUBLED] = number
            elif got:
                owners[found] = number
                found += 1
                runs[found] = begin + got
            if got == max_count:
                result[MORE] = 1
        turn += 1
        if found or result[TROUBLE] or turn > rounds:
            break
        if turn == rounds:
            for index in range(sockets + 1):
                polled[index] = (polled[index] & 0xFFFFFFFF) | (_POLL_IN << 32)
            if timeout_ms == 0 or _poll(polled_at, np.uint64(sockets + 1), timeout_ms) <= 0:
                return
    count = runs[found] - head
    for run in range(found):
        owner = owners[run]
        for slot in range(runs[run], runs[run + 1]):
            if _note(headers, control, slot, slot_bytes, slot_length, slot_time):
                tallies[owner, CUT] += 1
            tallies[owner, BYTES] += slot_length[slot]
        tallies[owner, PACKETS] += runs[run + 1] - runs[run]
    _merge(
        runs, owners, found, lines, slot_bytes, slot_length, slot_time, names,
        offset, length, time_ns, line, source,
    )  # fmt: skip
    result[COUNT] = count
    result[HEAD] = head + count


@njit
def sender_of(names, at):
    """Return address and port of an IPv4 socket address as one number."""
    number = np.int64(0)
    for index in (4, 5, 6, 7, 2, 3):
        number = number << 8 | np.int64(names[at + index])
    return number


@njit
def _merge(
    runs, owners, found, lines, slot_bytes, slot_length, slot_time, names,
    offset, length, time_ns, line, source,
):  # fmt: skip
    """Merge the datagrams of several sockets by time; those of one socket keep their order."""
    at = runs[:found].copy()
    for index in range(runs[found] - runs[0]):
        best = -1
        for run in range(found):
            if at[run] < runs[run + 1] and (best < 0 or slot_time[at[run]] < slot_time[at[best]]):
                best = run
        slot = at[best]
        at[best] += 1
        offset[index] = slot * slot_bytes
        length[index] = slot_length[slot]
        time_ns[index] = slot_time[slot]
        line[index] = lines[owners[best]]
        source[index] = sender_of(names, slot * SOCKADDR_BYTES)


@njit
def send(
    fd, headers, headers_at, vectors, buffer_at, offset, length, target, targets_at, begin, end
):
    """Send datagrams of a buffer, each to its target; return the number sent.

    A number below ``end - begin`` means that the system refused the next one.
    """
    capacity = len(vectors) // 2
    done = begin
    while done < end:
        count = min(capacity, end - done)
        for index in range(count):
            one = done + index
            vectors[2 * index] = buffer_at + offset[one]
            vectors[2 * index + 1] = length[one]
            headers[index * HEADER_WORDS + NAME] = targets_at + target[one] * SOCKADDR_BYTES
        sent = _sendmmsg(fd, headers_at, count, 0)
        if sent <= 0:
            break
        done += sent
    return done - begin
