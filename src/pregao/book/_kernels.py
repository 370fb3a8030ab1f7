"""Kernels that replay book updates in bulk: the three kinds of book, their ticks and dumps.

All state is in flat arrays, so copying them makes a checkpoint. Each side has its best level
(and in the book by position its first order) at the *end* of an array, so that changes near the
top move few entries, however deep the book is. Prices are stored as ranks: higher is better on
both sides, and an order without a price has the highest rank. The plain twins of these kernels
are the classes PriorityBook, PositionBook, PriceDepthBook and TickMaker.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import njit, part
from pregao.book import _state_layout as w
from pregao.book._book_kernels import (
    apply_by_depth,
    apply_by_position,
    apply_by_priority,
    clear_side,
)
from pregao.book._ladder_kernels import bottom, enter, price_of, u


@part
def wipe(meta, table, slots, ranks, ladder, by_position):
    """Empty both sides and reset the slots and the order map."""
    if not by_position:
        if (meta[w.ORDERS] + meta[w.ORDERS + 1]) << 5 < len(table):
            clear_side(meta, table, slots, ranks, ladder, 0)
            clear_side(meta, table, slots, ranks, ladder, 1)
        else:
            table[:] = 0
    for side in range(2):
        meta[u(w.LEVELS + side)] = 0
        meta[u(w.ORDERS + side)] = 0
        meta[u(w.DIRTY + side)] = 1
    meta[w.FREE_SLOT] = -1
    meta[w.USED_SLOTS] = 0
    meta[w.SLOTS_LEFT] = len(slots) // w.SLOT_WORDS


@part
def builds(kind, flags):
    """Whether an update refills a book that was emptied, which is then still incomplete."""
    return (kind <= w.CHANGE or kind == w.OVERLAY) and (flags & w.RECOVERY) != 0


@part
def begin_book(meta, top, instrument):
    """Start another instrument with an empty book."""
    meta[w.STARTED] = 1
    meta[w.INSTRUMENT] = instrument
    for word in (w.STALE, w.SNAPSHOT, w.BUILDING, w.LAST_TRUST, w.DOUBTED, w.DIRTY, w.DIRTY + 1):
        meta[u(word)] = 0
    top[0] = w.NULL
    top[1:] = 0


@part
def _state(meta):
    if meta[w.STALE]:
        return w.STATE_STALE
    if meta[w.DOUBTED]:
        return w.STATE_UNCONFIRMED
    if meta[w.BUILDING]:
        return w.STATE_BUILDING
    return w.STATE_VALID if meta[w.ORDERS] + meta[w.ORDERS + 1] > 0 else w.STATE_EMPTY


@part
def _trust(meta):
    """Return 0 for a trusted book, 1 for an unconfirmed one, 2 for a stale one."""
    return 2 if meta[w.STALE] else meta[w.DOUBTED]


@part
def _changed(meta, slots, ranks, ladder, top, depth):
    """Update the best levels; return whether they or the trust in the book changed."""
    trust = _trust(meta)
    changed = trust != meta[w.LAST_TRUST]
    meta[w.LAST_TRUST] = trust
    for side in range(2):
        if not meta[u(w.DIRTY + side)]:
            continue
        meta[u(w.DIRTY + side)] = 0
        shown = min(depth, meta[u(w.LEVELS + side)])
        at = bottom(ladder, side) + meta[u(w.LEVELS + side)]
        for k in range(shown):
            at -= 1
            level = ladder[u(at)]
            price = price_of(side, ranks[u(at)])
            size = slots[u(level + w.SIZE)]
            count = slots[u(level + w.COUNT)]
            if top[1, side, k] != size or top[2, side, k] != count or top[0, side, k] != price:
                changed = True
                top[0, side, k] = price
                top[1, side, k] = size
                top[2, side, k] = count
        for k in range(shown, depth):
            if top[2, side, k] == 0:
                break
            changed = True
            top[0, side, k] = w.NULL
            top[1, side, k] = 0
            top[2, side, k] = 0
    return changed


@part
def _tick(
    meta, top, depth,
    tick_row, tick_event, tick_instrument, tick_state, tick_price, tick_size, tick_count,
):  # fmt: skip
    """Append the best levels to the ticks."""
    out = meta[w.TICKS]
    meta[w.TICKS] = out + 1
    tick_row[out] = meta[w.ROW]
    tick_event[out] = meta[w.EVENT]
    tick_instrument[out] = meta[w.INSTRUMENT]
    tick_state[out] = _state(meta)
    for side in range(2):
        for k in range(depth):
            tick_price[side, out, k] = top[0, side, k]
            tick_size[side, out, k] = top[1, side, k]
            tick_count[side, out, k] = top[2, side, k]


@part
def dump(
    meta, queue, slots, ladder, by_position, by_depth,
    dump_end, dump_state, dump_side, dump_id, dump_price, dump_size, dump_firm, dump_inserted,
    dump_implied,
):  # fmt: skip
    """Write all orders in queue order, bids first; False if they do not fit.

    For a book by price depth, write its levels, with their order counts as identifiers.
    """
    out = meta[w.DUMPED_ORDERS]
    if out + meta[w.ORDERS] + meta[w.ORDERS + 1] > len(dump_side):
        return False
    for side in range(2):
        at = bottom(ladder, side) + meta[u(w.LEVELS + side)]
        if by_depth:
            for depth_index in range(1, meta[u(w.LEVELS + side)] + 1):
                row = np.int64(ladder[u(at - depth_index)])
                dump_side[out] = side
                dump_id[out] = slots[u(row + w.COUNT)]
                dump_price[out] = price_of(side, slots[u(row + w.RANK)])
                dump_size[out] = slots[u(row + w.SIZE)]
                dump_firm[out] = w.NULL
                dump_inserted[out] = w.NULL
                dump_implied[out] = 0
                out += 1
            continue
        level = np.int64(-1)
        first = np.int64(-1)
        for left in range(meta[u(w.ORDERS + side)] - 1, -1, -1):
            if by_position:
                first = np.int64(queue[u(side * (len(queue) >> 1) + left)])
                order_id = slots[u(first + w.KEY)]
                implied = slots[u(first + w.TAG)] >> w.IMPLIED_BIT & 1
            else:
                if first == level:
                    at -= 1
                    level = np.int64(ladder[u(at)])
                    first = slots[u(level + w.NEXT)]
                order_id = slots[u(first + w.KEY)] & w.HIGHEST
                implied = np.int64(slots[u(first + w.KEY)] >= 0)
            dump_side[out] = side
            dump_id[out] = order_id
            dump_price[out] = price_of(side, slots[u(first + w.RANK)])
            dump_size[out] = slots[u(first + w.SIZE)]
            dump_firm[out] = slots[u(first + w.FIRM)]
            dump_inserted[out] = slots[u(first + w.INSERTED)]
            dump_implied[out] = implied
            out += 1
            if not by_position:
                first = slots[u(first + w.NEXT)]
    dump_end[meta[w.DUMPS]] = out
    dump_state[meta[w.DUMPS]] = _state(meta)
    meta[w.DUMPED_ORDERS] = out
    meta[w.DUMPS] += 1
    return True


@part
def _reset_or_snapshot(meta, table, slots, ranks, ladder, by_position, kind, size, previous):
    """Apply a row about the book as a whole: 0 or a fault code."""
    if kind == w.DOUBT or kind == w.CONFIRM:
        meta[w.DOUBTED] = kind == w.DOUBT
        return 0
    if kind == w.SETTLE:
        meta[w.BUILDING] = meta[w.SNAPSHOT]
        return 0
    if kind == w.EMPTY or kind == w.RESET or kind == w.SNAPSHOT_BEGIN:
        wipe(meta, table, slots, ranks, ladder, by_position)
        meta[w.STALE] = 0
        meta[w.SNAPSHOT] = meta[w.BUILDING] = kind == w.SNAPSHOT_BEGIN
        meta[w.BIDS_PUBLISHED] = size
        meta[w.ASKS_PUBLISHED] = previous
        return 0
    if meta[w.STALE]:
        return 0
    if kind != w.SNAPSHOT_END:
        return w.INTERRUPTED
    if not meta[w.SNAPSHOT]:
        return w.SNAPSHOT_NOT_BEGUN
    if meta[w.BIDS_PUBLISHED] != w.NULL and meta[w.BIDS_PUBLISHED] != meta[w.ORDERS]:
        return w.SNAPSHOT_INCOMPLETE
    if meta[w.ASKS_PUBLISHED] != w.NULL and meta[w.ASKS_PUBLISHED] != meta[w.ORDERS + 1]:
        return w.SNAPSHOT_INCOMPLETE
    meta[w.SNAPSHOT] = meta[w.BUILDING] = 0
    return 0


@part
def apply_row(
    by_position, market_depth, check, depth, meta, table, queue, slots, ranks, ladder,
    kind, side, flags, order_id, price, size, previous, position, firm, inserted,
):  # fmt: skip
    """Apply one row to a book: 0, or a fault code; the book is then stale.

    The caller has checked that slots are left.
    """
    code = np.int64(0)
    if kind > w.REMOVE_TOP and kind != w.SNAPSHOT_ORDER and kind != w.OVERLAY:
        code = np.int64(_reset_or_snapshot(
            meta, table, slots, ranks, ladder, by_position, kind, size, previous
        ))  # fmt: skip
    elif not meta[w.STALE]:
        if meta[w.SNAPSHOT] != (kind == w.SNAPSHOT_ORDER):
            if meta[w.SNAPSHOT]:
                code = np.int64(w.SNAPSHOT_INTERRUPTED)
            else:
                code = np.int64(w.SNAPSHOT_NOT_BEGUN)
        elif market_depth > 0:
            code = np.int64(apply_by_depth(
                meta, slots, ranks, ladder, market_depth, kind, np.int64(side), price, size,
                order_id, position,
            ))  # fmt: skip
        elif by_position:
            code = np.int64(apply_by_position(
                meta, queue, slots, ranks, ladder, depth, check, kind, np.int64(side), flags,
                order_id, price, size, previous, position, firm, inserted,
            ))  # fmt: skip
        else:
            code = np.int64(apply_by_priority(
                meta, table, slots, ranks, ladder, depth, check, kind, np.int64(side), flags,
                order_id, price, size, previous, position, firm, inserted,
            ))  # fmt: skip
        if kind != w.SNAPSHOT_ORDER:
            meta[w.BUILDING] = builds(kind, flags)
    if code != 0:
        meta[w.STALE] = 1
        meta[w.SNAPSHOT] = meta[w.BUILDING] = 0
    return code


@njit
def replay(
    by_position, market_depth, check, depth, first_row, start, stop, finish,
    kinds, sides, flags, instruments, events, order_ids, prices, sizes, previouses, positions,
    firms, inserteds,
    meta, table, queue, slots, ranks, ladder, top,
    tick_row, tick_event, tick_instrument, tick_state, tick_price, tick_size, tick_count,
    fault_row, fault_code,
    dump_at, dump_end, dump_state, dump_side, dump_id, dump_price, dump_size, dump_firm,
    dump_inserted, dump_implied,
):  # fmt: skip
    """Apply the rows from ``start`` to ``stop``; the state records the next row (NEXT_ROW).

    ``market_depth`` is 0 for books of orders; for books of levels ``by_position`` is also set.

    Rows are numbered from ``first_row`` in the output. A tick is written when the next row belongs
    to another event or instrument, or at ``stop`` if ``finish`` is set. The full book is written
    after each row listed in ``dump_at``, in order. The kernel stops early when an output or the
    book is full, and returns which.
    """
    i = start
    status = w.DONE
    by_depth = market_depth > 0
    instrument = meta[w.INSTRUMENT]
    event = meta[w.EVENT]
    started = meta[w.STARTED] != 0
    next_dump = dump_at[meta[w.DUMPS]] if meta[w.DUMPS] < len(dump_at) else w.HIGHEST
    while True:
        ended = i == stop
        while next_dump < first_row + i:
            if not dump(
                meta, queue, slots, ladder, by_position, by_depth, dump_end, dump_state, dump_side,
                dump_id, dump_price, dump_size, dump_firm, dump_inserted, dump_implied,
            ):  # fmt: skip
                status = w.DUMPS_FULL
                break
            next_dump = dump_at[meta[w.DUMPS]] if meta[w.DUMPS] < len(dump_at) else w.HIGHEST
        if status != w.DONE:
            break
        if started and depth > 0:
            over = finish if ended else events[u(i)] != event or instruments[u(i)] != instrument
            if over and (meta[w.DIRTY] or meta[w.DIRTY + 1] or _trust(meta) != meta[w.LAST_TRUST]):
                meta[w.EVENT] = event
                meta[w.ROW] = first_row + i - 1
                if meta[w.TICKS] == len(tick_row):
                    status = w.TICKS_FULL
                    break
                if _changed(meta, slots, ranks, ladder, top, depth):
                    _tick(
                        meta, top, depth, tick_row, tick_event, tick_instrument, tick_state,
                        tick_price, tick_size, tick_count,
                    )  # fmt: skip
        if ended:
            break
        if meta[w.FAULTS] == len(fault_row):
            status = w.FAULTS_FULL
            break
        if not started or instruments[u(i)] != instrument:
            wipe(meta, table, slots, ranks, ladder, by_position)
            instrument = instruments[u(i)]
            begin_book(meta, top, instrument)
            started = True
        if meta[w.SLOTS_LEFT] < w.SLOTS_PER_ROW:
            status = w.BOOK_FULL
            break
        at = u(i)
        event = events[at]
        kind = kinds[at]
        code = apply_row(
            by_position, market_depth, check, depth, meta, table, queue, slots, ranks, ladder,
            kind, sides[at], flags[at], order_ids[at], prices[at], sizes[at], previouses[at],
            positions[at], firms[at], inserteds[at],
        )  # fmt: skip
        if code != 0:
            fault_row[meta[w.FAULTS]] = first_row + i
            fault_code[meta[w.FAULTS]] = code
            meta[w.FAULTS] += 1
        i += 1
    meta[w.NEXT_ROW] = i
    meta[w.EVENT] = event
    meta[w.ROW] = first_row + i - 1
    return status


@njit
def enter_all(table, slots, ladder, counts):
    """Insert every order of a book by price and priority into an empty order map."""
    for side in range(2):
        for at in range(counts[side]):
            level = np.int64(ladder[u(bottom(ladder, side) + at)])
            first = slots[u(level + w.NEXT)]
            while first != level:
                enter(table, slots[u(first + w.KEY)] & w.HIGHEST, first)
                first = slots[u(first + w.NEXT)]
