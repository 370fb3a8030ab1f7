"""Kernels of FAST fields: operators, lookup of templates, texts and byte vectors.

The operators combine previous values with the stream. A previous value is known if its slot has the
current stamp and the tag of its kind; the stamp alone means that it is empty, a lower one that it
is undefined.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import load_u8, njit, part
from pregao.fast import _table as k
from pregao.fast._wire_kernels import U1, added, ascii_text, combined, fits, grown, long_number

# mypy: disallow-untyped-defs=False, disallow-untyped-calls=False, check-untyped-defs=False
# mypy: disallow-untyped-decorators=False


@part
def without_bytes(code, pc, op, flags, stamps, previous, stamp):
    """Apply copy, increment or tail if the stream has no value; return presence, value and fault.

    It serves numbers and texts: a text is copied by its offset in the arena.
    """
    slot = code[pc, k.SLOT]
    tag = code[pc, k.HEAD] >> k.TAG_SHIFT & 15
    known = stamps[slot]
    value = np.int64(0)
    if known == stamp | tag:
        value = previous[slot]
        if op == k.INCREMENT:
            if flags & k.WIDE:
                value = np.int64(np.uint64(value) + U1)
            elif flags & k.SIGNED_FIELD:
                value = value + 1 if value != 0x7FFFFFFF else -(1 << 31)
            else:
                value = value + 1 if value != 0xFFFFFFFF else 0
            previous[slot] = value
        return True, value, np.int64(k.SOUND)
    if known > stamp:
        return False, value, np.int64(k.OTHER_KIND)
    if known < stamp and flags & k.HAS_INITIAL:
        value = code[pc, k.INITIAL]
        stamps[slot] = stamp | tag
        previous[slot] = value
        return True, value, np.int64(k.SOUND)
    if flags & k.NULLABLE:
        stamps[slot] = stamp
        return False, value, np.int64(k.SOUND)
    return False, value, np.int64(k.NO_PREVIOUS)


@part
def _base(code, pc, stamps, previous, stamp, tag):
    """Return the base value of a delta, and the fault; callers decide on an empty base."""
    slot = code[pc, k.SLOT]
    known = stamps[slot]
    if known == stamp | tag:
        return previous[slot], np.int64(k.SOUND)
    if known == stamp:
        return code[pc, k.INITIAL], np.int64(k.EMPTY_PREVIOUS)
    if known > stamp:
        return code[pc, k.INITIAL], np.int64(k.OTHER_KIND)
    return code[pc, k.INITIAL], np.int64(k.SOUND)


@part
def number_difference(code, pc, flags, stamps, previous, stamp, tag, value, high):
    """Apply a delta to a number; return the number and the fault."""
    base, fault = _base(code, pc, stamps, previous, stamp, tag)
    if fault != k.SOUND:
        return value, fault
    signed = flags & k.SIGNED_FIELD != 0
    total, high = added(base, np.uint64(value), high, signed)
    if not fits(total, high, signed, flags & k.WIDE != 0):
        return value, np.int64(k.DIFFERENCE)
    slot = code[pc, k.SLOT]
    stamps[slot] = stamp | tag
    previous[slot] = np.int64(total)
    return np.int64(total), np.int64(k.SOUND)


@njit
def text_difference(
    code, pc, op, stamps, previous, stamp, tag, taken, value, arena, text_used, left
):  # fmt: skip
    """Apply a delta or tail to a text, at the end of the arena.

    ``left`` is the number of bytes of the message not yet decoded. Return the arena, which may have
    grown, its used size, the text and the fault.
    """
    base, fault = _base(code, pc, stamps, previous, stamp, tag)
    if fault == k.EMPTY_PREVIOUS and op != k.DELTA:
        fault = np.int64(k.SOUND)  # the base of a tail is then the initial value
    if fault != k.SOUND:
        return arena, text_used, value, fault
    size = value & 0xFFFFFFFF
    length = base & 0xFFFFFFFF
    front = True
    if op == k.TAIL:
        taken = min(size, length)
    elif taken < 0:
        front = False
        taken = -taken - 1
    if taken > length:
        return arena, text_used, value, np.int64(k.CONSUMED)
    if taken < length or op == k.DELTA:
        whole = length - taken + size
        needed = size + whole + left + k.SLACK
        too_long = op == k.DELTA and whole > k.MAX_TEXT
        if too_long or text_used + needed > k.MAX_ARENA:
            return arena, text_used, value, np.int64(k.LONG_TEXT)
        arena = grown(arena, text_used, needed)
        # Copy the new piece to the end of the arena.
        for b in range(size):
            arena[text_used + b] = arena[(value >> 32) + b]
        text_start, whole = combined(arena, text_used, base, taken, size, front)
        text_used = text_start + whole
        value = (text_start << 32) | whole
    return arena, text_used, value, np.int64(k.SOUND)


@part
def has_capacity(nodes, template, templates, entries):
    """Whether the rows of a message with at most ``entries`` entries per sequence fit."""
    first, last = templates[template, k.FIRST_NODE], templates[template, k.LAST_NODE]
    if nodes[k.CAPACITY, first] - nodes[k.USED, first] < 1:
        return False
    enough = True
    for node in range(first + 1, last):
        enough &= nodes[k.CAPACITY, node] - nodes[k.USED, node] >= entries
    return enough


@part
def template_of(templates, template_id, last):
    """Return the template of an id, usually the previous message's; -1 if there is none."""
    if last >= 0 and templates[last, k.TEMPLATE_ID] == template_id:
        return last
    for template in range(len(templates)):
        if templates[template, k.TEMPLATE_ID] == template_id:
            return template
    return np.int64(-1)


