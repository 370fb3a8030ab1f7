"""Kernel of the fast path: a batch of datagrams of a channel in sync, from headers to books.

It does what `pregao.feed.channel.channel` does with packets that are next in sequence or
duplicates, and stops at the first one that is anything else. Each packet is checked before
anything changes: the kernel processes all of it or leaves all of it to the plain path, except that
it stops at an inconsistent update. It shares its parts with the kernels of the lake.
"""

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np

from pregao._njit import (
    bytes_at,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    load_u64,
    njit,
    part,
    words_at,
)
from pregao.book.kernel_parts import (
    BUILDING,
    SLOTS_LEFT,
    SLOTS_PER_ROW,
    STATE_WORDS,
    apply_at,
    builds,
    enter,
    find,
)
from pregao.book.update_rows import IMPLIED, NULL, RECOVERY, UpdateKind
from pregao.feed.fastpath import _layout as w
from pregao.sbe.value_specs import MAX_MANTISSA
from pregao.umdf.kernel_parts import SOUND, continues, ends_event, event_number, frame_fault
from pregao.umdf.layout import (
    BLOCK_LENGTH_AT,
    CHANNEL_AT,
    FRAMING_SIZE,
    MESSAGE_LENGTH_AT,
    MIN_MESSAGE_SIZE,
    PACKET_HEADER_SIZE,
    SCHEMA_ID_AT,
    SENDING_TIME_AT,
    SEQUENCE_NUMBER_AT,
    SEQUENCE_VERSION_AT,
    TEMPLATE_ID_AT,
    VERSION_AT,
)
from pregao.umdf.templates import RECOVERY as RECOVERY_BIT

_ADD, _CHANGE, _DELETE = int(UpdateKind.ADD), int(UpdateKind.CHANGE), int(UpdateKind.DELETE)
_TIME_LIMIT = np.uint64(1 << 63)
_u = np.uint64
"""Wraps every computed index: numba adds a branch for negative values to signed ones."""


@part
def _number(buffer, body, table, kind, column):
    """Return a 64-bit number as a book expects it, or NULL."""
    at = table[_u(kind + column)]
    if at == w.ABSENT:
        return NULL
    value = load_i64(buffer, body + at)
    return NULL if value == table[_u(kind + w.NULLS + column - w.ORDER_ID)] else value


@part
def _firm(buffer, body, table, kind):
    """Return the firm that entered an order, or NULL."""
    at = table[_u(kind + w.FIRM)]
    if at == w.ABSENT:
        return NULL
    value = np.int64(load_u32(buffer, body + at))
    return NULL if value == table[_u(kind + w.NULLS + w.FIRM - w.ORDER_ID)] else value


@part
def _does(buffer, body, table, kind):
    """Return the action of a message on its book."""
    at = table[_u(kind + w.ACTION_AT)]
    if at == w.ABSENT:
        return np.int64(_DELETE)
    return table[_u(w.ACTIONS_AT + load_u8(buffer, body + at))]


@part
def _side(buffer, body, table, kind):
    return table[_u(w.SIDES_AT + load_u8(buffer, body + table[_u(kind + w.SIDE_AT)]))]


@part
def _is_plain_order(buffer, body, table, kind):
    """Whether a message about an order can be applied without the plain path."""
    if _side(buffer, body, table, kind) > 1:
        return False
    at = table[_u(kind + w.POSITION_AT)]
    if at != w.ABSENT and load_u32(buffer, body + at) != table[_u(kind + w.NO_POSITION)]:
        return False
    does = _does(buffer, body, table, kind)
    if does > _DELETE:
        return False
    # Unsigned 64-bit numbers, which books keep as signed ones.
    if _number(buffer, body, table, kind, w.ORDER_ID) < 0:
        return False
    inserted = _number(buffer, body, table, kind, w.INSERTED)
    if inserted < 0 and inserted != NULL:
        return False
    return does == _DELETE or _number(buffer, body, table, kind, w.SIZE) != NULL


@part
def _undo(instruments, scratch, first, last):
    """Revert the counting of a packet's messages."""
    for m in range(first, last):
        row = scratch[_u(m)]
        if row >= 0:
            instruments[_u(row + w.LAST)] -= 1


