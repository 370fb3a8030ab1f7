"""Layout of the arrays that the fast path shares with its kernel."""

from __future__ import annotations

# Words of the control block: first the addresses and lengths of the other arrays.
(
    TABLE_AT, IDS_AT, IDS, INSTRUMENTS_AT, ROWS_AT, ROWS_CAPACITY, STORE_AT, STORE_CAPACITY,
    TOUCHED_AT, CHANGED_AT, LINES_AT, LINES, SCRATCH_AT,
) = range(13)  # fmt: skip
# The state from which the kernel continues; the first four words are read together.
(
    VERSION, NEXT, SENDING, RECEIVED, CHANNEL, SCHEMA, WHOLE_SINCE, NOW, SINCE, LIMIT, PROGRESS,
    OUTDATED, MAX_LAG, EVENT, BEGINS, REQUESTED, SINGLY, VOUCHED,
) = range(13, 31)  # fmt: skip
# The results of the kernel.
(
    TOUCHED, CHANGED, ROWS, STORED, DELIVERED, MESSAGES, PACKETS, BYTES, STATUS, DETAIL, EVENT_AT,
) = range(31, 42)  # fmt: skip
FEEDS = 42
"""Followed by the words of each feed."""
FEED_WORDS = 6
FEED_PACKETS, FEED_FIRST, FEED_DUPLICATES, FEED_BEATS, FEED_REACHED, FEED_LAST_RECEIVED = range(
    FEED_WORDS
)
MAX_FEEDS = 8
CONTROL_WORDS = FEEDS + FEED_WORDS * MAX_FEEDS

MAX_BYTES = 0xFFFF
"""Maximum length of a datagram."""
MAX_MESSAGES = 8_192
"""More than the messages of a datagram of that length, each with its headers."""

# Why the kernel stopped.
DONE = 0
PLAIN = 1
"""The plain path must process the packet."""
INCONSISTENT = 2
"""The plain path must process the packet from message DETAIL on, an inconsistent update."""
BOOK_FULL = 3
"""The book of instrument DETAIL needs more capacity."""
ROWS_FULL = 4
"""The output rows must be taken first."""
EVENTS_PENDING = 5
"""A packet produced output, and the caller wants that of each packet separately."""

# Words of an instrument.
(
    META_AT, BOOK_TABLE_AT, SLOTS_AT, RANKS_AT, LADDER_AT, CAPACITY, STEADY, HAS_BOOK, LAST, NUMBER,
    KEY_NUMBER, KEY_INDEX, KEY_COUNT, TOUCH, CHANGE, SECURITY,
) = range(16)  # fmt: skip
INSTRUMENT_WORDS = 16
CHANGES, LISTED = 1, 2
"""Values of the word CHANGE: messages were processed; or that was read since, and the instrument is
still in the list of changed ones."""

# Words of an output row.
KIND, ITEM, ITEM_EVENT, ITEM_NUMBER, ITEM_SENDING, ITEM_RECEIVED, ITEM_BYTES, ITEM_HEADER = range(8)
"""The last one is the message's header, its eight bytes as one number."""
ROW_WORDS = 8
BOOK, MESSAGE = 0, 1

# Words of a template.
(
    USE, BLOCK, FLAGS_AT, SECURITY_AT, COUNT_AT, REPORTED, ACTION_AT, SIDE_AT, IMPLIED_BITS,
    POSITION_AT, NO_POSITION, ORDER_ID, PRICE, SIZE, PREVIOUS, FIRM, INSERTED,
) = range(17)  # fmt: skip
NULLS = 17
"""Followed by the nulls of the last six fields, in their order."""
DECIMALS = 23
"""Followed by the number of decimals and their offsets."""
MAX_DECIMALS = 10
NO_LOWEST = 1 << 32
"""A flag in the offset of a decimal: the lowest number is not its null."""
OFFSETS = 0xFFFF
"""Mask of the offset."""
TEMPLATE_WORDS = DECIMALS + 1 + MAX_DECIMALS
TEMPLATES = 256
ACTIONS_AT = TEMPLATES * TEMPLATE_WORDS
SIDES_AT = ACTIONS_AT + 256
TABLE_WORDS = SIDES_AT + 256

UNUSED, COUNTED, ORDERS, HEARTBEAT, BOOKLESS = 0, 1, 2, 3, 4
"""Use of a template's messages by the kernel. BOOKLESS ones concern no book and are too long for it
to read: it skips them if the caller has validated them."""
NULL_ROW = -2
"""Marks the end of a packet's messages, in the list of their instruments' offsets."""
NO_LIMIT = 1 << 40
"""Length of arrays whose length is not used."""

ABSENT = -1
"""The offset of a field that a template does not have."""
