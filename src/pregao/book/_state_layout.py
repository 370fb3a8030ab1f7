"""Constants shared by the book kernels: codes as plain integers, and the layout of the state."""

from __future__ import annotations

import numpy as np

from pregao.book import update_rows
from pregao.book.state import FaultCode, State

NULL = update_rows.NULL
IMPLIED = update_rows.IMPLIED
RECOVERY = update_rows.RECOVERY

# Kinds of rows.
ADD = int(update_rows.UpdateKind.ADD)
CHANGE = int(update_rows.UpdateKind.CHANGE)
DELETE = int(update_rows.UpdateKind.DELETE)
CLEAR_SIDE = int(update_rows.UpdateKind.CLEAR_SIDE)
REMOVE_TOP = int(update_rows.UpdateKind.REMOVE_TOP)
EMPTY = int(update_rows.UpdateKind.EMPTY)
RESET = int(update_rows.UpdateKind.RESET)
SNAPSHOT_BEGIN = int(update_rows.UpdateKind.SNAPSHOT_BEGIN)
SNAPSHOT_ORDER = int(update_rows.UpdateKind.SNAPSHOT_ORDER)
SNAPSHOT_END = int(update_rows.UpdateKind.SNAPSHOT_END)
DOUBT = int(update_rows.UpdateKind.DOUBT)
CONFIRM = int(update_rows.UpdateKind.CONFIRM)
SETTLE = int(update_rows.UpdateKind.SETTLE)
OVERLAY = int(update_rows.UpdateKind.OVERLAY)

# Fault codes.
UNKNOWN_ORDER = int(FaultCode.UNKNOWN_ORDER)
DUPLICATE_ORDER = int(FaultCode.DUPLICATE_ORDER)
WRONG_SIDE = int(FaultCode.WRONG_SIDE)
WRONG_PREVIOUS_SIZE = int(FaultCode.WRONG_PREVIOUS_SIZE)
WRONG_PRICE = int(FaultCode.WRONG_PRICE)
NO_ORDER_ID = int(FaultCode.NO_ORDER_ID)
POSITION_MISSING = int(FaultCode.POSITION_MISSING)
POSITION_BEYOND_END = int(FaultCode.POSITION_BEYOND_END)
OTHER_ORDER = int(FaultCode.OTHER_ORDER_AT_POSITION)
SNAPSHOT_INTERRUPTED = int(FaultCode.SNAPSHOT_INTERRUPTED)
SNAPSHOT_NOT_BEGUN = int(FaultCode.SNAPSHOT_NOT_BEGUN)
SNAPSHOT_INCOMPLETE = int(FaultCode.SNAPSHOT_INCOMPLETE)
INTERRUPTED = int(FaultCode.INTERRUPTED)
OVERLAY_BELOW_TOP = int(FaultCode.OVERLAY_BELOW_TOP)
FULL = -1
"""Not a fault: the state has no free slot, and nothing was changed."""

# States of a book.
STATE_EMPTY = int(State.EMPTY)
STATE_BUILDING = int(State.BUILDING)
STATE_VALID = int(State.VALID)
STATE_STALE = int(State.STALE)
STATE_UNCONFIRMED = int(State.UNCONFIRMED)

# Reasons why a replay stopped.
DONE = 0
TICKS_FULL = 1
FAULTS_FULL = 2
DUMPS_FULL = 3
BOOK_FULL = 4

# Words of the state.
STARTED, INSTRUMENT, EVENT, ROW = 0, 1, 2, 3
STALE, SNAPSHOT, BUILDING, LAST_TRUST, BIDS_PUBLISHED, ASKS_PUBLISHED = 4, 5, 6, 7, 8, 9
FREE_SLOT, USED_SLOTS, SLOTS_LEFT = 10, 11, 12
LEVELS, ORDERS, DIRTY = 13, 15, 17  # two words each, one per side
DOUBTED = 19
NEXT_ROW, TICKS, FAULTS, DUMPS, DUMPED_ORDERS = 20, 21, 22, 23, 24
STATE_WORDS = 32

# A slot fills one cache line. It contains an order or a level. A level has the totals of its
# orders and closes the ring of their queue, so that every link is always set.
SLOT_WORDS = 8
KEY, RANK, SIZE, INSERTED, FIRM, TAG, PREV, NEXT = 0, 1, 2, 3, 4, 5, 6, 7
COUNT = INSERTED
# The tag contains the slot of the order's level, whether the order is implied, and its side.
LEVEL_SHIFT = 2
IMPLIED_BIT = 1

SLOTS_PER_ROW = 3
"""Maximum number of slots one row uses: an order, a level, and the rest of a level it splits."""

NO_PRICE_RANK = 2**63 - 1
LOWEST = -(2**63)
HIGHEST = 2**63 - 1
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SCAN = 8
"""Levels from the top that are compared without a branch; each ladder has as many below it."""