@part
def _looked_through(control, table, ids, instruments, scratch, buffer, start, end):
    """Check and count the messages of a packet. Returns their number, or -1 for the plain path.

    ``scratch`` receives the offsets of the words of their instruments. For -1, counters are
    unchanged.
    """
    position = start + PACKET_HEADER_SIZE
    count = placed = np.int64(0)
    sound = position < end
    while position < end:
        sound = False
        if frame_fault(buffer, position, end) != SOUND:
            break
        length = np.int64(load_u16(buffer, position + MESSAGE_LENGTH_AT))
        template = np.int64(load_u16(buffer, position + TEMPLATE_ID_AT))
        schema = np.int64(load_u16(buffer, position + SCHEMA_ID_AT)) << 16 | np.int64(
            load_u16(buffer, position + VERSION_AT)
        )
        if template >= w.TEMPLATES or schema != control[w.SCHEMA]:
            break
        kind = template * w.TEMPLATE_WORDS
        use = table[_u(kind + w.USE)]
        block = np.int64(load_u16(buffer, position + BLOCK_LENGTH_AT))
        if use == w.UNUSED or use == w.HEARTBEAT or block != table[_u(kind + w.BLOCK)]:
            break
        if use == w.BOOKLESS:
            if not control[w.VOUCHED]:
                break
            scratch[_u(count)] = -1
            count += 1
            position += length
            sound = True
            continue
        if MIN_MESSAGE_SIZE + block != length:
            break
        body = position + MIN_MESSAGE_SIZE
        readable = True
        for d in range(table[_u(kind + w.DECIMALS)]):
            decimal = table[_u(kind + w.DECIMALS + 1 + d)]
            mantissa = load_i64(buffer, body + (decimal & w.OFFSETS))
            beyond = mantissa > MAX_MANTISSA or mantissa < -MAX_MANTISSA
            if beyond and (mantissa != NULL or decimal & w.NO_LOWEST):
                readable = False
        if not readable:
            break
        row = np.int64(-1)
        if table[_u(kind + w.SECURITY_AT)] != w.ABSENT:
            security = load_i64(buffer, body + table[_u(kind + w.SECURITY_AT)])
            found = find(ids, security)
            if found < 0:
                break
            row = (ids[_u(2 * found + 1)] - 1) * w.INSTRUMENT_WORDS
            counted = np.int64(load_u32(buffer, body + table[_u(kind + w.COUNT_AT)]))
            if not instruments[_u(row + w.STEADY)]:
                break
            if not continues(instruments[_u(row + w.LAST)], counted):
                break
            if use == w.ORDERS:
                if not instruments[_u(row + w.HAS_BOOK)]:
                    break
                if not _is_plain_order(buffer, body, table, kind):
                    break
                if _does(buffer, body, table, kind) != _DELETE:  # which needs no slots
                    placed += 1
                    meta = words_at(instruments[_u(row + w.META_AT)], STATE_WORDS)
                    if meta[SLOTS_LEFT] < SLOTS_PER_ROW * placed:
                        control[w.STATUS] = w.BOOK_FULL
                        control[w.DETAIL] = row // w.INSTRUMENT_WORDS
                        break
            instruments[_u(row + w.LAST)] = counted
        scratch[_u(count)] = row
        count += 1
        position += length
        sound = True
    if sound:
        return count
    _undo(instruments, scratch, 0, count)
    return np.int64(-1)


@part
def _is_heartbeat(control, table, buffer, start, end):
    """Whether a packet is a heartbeat that names the next expected number."""
    position = start + PACKET_HEADER_SIZE
    if frame_fault(buffer, position, end) != SOUND:
        return False
    template = np.int64(load_u16(buffer, position + TEMPLATE_ID_AT))
    schema = np.int64(load_u16(buffer, position + SCHEMA_ID_AT)) << 16 | np.int64(
        load_u16(buffer, position + VERSION_AT)
    )
    if template >= w.TEMPLATES or schema != control[w.SCHEMA]:
        return False
    kind = template * w.TEMPLATE_WORDS
    block = np.int64(load_u16(buffer, position + BLOCK_LENGTH_AT))
    if table[_u(kind + w.USE)] != w.HEARTBEAT or block != table[_u(kind + w.BLOCK)]:
        return False
    body = position + MIN_MESSAGE_SIZE
    following = np.int64(load_u32(buffer, body + table[_u(kind + w.COUNT_AT)]))
    return body + block == end and following == control[w.NEXT]


@part
def _apply(table, instruments, buffer, body, kind, row):
    """Apply a message to its book. Returns 0 or a fault."""
    flags = np.int64(load_u8(buffer, body + table[_u(kind + w.FLAGS_AT)]))
    does = _does(buffer, body, table, kind)
    bits = np.int64(0)
    if table[_u(kind + w.ACTION_AT)] != w.ABSENT:
        if flags & RECOVERY_BIT:
            bits |= RECOVERY
        if flags & table[_u(kind + w.IMPLIED_BITS)]:
            bits |= IMPLIED
    code = np.int64(apply_at(
        instruments[_u(row + w.META_AT)], instruments[_u(row + w.BOOK_TABLE_AT)],
        instruments[_u(row + w.SLOTS_AT)], instruments[_u(row + w.RANKS_AT)],
        instruments[_u(row + w.LADDER_AT)], instruments[_u(row + w.CAPACITY)], True,
        does, _side(buffer, body, table, kind), bits,
        _number(buffer, body, table, kind, w.ORDER_ID),
        _number(buffer, body, table, kind, w.PRICE),
        _number(buffer, body, table, kind, w.SIZE),
        _number(buffer, body, table, kind, w.PREVIOUS),
        NULL, _firm(buffer, body, table, kind),
        _number(buffer, body, table, kind, w.INSERTED),
    ))  # fmt: skip
    if code == 0:
        words_at(instruments[_u(row + w.META_AT)], STATE_WORDS)[BUILDING] = builds(does, bits)
    return code


