"""Numbers of the Parquet format and of Thrift's compact form, and places in what kernels tell."""

from __future__ import annotations

# Kinds of columns.
INT32, INT64, TEXT = 1, 2, 6

# How pages are coded.
PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8

UNCOMPRESSED = 0

# Kinds of pages.
DATA_PAGE, DICTIONARY_PAGE = 0, 2

# Kinds of members in a record.
TRUE, FALSE, BYTE, SHORT, SMALL_NUMBER, NUMBER, DOUBLE, BINARY, LIST, SET, STRUCT = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12,
)  # fmt: skip
MOST_MEMBERS = 24
"""Members that a record has at most; what comes behind them is passed over."""
RECORD_FACTS = 2 * MOST_MEMBERS
"""What is found of a record: the value or position of each member, then the kind of each."""
DEEPEST = 12
"""Records and lists in one another."""

PAGE_ROWS = 16_384
BLOCK = 128
"""Differences in a block; each quarter of it is packed with as many bits as it needs."""

# What is known of a chunk of a column, and of a page of it.
(
    AT, DICTIONARY_BYTES, BYTES, ROWS, NULLS, CODING, LOW, HIGH, FIRST_PAGE, PAGES, COLUMN,
    INDEX_AT, INDEX_BYTES, PLACES_AT, PLACES_BYTES, CHUNK_FACTS,
) = range(16)  # fmt: skip
PAGE_AT, PAGE_BYTES, PAGE_ROW, PAGE_NULLS, PAGE_LOW, PAGE_HIGH, PAGE_VALUES, PAGE_FACTS = range(8)

# What the end of a file tells of a row group, and of a column in it.
GROUP_ROWS, GROUP_FACTS = range(2)
(
    KNOWN_KIND, KNOWN_CODEC, KNOWN_AT, KNOWN_BYTES, KNOWN_NULLS, KNOWN_BOUNDED, KNOWN_LOW,
    KNOWN_HIGH, KNOWN_FACTS,
) = range(9)  # fmt: skip