@part
def _remove_tail(buffer, position, end, nullable):
    """Read the subtraction length of a delta; return presence, length, end and fault."""
    if position >= end:
        return True, np.int64(0), position, np.int64(k.ENDED)
    byte = load_u8(buffer, position)
    if byte > 127:
        position += 1
        taken = np.int64(byte & 127)
        if taken & 64:
            taken -= 128
    else:
        low, high, position, fault = long_number(buffer, position, end, True)
        taken = np.int64(low)
        if fault != k.SOUND:
            return True, taken, position, fault
        if high != taken >> 63:
            return True, taken, position, np.int64(k.OUT_OF_RANGE)
    if nullable:
        if taken == 0:
            return False, taken, position, np.int64(k.SOUND)
        if taken > 0:
            taken -= 1
    if taken < -(1 << 31) or taken >= 1 << 31:
        return True, taken, position, np.int64(k.OUT_OF_RANGE)
    return True, taken, position, np.int64(k.SOUND)


@part
def piece_of_text(buffer, position, end, kind, op, flags, arena, text_used):
    """Copy a text, or the piece of a delta or tail, to the end of the arena.

    Return presence, offset and size as one value, the subtraction length of a delta, the end
    position, the used size of the arena, and the fault.
    """
    nullable = flags & k.NULLABLE
    present = True
    value = taken = np.int64(0)
    fault = np.int64(k.SOUND)
    if op == k.DELTA:
        present, taken, position, fault = _remove_tail(buffer, position, end, nullable)
        if fault != k.SOUND or not present:
            return present, value, taken, position, text_used, fault
        nullable = 0
    if position >= end:
        return present, value, taken, position, text_used, np.int64(k.ENDED)
    byte = load_u8(buffer, position)
    if kind == k.ASCII:
        if byte > 127:
            position += 1
            if byte > 128:
                value = (np.int64(byte & 127) << 32) | 1
            else:
                present = nullable == 0
        else:
            size, position, fault = ascii_text(buffer, position, end, nullable, arena, text_used)
            value = (text_used << 32) | size
            text_used += size
        return present, value, taken, position, text_used, fault
    size = np.int64(byte & 127)
    if byte > 127:
        position += 1
        if nullable:
            present = size != 0
            size -= 1
    else:
        low, high, position, fault = long_number(buffer, position, end, False)
        size = np.int64(low) - nullable
        if fault == k.SOUND and (high != 0 or size < 0 or size > 0xFFFFFFFF):
            fault = np.int64(k.OUT_OF_RANGE)
    if present and fault == k.SOUND:
        if size > end - position:
            return present, value, taken, position, text_used, np.int64(k.PAST_END)
        for b in range(size):
            arena[text_used + b] = load_u8(buffer, position + b)
        position += size
        value = (text_used << 32) | size
        text_used += size
    return present, value, taken, position, text_used, fault