@part
def _emit(control, rows, kind, item, event, number, size, header):
    """Append an output row."""
    at = control[w.ROWS] * w.ROW_WORDS
    rows[_u(at + w.KIND)] = kind
    rows[_u(at + w.ITEM)] = item
    rows[_u(at + w.ITEM_EVENT)] = event
    rows[_u(at + w.ITEM_NUMBER)] = number
    rows[_u(at + w.ITEM_SENDING)] = control[w.SENDING]
    rows[_u(at + w.ITEM_RECEIVED)] = control[w.RECEIVED]
    rows[_u(at + w.ITEM_BYTES)] = size
    rows[_u(at + w.ITEM_HEADER)] = header
    control[w.ROWS] += 1


@part
def _end_event(control, instruments, touched, rows, number):
    """Append an output row for each changed book."""
    for t in range(control[w.TOUCHED]):
        row = touched[_u(2 * t)]
        instruments[_u(row + w.TOUCH)] = 0
        if control[w.REQUESTED]:
            instrument = row // w.INSTRUMENT_WORDS
            _emit(control, rows, w.BOOK, instrument, touched[_u(2 * t + 1)], number, 0, 0)
    control[w.TOUCHED] = 0


@part
def _take_in(control, table, instruments, touched, changed, rows, store, scratch, buffer, start,
             number):  # fmt: skip
    """Apply the messages of a checked packet. Returns the index of an inconsistent one, or -1."""
    end = start
    position = start + PACKET_HEADER_SIZE
    index = np.int64(0)
    version = control[w.VERSION]
    while scratch[_u(index)] != w.NULL_ROW:
        row = scratch[_u(index)]
        end = position + np.int64(load_u16(buffer, position + MESSAGE_LENGTH_AT))
        body = position + MIN_MESSAGE_SIZE
        kind = np.int64(load_u16(buffer, position + TEMPLATE_ID_AT)) * w.TEMPLATE_WORDS
        orders = table[_u(kind + w.USE)] == w.ORDERS
        if orders and _apply(table, instruments, buffer, body, kind, row) != 0:
            return index
        if control[w.BEGINS]:
            control[w.EVENT] = event_number(version, number, index)
        event = control[w.EVENT]
        control[w.EVENT_AT] = number
        if row >= 0:
            instruments[_u(row + w.NUMBER)] = number
            change = instruments[_u(row + w.CHANGE)]
            instruments[_u(row + w.CHANGE)] = w.CHANGES
            if not change:
                changed[_u(control[w.CHANGED])] = row
                control[w.CHANGED] += 1
            if orders:
                counted = np.int64(load_u32(buffer, body + table[_u(kind + w.COUNT_AT)]))
                instruments[_u(row + w.KEY_NUMBER)] = number
                instruments[_u(row + w.KEY_INDEX)] = index
                instruments[_u(row + w.KEY_COUNT)] = counted
                touch = instruments[_u(row + w.TOUCH)]
                if touch == 0:
                    control[w.TOUCHED] += 1
                    touch = control[w.TOUCHED]
                    instruments[_u(row + w.TOUCH)] = touch
                    touched[_u(2 * touch - 2)] = row
                touched[_u(2 * touch - 1)] = event
        if table[_u(kind + w.REPORTED)]:
            into = control[w.STORED]
            for b in range(end - position):
                store[_u(into + b)] = buffer[_u(position + b)]
            control[w.STORED] = into + end - position
            header = np.int64(load_i64(buffer, position + FRAMING_SIZE))
            _emit(control, rows, w.MESSAGE, into, event, number, end - position, header)
        over = ends_event(
            buffer, body, end, table[_u(kind + w.BLOCK)], table[_u(kind + w.FLAGS_AT)]
        )
        control[w.BEGINS] = over
        if over and control[w.TOUCHED]:
            _end_event(control, instruments, touched, rows, number)
        index += 1
        position = end
    return np.int64(-1)


