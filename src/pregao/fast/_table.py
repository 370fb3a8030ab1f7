"""Constants of the kernel's tables: columns, operators, kinds, flags, faults."""

from __future__ import annotations

from pregao.fast.model import MAX_ENTRIES as MAX_ENTRIES
from pregao.fast.model import TEXT_ALLOWANCE as TEXT_ALLOWANCE
from pregao.fast.model import TEXT_FACTOR as TEXT_FACTOR

# Operators, in the order in which the kernel tests them; then instructions that are not fields.
NONE, CONSTANT, DEFAULT, COPY, INCREMENT, DELTA, TAIL = range(7)
GROUP, END_GROUP, LEAVE, NEXT_MASK, END = range(7, 12)

# Columns of the table.
HEAD, COLUMN, MASK, SLOT, INITIAL, RUN, NODE, JUMP = range(8)
TABLE_WIDTH = 8
"""One cache line. HEAD has the operator in its low bits, then kind, tag and flags."""
KIND_SHIFT, TAG_SHIFT, FLAGS_SHIFT = 4, 8, 12

# Columns of the table of runs (adjacent optional parts). BY_BITS and BY_BYTES: number of absent
# parts by the number of matching presence map bits and null bytes. BITS_OF, BYTES_OF and NEXT_OF:
# bits, bytes and instructions of that number of parts.
BY_BITS, BY_BYTES, BITS_OF, BYTES_OF, NEXT_OF = 0, 65, 74, 91, 108
RUN_WIDTH = 125
MAX_PARTS = 16
MAX_NULLS = 8

SLACK = 8
"""Bytes that the buffer has after the last message, because eight are loaded at a time."""

# Kinds of values in the stream.
UNSIGNED, SIGNED, ASCII, BYTES, UNICODE = range(5)

# Flags.
NULLABLE = 1
HAS_BIT = 2
WIDE = 4
EXPONENT = 8
FOLLOWS = 16
"""Uses the previous instruction's bit: the mantissa of a decimal with one operator."""
LENGTH = 32
HAS_MAP = 64
HAS_INITIAL = 128
NUMERIC = 512
SIGNED_FIELD = 256
"""The field can be negative; the delta in the stream always can."""

# Columns of the table of templates and of nodes.
TEMPLATE_ID, FIRST, FIRST_NODE, LAST_NODE, RESET = range(5)
MASK_WORDS, FIRST_COLUMN, COLUMNS, CONSTANT_TEXT = range(4)
CAPACITY, USED, MASK_OFFSET = range(3)

# Result of a message.
(
    SOUND, ENDED, OVERLONG, OUT_OF_RANGE, UNKNOWN, NO_ID, NO_PREVIOUS, EMPTY_PREVIOUS, OTHER_KIND,
    DIFFERENCE, CONSUMED, NOT_UTF8, EXPONENT_RANGE, OVERLONG_TEXT, LONG_TEXT, PAST_END, ENTRIES,
    MANY_ENTRIES, MUCH_TEXT,
) = range(19)  # fmt: skip
WAITING = -1
"""Not decoded yet: the capacity for its rows was exhausted."""

# Indices of the state that is kept between calls.
GENERATION, LAST_ID, TEXT_USED, DONE = range(4)

MAX_TEXT = 0xFFFF
MAX_ARENA = (1 << 31) - 1
MAX_DEPTH = 160
CHARACTERS = 128
"""The arena begins with the ASCII characters, so texts of one character are not copied."""
