"""Constants of Parquet and Thrift's compact protocol, and indexes into results of kernels."""

from __future__ import annotations

# Physical types of columns.
INT32, INT64, TEXT = 1, 2, 6

# Encodings of pages.
PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8

UNCOMPRESSED = 0

# Types of pages.
DATA_PAGE, DICTIONARY_PAGE = 0, 2

# Types of fields in a Thrift struct.
TRUE, FALSE, BYTE, SHORT, SMALL_NUMBER, NUMBER, DOUBLE, BINARY, LIST, SET, STRUCT = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12,
)  # fmt: skip
MAX_MEMBERS = 24
"""Maximum fields read of a struct; later ones are skipped."""
RECORD_FACTS = 2 * MAX_MEMBERS
"""Size of a parsed struct: the value or position of each field, then the type of each."""
DEEPEST = 12
"""Maximum nesting of structs and lists."""

PAGE_ROWS = 16_384
BLOCK = 128
"""Deltas in a block; each quarter of it is packed with its own bit width."""

# Columns of results about a column chunk, and about a page.
(
    AT, DICTIONARY_BYTES, BYTES, ROWS, NULLS, CODING, LOW, HIGH, FIRST_PAGE, PAGES, COLUMN,
    INDEX_AT, INDEX_BYTES, OFFSETS_AT, OFFSETS_BYTES, CHUNK_FACTS,
) = range(16)  # fmt: skip
PAGE_AT, PAGE_BYTES, PAGE_ROW, PAGE_NULLS, PAGE_LOW, PAGE_HIGH, PAGE_VALUES, PAGE_FACTS = range(8)

# Columns of the footer's facts about a row group, and about a column chunk.
GROUP_ROWS, GROUP_FACTS = range(2)
(
    KNOWN_KIND, KNOWN_CODEC, KNOWN_AT, KNOWN_BYTES, KNOWN_NULLS, KNOWN_BOUNDED, KNOWN_LOW,
    KNOWN_HIGH, KNOWN_FACTS,
) = range(9)  # fmt: skip