@njit
def process_datagrams(control, buffer, offsets, lengths, times, lines, first, last):
    """Process datagrams ``first`` to ``last``. Returns the index of the one at which it stopped.

    The control block has the reason.
    """
    table = words_at(control[w.TABLE_AT], w.TABLE_WORDS)
    ids = words_at(control[w.IDS_AT], control[w.IDS])
    instruments = words_at(control[w.INSTRUMENTS_AT], w.NO_LIMIT)
    rows = words_at(control[w.ROWS_AT], w.NO_LIMIT)
    store = bytes_at(control[w.STORE_AT], w.NO_LIMIT)
    touched = words_at(control[w.TOUCHED_AT], w.NO_LIMIT)
    changed = words_at(control[w.CHANGED_AT], w.NO_LIMIT)
    feeds = words_at(control[w.LINES_AT], control[w.LINES])
    scratch = words_at(control[w.SCRATCH_AT], w.NO_LIMIT)
    control[w.STATUS] = w.DONE
    p = first
    while p < last:
        line = np.int64(lines[_u(p)])
        feed = feeds[_u(line)] if 0 <= line < len(feeds) else np.int64(w.ABSENT)
        start = np.int64(offsets[_u(p)])
        length = np.int64(lengths[_u(p)])
        if feed < 0 or length < PACKET_HEADER_SIZE or length > w.MAX_BYTES:
            control[w.STATUS] = w.PLAIN
            break
        sending = load_u64(buffer, start + SENDING_TIME_AT)
        number = np.int64(load_u32(buffer, start + SEQUENCE_NUMBER_AT))
        now = max(control[w.NOW], times[_u(p)])
        if (
            sending >= _TIME_LIMIT
            or np.int64(load_u8(buffer, start + CHANNEL_AT)) != control[w.CHANNEL]
            or np.int64(load_u16(buffer, start + SEQUENCE_VERSION_AT)) != control[w.VERSION]
            or number > control[w.NEXT]
            or (number < control[w.WHOLE_SINCE] and number != 0)
            or now - control[w.SINCE] >= control[w.LIMIT]
        ):
            control[w.STATUS] = w.PLAIN
            break
        rows_before = control[w.ROWS]
        own = w.FEEDS + feed * w.FEED_WORDS
        if number == 0:
            if not _is_heartbeat(control, table, buffer, start, start + length):
                control[w.STATUS] = w.PLAIN
                break
            control[w.PROGRESS] = now
            control[w.OUTDATED] = 0
            control[_u(own + w.FEED_BEATS)] += 1
        elif number < control[w.NEXT]:
            late = now - control[w.PROGRESS] >= control[w.LIMIT]
            if late and control[w.OUTDATED] + 1 >= control[w.MAX_LAG]:
                control[w.STATUS] = w.PLAIN
                break
            control[w.OUTDATED] += 1
            control[_u(own + w.FEED_DUPLICATES)] += 1
        else:
            count = _looked_through(
                control, table, ids, instruments, scratch, buffer, start, start + length
            )
            if count < 0:
                if control[w.STATUS] == w.DONE:
                    control[w.STATUS] = w.PLAIN
                break
            if (
                control[w.ROWS] + control[w.TOUCHED] + 2 * count > control[w.ROWS_CAPACITY]
                or control[w.STORED] + length > control[w.STORE_CAPACITY]
            ):
                _undo(instruments, scratch, 0, count)
                control[w.STATUS] = w.ROWS_FULL
                break
            scratch[_u(count)] = w.NULL_ROW
            control[w.SENDING] = np.int64(sending)
            control[w.RECEIVED] = times[_u(p)]
            inconsistent = _take_in(
                control, table, instruments, touched, changed, rows, store, scratch, buffer, start,
                number,
            )  # fmt: skip
            if inconsistent >= 0:
                _undo(instruments, scratch, inconsistent, count)
                control[w.STATUS] = w.INCONSISTENT
                control[w.DETAIL] = inconsistent
                break
            control[w.NEXT] = number + 1
            control[w.DELIVERED] += 1
            control[w.MESSAGES] += count
            control[w.PROGRESS] = now
            control[w.OUTDATED] = 0
            control[_u(own + w.FEED_FIRST)] += 1
        control[w.NOW] = now
        control[w.SINCE] = max(control[w.SINCE], now)
        control[w.PACKETS] += 1
        control[w.BYTES] += length
        control[_u(own + w.FEED_PACKETS)] += 1
        control[_u(own + w.FEED_REACHED)] = max(control[_u(own + w.FEED_REACHED)], number)
        control[_u(own + w.FEED_LAST_RECEIVED)] = now
        p += 1
        if control[w.SINGLY] and control[w.ROWS] > rows_before:
            control[w.STATUS] = w.EVENTS_PENDING
            break
    return p


@njit
def enter_ids(ids, securities, first):
    """Add instruments to a map, with indices from ``first`` on."""
    for i in range(len(securities)):
        enter(ids, securities[i], first + i)
