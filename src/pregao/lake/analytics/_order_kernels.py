"""Kernel of the histories of orders: messages, snapshots and losses in, one row per order out.

The book is kept with the parts of the book kernels, so that positions have one meaning. State is in
flat arrays that continue from window to window. The plain twin is in the tests.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import njit, part
from pregao.book import kernel_parts as b
from pregao.book import update_rows
from pregao.umdf.gaps import GapStep

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False

NULL = update_rows.NULL
IMPLIED = update_rows.IMPLIED
RECOVERY = update_rows.RECOVERY
ADD, CHANGE, DELETE, CLEAR_SIDE, REMOVE_TOP, EMPTY, RESET = (
    int(update_rows.UpdateKind[name])
    for name in ("ADD", "CHANGE", "DELETE", "CLEAR_SIDE", "REMOVE_TOP", "EMPTY", "RESET")
)
SNAPSHOT_ORDER = int(update_rows.UpdateKind.SNAPSHOT_ORDER)
INTERRUPT = int(update_rows.UpdateKind.INTERRUPT)
_GAP, _RESTART, _EMPTIES = int(GapStep.GAP), int(GapStep.RESTART), int(GapStep.EMPTIES)
LAST_APPLIED = _RESTART
"""Last step of a message that applies to its book."""

SNAPSHOT = 3
"""Action of an order of a loaded snapshot; the others are ADD, CHANGE and DELETE."""

# Why an order left the book, or is not known to be in it.
STANDS, FILLED, CANCELLED, SIDE_CANCELLED, BOOK_EMPTIED, UNOBSERVED = range(6)

# Columns of a life.
(
    RANK, ID, SIDE, FIRM, IMPLIED_FLAG, PRICE, FIRST_SIZE, ORIGIN, ENTRY_SEEN, ENTERED, QUEUE,
    CHANGES, REDUCTIONS, REDUCED, FILLS, FILLED_SIZE, UNSEEN, LAST_CHANGE, LEFT, ENDED, REASON,
    REPLENISHES, CHAIN, CHAIN_POSITION, EVENT, SERIAL, END_EVENT, CLEARINGS, NEAR, LIFE_WORDS,
) = range(30)  # fmt: skip

# Columns of an act.
(
    ACT_SERIAL, ACT_EVENT, ACT_ID, ACT_SIDE, ACT_ACTION, ACT_PRICE, ACT_SIZE, ACT_FILLED,
    ACT_RECOVERY, ACT_POSITION, ACT_AGGRESSOR, ACT_TIME, ACT_WORDS,
) = range(13)  # fmt: skip

# Columns of a clearing.
CLEAR_SERIAL, CLEAR_TIME, CLEAR_EVENT, CLEAR_REASON, CLEAR_WORDS = range(5)

# Words of the state; CLEARED has one for each side.
(
    NEXT, INSTRUMENT, OPEN_EVENT, OPEN_MOMENT, GROUP, LIVES, FIRST_LIFE, PENDING, ENDED_NOW, ACTS,
    CLEARED, CLEARED_ASKS, STATE_WORDS,
) = range(13)  # fmt: skip

DONE, BOOK_FULL, LIVES_FULL, ACTS_FULL = range(4)
"""Reasons why the kernel returned."""

u = np.uint64
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@part
def _bucket_of(lives, table, rank, order_id):
    """Return the bucket of an order in the map of lives; an empty one if it is unknown."""
    mask = len(table) - 1
    key = np.uint64(order_id + (rank << 40)) * _GOLDEN
    at = np.int64(key >> np.uint64(32)) & mask
    while table[u(at)] != 0:
        life = table[u(at)] - 1
        if lives[u(life), ID] == order_id and lives[u(life), RANK] == rank:
            break
        at = (at + 1) & mask
    return at


@njit
def enter_lives(lives, count, table):
    """Insert lives into an empty map; the last one of an order replaces earlier ones."""
    for life in range(count):
        bucket = _bucket_of(lives, table, lives[u(life), RANK], lives[u(life), ID])
        table[u(bucket)] = life + 1


@part
def _clear(state, clearings, side, serial, time, event, reason):
    """Note that the orders of a side, or of both, left the book or became unknown."""
    for own in range(2):
        if side == own or side == 2:
            at = state[u(CLEARED + own)]
            state[u(CLEARED + own)] = at + 1
            clearings[own, u(at), CLEAR_SERIAL] = serial
            clearings[own, u(at), CLEAR_TIME] = time
            clearings[own, u(at), CLEAR_EVENT] = event
            clearings[own, u(at), CLEAR_REASON] = reason


@part
def _settle(state, meta, table, queue, slots, ladder, by_position, lives, pending):
    """Set the queue positions of the orders that entered in the event that has ended."""
    for at in range(state[PENDING]):
        life = pending[u(at)]
        if lives[u(life), REASON] == STANDS and meta[b.STALE] == 0:
            place = b.place_at_price(
                meta, table, queue, slots, ladder, by_position, lives[u(life), SIDE],
                lives[u(life), ID], lives[u(life), NEAR],
            )  # fmt: skip
            if place > 0:
                lives[u(life), QUEUE] = place
    state[PENDING] = 0


@part
def _finish(state, lives, clearings):
    """Set the ends of the orders that left the book with their side."""
    for life in range(state[FIRST_LIFE], state[LIVES]):
        at = u(life)
        side = lives[at, SIDE]
        clearing = lives[at, CLEARINGS]
        if lives[at, REASON] == STANDS and clearing < state[u(CLEARED + side)]:
            lives[at, REASON] = clearings[u(side), u(clearing), CLEAR_REASON]
            lives[at, ENDED] = clearings[u(side), u(clearing), CLEAR_TIME]
            lives[at, END_EVENT] = clearings[u(side), u(clearing), CLEAR_EVENT]
    state[FIRST_LIFE] = state[LIVES]


@part
def _group_of(starts, moments, rank, moment):
    """Return the trades of an event, or of a time on a feed without events; -1 without any."""
    if moment == NULL:
        return np.int64(-1)
    low, high = starts[u(rank)], starts[u(rank + 1)]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if moments[u(middle)] < moment:
            low = middle + 1
        else:
            high = middle
    return low if low < end and moments[u(low)] == moment else np.int64(-1)


@part
def _act(
    state, lives, table, ended_now, pending, acts, volumes, traded_at, aggressors, used, group,
    rank, order_id, side, action, recovery, price, size, stated, firm, inserted, implied,
    position, serial, event, time, counted,
):  # fmt: skip
    """Process an update of an order.

    ``stated`` is the size before it. ``counted`` states that its reduction is in ``used`` already.
    """
    bucket = _bucket_of(lives, table, rank, order_id)
    life = table[u(bucket)] - 1
    adds = action in (ADD, SNAPSHOT)
    begins = life < 0 or lives[u(life), REASON] != STANDS
    left = NULL if begins else lives[u(life), LEFT]
    before = left if stated == NULL else stated
    # A size that is stated again shows what was missed.
    shown = size if action == SNAPSHOT or (action == ADD and recovery) else stated
    less = np.int64(0)
    if action == CHANGE:
        less = max(before - size, 0) if before != NULL and size != NULL else np.int64(0)
    elif action == DELETE:
        less = before
    filled = False
    aggressor = np.int64(2)
    if group >= 0:
        aggressor = aggressors[u(group)]
    if group >= 0 and not adds and serial > traded_at[u(group)] and side != aggressor:
        if not counted and less != NULL:
            used[u(group), u(side)] += less
        # Where the size of a deletion is optional, it is absent exactly after a trade.
        unsized = action == DELETE and stated == NULL
        within = volumes[u(group)] != NULL and used[u(group), u(side)] <= volumes[u(group)]
        filled = unsized if less == NULL else less > 0 and (within or unsized)
    if begins:
        life = state[LIVES]
        state[LIVES] = life + 1
        table[u(bucket)] = life + 1
        at = u(life)
        gone = action == DELETE
        lives[at, RANK] = rank
        lives[at, ID] = order_id
        lives[at, SIDE] = side
        lives[at, FIRM] = NULL if gone else firm
        lives[at, IMPLIED_FLAG] = NULL if gone else implied
        lives[at, PRICE] = price
        # A change or end as the first message of an order has its size before.
        known_before = not adds and before != NULL
        lives[at, FIRST_SIZE] = before if known_before else NULL if gone else size
        lives[at, ORIGIN] = action
        lives[at, ENTRY_SEEN] = action == ADD and not recovery
        lives[at, ENTERED] = NULL if gone else inserted
        lives[at, QUEUE] = NULL
        lives[at, CHANGES] = lives[at, REDUCTIONS] = lives[at, REDUCED] = 0
        lives[at, FILLS] = lives[at, FILLED_SIZE] = lives[at, UNSEEN] = 0
        lives[at, LAST_CHANGE] = lives[at, LEFT] = lives[at, ENDED] = NULL
        lives[at, REASON] = STANDS
        lives[at, REPLENISHES] = lives[at, CHAIN] = lives[at, CHAIN_POSITION] = NULL
        lives[at, EVENT] = event
        lives[at, SERIAL] = serial
        lives[at, END_EVENT] = NULL
        lives[at, NEAR] = 0
        if lives[at, ENTRY_SEEN]:
            lives[at, NEAR] = 0 if position == NULL else position
            pending[u(state[PENDING])] = life
            state[PENDING] += 1
            if group >= 0 and volumes[u(group)] != NULL:
                _link(state, lives, ended_now, life)
    at = u(life)
    if left != NULL and shown != NULL:
        lives[at, UNSEEN] += left - shown
    if action == CHANGE:
        lives[at, CHANGES] += 1
        lives[at, LAST_CHANGE] = time
        if not filled and less > 0:
            lives[at, REDUCTIONS] += 1
            lives[at, REDUCED] += less
    if filled:
        lives[at, FILLS] += 1
        if less == NULL:
            lives[at, FILLED_SIZE] = NULL
        elif lives[at, FILLED_SIZE] != NULL:
            lives[at, FILLED_SIZE] += less
    lives[at, LEFT] = size
    lives[at, CLEARINGS] = state[u(CLEARED + lives[at, SIDE])]
    if action == DELETE:
        lives[at, LEFT] = before
        lives[at, ENDED] = time
        lives[at, END_EVENT] = event
        lives[at, REASON] = FILLED if filled else CANCELLED
        if filled:
            ended_now[u(state[ENDED_NOW])] = life
            state[ENDED_NOW] += 1
    if len(acts):
        row = state[ACTS]
        state[ACTS] = row + 1
        acts[row, ACT_SERIAL] = serial
        acts[row, ACT_EVENT] = event
        acts[row, ACT_ID] = order_id
        acts[row, ACT_SIDE] = side
        acts[row, ACT_ACTION] = action
        acts[row, ACT_PRICE] = price
        acts[row, ACT_SIZE] = size
        acts[row, ACT_FILLED] = filled
        acts[row, ACT_RECOVERY] = recovery
        acts[row, ACT_POSITION] = position
        acts[row, ACT_AGGRESSOR] = aggressor
        acts[row, ACT_TIME] = time


@part
def _link(state, lives, ended_now, life):
    """Link an order to the last filled one of its firm, side and price in its event."""
    at = u(life)
    if lives[at, PRICE] == NULL or lives[at, FIRM] == NULL:
        return
    for index in range(state[ENDED_NOW] - 1, -1, -1):
        other = u(ended_now[u(index)])
        if (
            lives[other, SIDE] == lives[at, SIDE]
            and lives[other, PRICE] == lives[at, PRICE]
            and lives[other, FIRM] == lives[at, FIRM]
        ):
            if lives[other, CHAIN] == NULL:
                lives[other, CHAIN] = lives[other, ID]
                lives[other, CHAIN_POSITION] = 1
            lives[at, REPLENISHES] = lives[other, ID]
            lives[at, CHAIN] = lives[other, CHAIN]
            lives[at, CHAIN_POSITION] = lives[other, CHAIN_POSITION] + 1
            return


@njit
def follow_orders(
    stop, last, by_position, named,
    ranks, serials, events, steps, book_rows, snapshot_firsts, snapshot_ends,
    kinds, sides, flags, order_ids, prices, sizes, previouses, positions, firms, inserteds,
    implieds, times,
    starts, moments, volumes, traded_at, aggressors, used,
    meta, book_map, queue, slots, price_ranks, ladder, top,
    state, lives, life_map, ended_now, pending, clearings, removed, acts,
):  # fmt: skip
    """Process items up to ``stop``, from the one in the state; return why it stopped.

    Items are sorted by instrument: messages, each with a row of the book columns, snapshots that
    are loaded, with the rows from ``snapshot_firsts`` to ``snapshot_ends``, and others that affect
    a book by their step. If not ``named``, only a new order has a number, and trades are found by
    time instead of event. The trades of each instrument's moments are sorted, from ``starts``.
    The last two rows of the columns interrupt and empty a book. ``last`` states that no items
    follow.
    """
    status = DONE
    i = state[NEXT]
    while i < stop:
        at = u(i)
        rank = ranks[at]
        book_row = book_rows[at]
        first, end = snapshot_firsts[at], snapshot_ends[at]
        slots_needed = b.SLOTS_PER_ROW * max(end - first, 1)
        capacity = len(slots) // b.SLOT_WORDS
        if capacity < slots_needed or meta[b.SLOTS_LEFT] < b.SLOTS_PER_ROW:
            status = BOOK_FULL
            break
        if state[INSTRUMENT] != rank:
            if state[INSTRUMENT] >= 0:
                _settle(state, meta, book_map, queue, slots, ladder, by_position, lives, pending)
                _finish(state, lives, clearings)
            b.wipe(meta, book_map, slots, price_ranks, ladder, by_position)
            b.begin_book(meta, top, rank)
            state[INSTRUMENT] = rank
            state[CLEARED] = state[CLEARED + 1] = 0
            state[OPEN_EVENT] = state[OPEN_MOMENT] = NULL
            state[GROUP] = -1
            state[ENDED_NOW] = 0
        event = events[at]
        if event >= 0 and event != state[OPEN_EVENT]:
            _settle(state, meta, book_map, queue, slots, ladder, by_position, lives, pending)
            state[OPEN_EVENT] = event
        kind = np.int64(-1)
        order_rows = np.int64(1)
        if book_row >= 0:
            kind = np.int64(kinds[u(book_row)])
            if kind == REMOVE_TOP:
                order_rows = max(positions[u(book_row)], 1)
        order_rows = min(order_rows, meta[b.ORDERS] + meta[b.ORDERS + 1] + 1)
        order_rows = max(order_rows, end - first)
        if state[LIVES] + order_rows > len(lives):
            status = LIVES_FULL
            break
        if len(acts) and state[ACTS] + order_rows > len(acts):
            status = ACTS_FULL
            break
        i += 1
        step = steps[at]
        serial = serials[at]
        # Rows that state nothing but their kind are after all others.
        before = np.int64(-1)
        if step == _GAP:
            before = len(kinds) - 2
        elif step in (_RESTART, _EMPTIES):
            before = len(kinds) - 1
        if before == len(kinds) - 1 or first < end:
            _clear(state, clearings, 2, serial - 1, NULL, NULL, UNOBSERVED)
        bids = asks = np.int64(0)
        for index in range(-1, end - first + 1):
            row = first + index
            if index < 0:
                row = before
            elif row == end:
                row = book_row
            if row < 0:
                continue
            r = u(row)
            kind = np.int64(kinds[r])
            side = np.int64(sides[r])
            order_id, size, stated = order_ids[r], sizes[r], previouses[r]
            position = positions[r]
            time = times[r]
            group = np.int64(-1)
            known = meta[b.STALE] == 0
            count = np.int64(0)
            if kind == SNAPSHOT_ORDER:
                count = np.int64(order_id != NULL)
                bids += side == 0
                asks += side == 1
                position = bids if side == 0 else asks
                stated = time = np.int64(NULL)
            elif row == book_row:
                moment = event if named else time
                if moment != state[OPEN_MOMENT]:
                    state[OPEN_MOMENT] = moment
                    state[GROUP] = _group_of(starts, moments, rank, moment)
                    state[ENDED_NOW] = 0
                group = state[GROUP]
                if kind == REMOVE_TOP:
                    known = known and 1 <= position <= meta[u(b.ORDERS + side)]
                    if known:
                        count = position
                        b.first_orders(
                            meta, queue, slots, ladder, by_position, side, count, removed[0]
                        )
                    for k in range(count):
                        slot = removed[0, u(k)]
                        removed[1, u(k)] = slots[u(slot + b.KEY)]
                        removed[2, u(k)] = slots[u(slot + b.SIZE)]
                elif not named and kind in (CHANGE, DELETE):
                    stated = np.int64(NULL)
                    slot = b.order_at(meta, queue, side, position)
                    if known and slot >= 0:
                        stated = slots[u(slot + b.SIZE)]
                        if kind == DELETE or order_id == NULL:
                            order_id = slots[u(slot + b.KEY)]
                elif kind in (EMPTY, RESET):
                    _clear(state, clearings, 2, serial, time, event, BOOK_EMPTIED)
                elif kind == CLEAR_SIDE:
                    _clear(state, clearings, side, serial, time, event, SIDE_CANCELLED)
                if kind <= DELETE:
                    count = np.int64(order_id != NULL)
            b.apply_row(
                by_position, 0, True, 0, meta, book_map, queue, slots, price_ranks, ladder,
                kind, side, flags[r], order_ids[r], prices[r], size, previouses[r], positions[r],
                firms[r], inserteds[r],
            )  # fmt: skip
            # Messages about orders with a number are read while the book is unknown.
            reads = kind == SNAPSHOT_ORDER or (named and kind <= DELETE)
            if not reads and not (known and meta[b.STALE] == 0):
                count = np.int64(0)
            action = SNAPSHOT if kind == SNAPSHOT_ORDER else min(kind, DELETE)
            removes = kind == REMOVE_TOP
            if removes:
                position = size = np.int64(NULL)
            counted = removes and not named
            if counted and group >= 0 and serial > traded_at[u(group)]:
                for k in range(count):
                    used[u(group), u(side)] += removed[2, u(k)]
            for k in range(count):
                if removes:
                    order_id = removed[1, u(k)]
                    if not by_position:
                        order_id &= b.HIGHEST
                    if order_id == NULL:
                        continue
                    if not named:
                        stated = removed[2, u(k)]
                _act(
                    state, lives, life_map, ended_now, pending, acts, volumes, traded_at,
                    aggressors, used, group, rank, order_id, side, action,
                    (flags[r] & RECOVERY) != 0, prices[r], size, stated, firms[r], inserteds[r],
                    implieds[r], position, serial, NULL if kind == SNAPSHOT_ORDER else event,
                    time, counted,
                )  # fmt: skip
    state[NEXT] = i
    if status == DONE and last and state[INSTRUMENT] >= 0:
        _settle(state, meta, book_map, queue, slots, ladder, by_position, lives, pending)
        _finish(state, lives, clearings)
    return status


@njit
def first_reports(securities, orders, entered, of_security, of_order, times, chosen):
    """Find the report about the entry of each order: the last one up to it, or the first of all.

    Orders and reports are sorted by instrument and number, reports then by time.
    """
    first = 0
    for i in range(len(orders)):
        while first < len(of_order) and (
            of_security[first] < securities[i]
            or (of_security[first] == securities[i] and of_order[first] < orders[i])
        ):
            first += 1
        at = first
        latest = np.int64(NULL)
        while at < len(of_order) and of_order[at] == orders[i] and of_security[at] == securities[i]:
            later = latest < times[at] <= entered[i]
            if at == first or later:
                chosen[i] = at
            if later:
                latest = times[at]
            at += 1
