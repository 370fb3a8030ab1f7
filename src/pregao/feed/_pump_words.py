"""The numbers that the pump and its kernel share: what stands where in their arrays."""

from __future__ import annotations

# The words of the control block. First where everything else is.
(
    TABLE_AT, IDS_AT, IDS, INSTRUMENTS_AT, ROWS_AT, ROWS_ROOM, STORE_AT, STORE_ROOM, TOUCHED_AT,
    CHANGED_AT, LINES_AT, LINES, SCRATCH_AT,
) = range(13)  # fmt: skip
# What it goes on from; the first four of these are asked for together.
(
    VERSION, NEXT, SENDING, RECEIVED, CHANNEL, SCHEMA, WHOLE_SINCE, NOW, SINCE, LIMIT, PROGRESS,
    BEHIND, MOST_BEHIND, EVENT, BEGINS, WANTED, SINGLY, VOUCHED,
) = range(13, 31)  # fmt: skip
# What it has done.
(
    TOUCHED, CHANGED, ROWS, STORED, DELIVERED, MESSAGES, PACKETS, BYTES, STATUS, DETAIL, EVENT_AT,
) = range(31, 42)  # fmt: skip
FEEDS = 42
"""Then the words of each feed."""
FEED_WORDS = 6
FEED_PACKETS, FEED_FIRST, FEED_DUPLICATES, FEED_BEATS, FEED_REACHED, FEED_HEARD = range(FEED_WORDS)
MOST_FEEDS = 8
CONTROL_WORDS = FEEDS + FEED_WORDS * MOST_FEEDS

MOST_BYTES = 0xFFFF
"""No datagram is longer."""
MOST_MESSAGES = 8_192
"""A datagram of that length has fewer messages, each of which has its headers."""

# Why the pump stopped.
DONE = 0
PLAIN = 1
"""The packet is the plain machine's."""
MISFIT = 2
"""From its message DETAIL on it is the plain machine's: that one does not fit its book."""
BOOK_FULL = 3
"""The book of instrument DETAIL needs more room."""
ROWS_FULL = 4
"""What was told needs to be taken first."""
TOLD = 5
"""Something was told, and each event is wanted by itself."""

# The words of an instrument.
(
    META_AT, BOOK_TABLE_AT, SLOTS_AT, RANKS_AT, LADDER_AT, ROOM, STEADY, HAS_BOOK, LAST, NUMBER,
    KEY_NUMBER, KEY_INDEX, KEY_COUNT, TOUCH, CHANGE, SECURITY,
) = range(16)  # fmt: skip
INSTRUMENT_WORDS = 16
CHANGES, LISTED = 1, 2
"""The word CHANGE: messages were taken in; or that was asked for since, and it is still among those
that changed."""

# The words of what is told.
KIND, ITEM, ITEM_EVENT, ITEM_NUMBER, ITEM_SENDING, ITEM_RECEIVED, ITEM_BYTES, ITEM_HEADER = range(8)
"""The last one is the message's header, its eight bytes as one number."""
ROW_WORDS = 8
BOOK, MESSAGE = 0, 1

# The words of a template.
(
    USE, BLOCK, FLAGS_AT, SECURITY_AT, COUNT_AT, HEARD, ACTION_AT, SIDE_AT, IMPLIED_BITS,
    POSITION_AT, NO_POSITION, ORDER_ID, PRICE, SIZE, PREVIOUS, FIRM, INSERTED,
) = range(17)  # fmt: skip
NULLS = 17
"""Then the nulls of the last six, in their order."""
DECIMALS = 23
"""Then how many decimals it has, and where."""
MOST_DECIMALS = 10
NO_LOWEST = 1 << 32
"""A bit beside where a decimal is: the lowest number is not its null."""
OFFSETS = 0xFFFF
"""The bits that say where it is."""
TEMPLATE_WORDS = DECIMALS + 1 + MOST_DECIMALS
TEMPLATES = 256
ACTIONS_AT = TEMPLATES * TEMPLATE_WORDS
SIDES_AT = ACTIONS_AT + 256
TABLE_WORDS = SIDES_AT + 256

UNUSED, COUNTED, ORDERS, HEARTBEAT, BOOKLESS = 0, 1, 2, 3, 4
"""What the kernel does with a template's messages. Those that concern no book, and are too long
for it to read, it passes over if somebody vouches that they can be read."""
NULL_ROW = -2
"""Behind the last message of a packet, in place of where the words of its instrument are."""
NO_LIMIT = 1 << 40
"""The length of arrays whose length nobody asks for."""

ABSENT = -1
"""In place of where a field is that a template does not have."""
