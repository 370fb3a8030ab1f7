"""The kernel that turns many FAST messages into flat columns: an interpreter of a table.

The table of instructions is made from the templates (`_program`); one kernel serves them all.
Every template, and every sequence of one, is a *node* that rows are appended to. A column of a node
is a stretch of the array of values; each row has a mask of what is present. Texts are pieces of an
arena: a value holds the place in its upper and the size in its lower half. Previous values have a
stamp, so that all are forgotten by counting up.

Everything that comes from a message and is used as an index is checked here.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import leading_zeros, load_u8, load_u64, njit, swapped, trailing_zeros

# Operators, in the order that the kernel tells them apart; then what is no field.
NONE, CONSTANT, DEFAULT, COPY, INCREMENT, DELTA, TAIL = range(7)
GROUP, END_GROUP, LEAVE, NEXT_MASK, END = range(7, 12)

# Columns of the table.
HEAD, COLUMN, MASK, SLOT, INITIAL, RUN, NODE, JUMP = range(8)
TABLE_WIDTH = 8
"""A cache line. The head is the operator, and above it kind, tag and flags."""
KIND_SHIFT, TAG_SHIFT, FLAGS_SHIFT = 4, 8, 12

# Columns of the table of runs: parts that may all be absent. Where so many bits of the presence
# map, or so many bytes of nulls, are as if they were, so many parts are absent; then what so many
# parts take: bits, bytes and instructions.
BY_BITS, BY_BYTES, BITS_OF, BYTES_OF, NEXT_OF = 0, 65, 74, 91, 108
RUN_WIDTH = 125
MOST_PARTS = 16
MOST_NULLS = 8

SLACK = 8
"""Bytes that the buffer has behind the last message: eight are loaded at once."""

# Kinds of what is in the stream.
UNSIGNED, SIGNED, ASCII, BYTES, UNICODE = range(5)

# Flags.
NULLABLE = 1
HAS_BIT = 2
WIDE = 4
EXPONENT = 8
FOLLOWS = 16
"""The bit is the one of the instruction before: the mantissa of a decimal with one operator."""
LENGTH = 32
HAS_MAP = 64
HAS_INITIAL = 128
NUMERIC = 512
SIGNED_FIELD = 256
"""The field can be negative; a difference in the stream always can."""

# Columns of the table of templates and of nodes.
TEMPLATE_ID, FIRST, FIRST_NODE, LAST_NODE, RESET = range(5)
MASK_WORDS, FIRST_COLUMN, COLUMNS = range(3)
ROOM, USED, MASK_PLACE = range(3)

# What became of a message.
(
    SOUND, ENDED, OVERLONG, OUT_OF_RANGE, UNKNOWN, NO_ID, NO_PREVIOUS, EMPTY_PREVIOUS, OTHER_KIND,
    DIFFERENCE, TAKEN, NOT_UTF8, EXPONENT_RANGE, OVERLONG_TEXT, LONG_TEXT, PAST_END, ENTRIES,
) = range(17)  # fmt: skip
WAITING = -1
"""Not decoded yet: there was no room for its rows."""

# Places of the state that goes from call to call.
GENERATION, LAST_ID, TEXT_USED, DONE = range(4)

MAX_TEXT = 0xFFFF
MAX_ARENA = (1 << 31) - 1
MAX_DEPTH = 160
CHARACTERS = 128
"""The arena begins with the ASCII characters: a text of one is not copied."""

_MANY = np.int64(1) << 40
_NULLS = np.uint64(0x8080808080808080)
_U1, _U7, _U63, _U64 = np.uint64(1), np.uint64(7), np.uint64(63), np.uint64(64)
_SEVEN = np.uint64(0x7F)
_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_EVEN7, _ODD7 = np.uint64(0x7F007F007F007F00), np.uint64(0x007F007F007F007F)
_EVEN14, _ODD14 = np.uint64(0x3FFF00003FFF0000), np.uint64(0x00003FFF00003FFF)
_EVEN28, _ODD28 = np.uint64(0x0FFFFFFF00000000), np.uint64(0x000000000FFFFFFF)
_U2, _U3, _U4 = np.uint64(2), np.uint64(3), np.uint64(4)


@njit
def _map(buffer, position, end):
    """Up to 63 bits of a presence map, the first one highest, and where the next ones begin.

    Returns bits, how many there are (many where the rest is zero), and the place of the rest.
    """
    word = np.uint64(0)
    for count in range(9):
        byte = np.uint64(load_u8(buffer, position))
        position += 1
        word = (word << _U7) | (byte & _SEVEN)
        if byte > _SEVEN:
            return word << np.uint64(57 - 7 * count), _MANY, position
        if position >= end:
            break
    return word << _U1, np.int64(63), position


@njit
def _whole_map(buffer, position, end):
    """What `_map` gives of a presence map, and where the whole map ends; -1 if it does not."""
    if position >= end:
        return np.uint64(0), np.int64(0), position, np.int64(-1)
    word, count, rest = _map(buffer, position, end)
    if count == _MANY:
        return word, count, rest, rest
    for after in range(rest, end):
        if load_u8(buffer, after) > 127:
            return word, count, rest, np.int64(after + 1)
    return word, count, rest, np.int64(-1)


@njit
def _number(eight):
    """Of eight bytes: the number of the first ones, and how many bytes it has; 0 if more."""
    stops = eight & _NULLS
    bits = (trailing_zeros(stops) & ~_U7) + np.uint64(8)
    number = (swapped(eight) >> (_U64 - bits & _U63)) & _SEVENS
    number = ((number & _EVEN7) >> _U1) | (number & _ODD7)
    number = ((number & _EVEN14) >> _U2) | (number & _ODD14)
    number = ((number & _EVEN28) >> _U4) | (number & _ODD28)
    return number, np.int64(bits >> _U3) if stops else np.int64(0)


@njit
def _long_number(buffer, position, end, signed):
    """A number of more than one byte: its lower 64 bits, those above, where it ends, a fault."""
    first = load_u8(buffer, position)
    position += 1
    high = np.int64(0)
    low = np.uint64(first)
    if position >= end:
        return low, high, position, ENDED
    second = load_u8(buffer, position)
    if signed:
        if (first == 0 and second & 64 == 0) or (first == 127 and second & 64 != 0):
            return low, high, position, OVERLONG
        if first & 64:
            high = np.int64(-1)
            low = ~np.uint64(0x7F) | low
    elif first == 0:
        return low, high, position, OVERLONG
    for _ in range(9):
        if position >= end:
            return low, high, position, ENDED
        byte = np.uint64(load_u8(buffer, position))
        position += 1
        high = (high << 7) | np.int64(low >> np.uint64(57))
        low = (low << _U7) | (byte & _SEVEN)
        if byte > _SEVEN:
            return low, high, position, SOUND
    return low, high, position, OUT_OF_RANGE


@njit
def _fits(low, high, signed, wide):
    """Is a number of 128 bits one of its kind?"""
    number = np.int64(low)
    if signed:
        if high != number >> 63:
            return False
        return wide or (number >= -(1 << 31) and number < 1 << 31)
    if high != 0:
        return False
    return wide or (number >= 0 and number < 1 << 32)


@njit
def _sum(base, low, high, signed):
    """A previous number and a difference of 128 bits."""
    total = np.uint64(base) + low
    carry = np.int64(total < low)
    above = base >> 63 if signed else np.int64(0)
    return total, high + above + carry


@njit
def _is_utf8(text, position, end):
    """Are these bytes UTF-8?"""
    while position < end:
        byte = text[position]
        position += 1
        if byte < 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return False
        more = 1 if byte < 0xE0 else 2 if byte < 0xF0 else 3
        if end - position < more:
            return False
        second = text[position]
        least, most = 0x80, 0xBF
        if byte == 0xE0:
            least = 0xA0
        elif byte == 0xED:
            most = 0x9F
        elif byte == 0xF0:
            least = 0x90
        elif byte == 0xF4:
            most = 0x8F
        if second < least or second > most:
            return False
        for i in range(1, more):
            if text[position + i] & 0xC0 != 0x80:
                return False
        position += more
    return True


@njit
def _grown(arena, used, needed):
    """The arena with room for more."""
    if used + needed <= len(arena):
        return arena
    larger = np.empty(min(2 * len(arena) + needed, MAX_ARENA), np.uint8)
    larger[:used] = arena[:used]
    return larger


@njit
def _ascii(buffer, position, end, nullable, arena, used):
    """An ASCII string into the arena: its size (-1 is a null), where it ends, a fault."""
    start = position
    while True:
        if position >= end:
            return np.int64(0), position, ENDED
        byte = load_u8(buffer, position)
        arena[used + position - start] = byte & 127
        position += 1
        if byte > 127:
            break
    size = position - start
    if arena[used] == 0:
        zeros = True
        for i in range(size):
            zeros &= arena[used + i] == 0
        size -= 1 + nullable
        if not zeros or size > 1:
            return np.int64(0), position, OVERLONG_TEXT
    return np.int64(size), position, SOUND


@njit
def _combine(arena, used, base, subtracted, size, keeps_front):
    """Put a text together behind a new one of a size that is at the arena's end.

    ``subtracted`` characters go from the base; what is left of it is put in front of the new text,
    or behind it. Returns where the text begins and its size.
    """
    place, length = base >> 32, base & 0xFFFFFFFF
    kept = length - subtracted
    start = used + size
    if keeps_front:
        for i in range(kept):
            arena[start + i] = arena[place + i]
        for i in range(size):
            arena[start + kept + i] = arena[used + i]
    else:
        for i in range(size):
            arena[start + i] = arena[used + i]
        for i in range(kept):
            arena[start + size + i] = arena[place + subtracted + i]
    return start, kept + size


@njit
def _room_for(nodes, template, templates, length):
    """Is there room for the rows of a message of so many bytes, whatever is in it?"""
    first, last = templates[template, FIRST_NODE], templates[template, LAST_NODE]
    if nodes[ROOM, first] - nodes[USED, first] < 1:
        return False
    enough = True
    for node in range(first + 1, last):
        enough &= nodes[ROOM, node] - nodes[USED, node] >= length
    return enough


@njit
def decode_messages(
    buffer, positions, ends, reset_each, code, runs, patterns, templates, node_facts,
    state, stamps, previous, nodes, values, masks, arena, found_template, found_row, found_end,
    status,
):  # fmt: skip
    """Decode messages from ``state[DONE]`` on, until all are done or there is no room for one.

    Returns the arena, which may have grown.
    """
    stack = np.zeros((MAX_DEPTH, 10), np.int64)
    saved = np.zeros(len(node_facts) + 1, np.int64)
    limit = len(buffer) - SLACK
    generation = state[GENERATION]
    last_id = state[LAST_ID]
    last_template = np.int64(-1)
    text_used = state[TEXT_USED]
    for i in range(state[DONE], len(positions)):
        position, end = positions[i], ends[i]
        fault = np.int64(SOUND)
        template = np.int64(-1)
        row = np.int64(-1)
        kept_id = last_id
        if reset_each:
            generation += 1
            last_id = np.int64(-1)
        # The presence map, the template id, and what else is known before the first field.
        if position < 0 or end > limit or position >= end:
            fault = np.int64(ENDED)
        else:
            word, left, rest, rest_end = _whole_map(buffer, position, end)
            if rest_end < 0:
                fault = np.int64(ENDED)
            else:
                position = rest_end
                given = word >> _U63
                word <<= _U1
                left -= 1
                if given:
                    if position >= end:
                        fault = np.int64(ENDED)
                    else:
                        byte = load_u8(buffer, position)
                        if byte > 127:
                            last_id = np.int64(byte & 127)
                            position += 1
                        else:
                            low, high, position, fault = _long_number(buffer, position, end, False)
                            last_id = np.int64(low)
                            if fault == SOUND and not _fits(low, high, False, False):
                                fault = np.int64(OUT_OF_RANGE)
                elif last_id < 0:
                    fault = np.int64(NO_ID)
        if fault == SOUND:
            if last_template >= 0 and templates[last_template, TEMPLATE_ID] == last_id:
                template = last_template
            else:
                for t in range(len(templates)):
                    if templates[t, TEMPLATE_ID] == last_id:
                        template = t
                        break
                if template < 0:
                    fault = np.int64(UNKNOWN)
        if fault == SOUND:
            last_template = template
            if not _room_for(nodes, template, templates, end - position + 1):
                # As it was before this message: it is the next one to be decoded.
                if reset_each:
                    generation -= 1
                last_id = kept_id
                status[i] = WAITING
                found_template[i] = template
                state[GENERATION] = generation
                state[LAST_ID] = last_id
                state[TEXT_USED] = text_used
                state[DONE] = i
                return arena
            if templates[template, RESET]:
                generation += 1
            if text_used + (end - position) > len(arena):
                if text_used + (end - position) > MAX_ARENA:
                    fault = np.int64(LONG_TEXT)
                else:
                    arena = _grown(arena, text_used, end - position)
        if fault == SOUND:
            first_node, last_node = templates[template, FIRST_NODE], templates[template, LAST_NODE]
            for node in range(first_node, last_node):
                saved[node] = nodes[USED, node]
            node = first_node
            row = nodes[USED, node]
            nodes[USED, node] += 1
            mask = np.uint64(0)
            mask_word = np.int64(0)
            mask_words = node_facts[node, MASK_WORDS]
            remaining = np.int64(0)
            depth = 0
            pc = np.uint64(templates[template, FIRST])
            stamp = generation << 4
            bit_before = True
            while True:
                head = code[pc, HEAD]
                op = head & 15
                flags = head >> FLAGS_SHIFT
                run = code[pc, RUN]
                if run >= 0:
                    # How many of the parts from here on are absent? Mostly many are.
                    alike = leading_zeros(word ^ patterns[run])
                    nulls = trailing_zeros(load_u64(buffer, position) ^ _NULLS) >> _U3
                    parts = min(runs[run, BY_BITS + alike], runs[run, BY_BYTES + nulls])
                    if parts:
                        bits = runs[run, BITS_OF + parts]
                        taken = runs[run, BYTES_OF + parts]
                        if left >= bits and position + taken <= end:
                            word <<= np.uint64(bits)
                            left -= bits
                            position += taken
                            pc += np.uint64(runs[run, NEXT_OF + parts])
                            continue
                bit = True
                if flags & HAS_BIT:
                    if left == 0:
                        word, left, rest = _map(buffer, rest, rest_end)
                    bit = word >> _U63 != 0
                    word <<= _U1
                    left -= 1
                elif flags & FOLLOWS:
                    bit = bit_before
                if flags & NUMERIC:
                    present = True
                    value = np.int64(0)
                    if bit:
                        nullable = flags & NULLABLE
                        signed = head >> KIND_SHIFT & 15 == SIGNED
                        high = np.int64(0)
                        eight = load_u64(buffer, position)
                        low, size = _number(eight)
                        if size and position + size <= end:
                            if size > 1:
                                first = eight & np.uint64(0x407F)
                                # The first byte, and the sign bit of the second, say nothing.
                                if first == 0 or (
                                    first == np.uint64(0x407F) if signed else first & _SEVEN == 0
                                ):
                                    fault = np.int64(OVERLONG)
                                    break
                            position += size
                            value = np.int64(low)
                            if signed:
                                value = (value << (64 - 7 * size)) >> (64 - 7 * size)
                                high = value >> 63
                            if nullable:
                                present = value != 0
                                value -= value > 0
                            narrow = flags & WIDE == 0 and op != DELTA and size > 4
                            if narrow and not _fits(np.uint64(value), high, signed, False):
                                fault = np.int64(OUT_OF_RANGE)
                                break
                        else:
                            if position >= end:
                                fault = np.int64(ENDED)
                                break
                            low, high, position, fault = _long_number(buffer, position, end, signed)
                            if fault != SOUND:
                                break
                            if nullable and (high > 0 or (high == 0 and low != 0)):
                                if low == 0:
                                    high -= 1
                                low -= _U1
                            if op != DELTA and not _fits(low, high, signed, flags & WIDE != 0):
                                fault = np.int64(OUT_OF_RANGE)
                                break
                            value = np.int64(low)
                        if op >= COPY:
                            slot = code[pc, SLOT]
                            tag = head >> TAG_SHIFT & 15
                            if op == DELTA:
                                if present:
                                    known = stamps[slot]
                                    base = code[pc, INITIAL]
                                    if known == stamp | tag:
                                        base = previous[slot]
                                    elif known == stamp:
                                        fault = np.int64(EMPTY_PREVIOUS)
                                        break
                                    elif known > stamp:
                                        fault = np.int64(OTHER_KIND)
                                        break
                                    signed = flags & SIGNED_FIELD != 0
                                    total, high = _sum(base, np.uint64(value), high, signed)
                                    if not _fits(total, high, signed, flags & WIDE != 0):
                                        fault = np.int64(DIFFERENCE)
                                        break
                                    value = np.int64(total)
                                    stamps[slot] = stamp | tag
                                    previous[slot] = value
                            else:
                                stamps[slot] = stamp | tag if present else stamp
                                previous[slot] = value
                    elif op == DEFAULT:
                        present = flags & HAS_INITIAL != 0
                        value = code[pc, INITIAL]
                    else:
                        # Copy or increment with nothing in the stream.
                        slot = code[pc, SLOT]
                        tag = head >> TAG_SHIFT & 15
                        known = stamps[slot]
                        if known == stamp | tag:
                            value = previous[slot]
                            if op == INCREMENT:
                                if flags & WIDE:
                                    value = np.int64(np.uint64(value) + _U1)
                                elif flags & SIGNED_FIELD:
                                    value = value + 1 if value != 0x7FFFFFFF else -(1 << 31)
                                else:
                                    value = value + 1 if value != 0xFFFFFFFF else 0
                                previous[slot] = value
                        elif known > stamp:
                            fault = np.int64(OTHER_KIND)
                            break
                        elif known < stamp and flags & HAS_INITIAL:
                            value = code[pc, INITIAL]
                            stamps[slot] = stamp | tag
                            previous[slot] = value
                        elif flags & NULLABLE:
                            present = False
                            stamps[slot] = stamp
                        else:
                            fault = np.int64(NO_PREVIOUS)
                            break
                    if present:
                        mask |= np.uint64(code[pc, MASK])
                        values[np.uint64(code[pc, COLUMN] + row)] = value
                        if flags & EXPONENT:
                            if value > 63 or value < -63:
                                fault = np.int64(EXPONENT_RANGE)
                                break
                            bit_before = bit
                        elif flags & LENGTH:
                            if value > end - position:
                                fault = np.int64(ENTRIES)
                                break
                            if value == 0:
                                pc = np.uint64(code[pc, JUMP])
                                continue
                            stack[depth, 0] = remaining
                            stack[depth, 1] = row
                            stack[depth, 2] = np.int64(mask)
                            stack[depth, 3] = mask_word
                            stack[depth, 4] = node
                            stack[depth, 5] = np.int64(word)
                            stack[depth, 6] = left
                            stack[depth, 7] = rest
                            stack[depth, 8] = rest_end
                            depth += 1
                            remaining = value
                            node = code[pc, NODE]
                            row = nodes[USED, node]
                            nodes[USED, node] += 1
                            mask = np.uint64(0)
                            mask_word = np.int64(0)
                            mask_words = node_facts[node, MASK_WORDS]
                            if flags & HAS_MAP:
                                word, left, rest, rest_end = _whole_map(buffer, position, end)
                                if rest_end < 0:
                                    fault = np.int64(ENDED)
                                    break
                                position = rest_end
                        pc += _U1
                    elif flags & EXPONENT:
                        pc += _U2
                    elif flags & LENGTH:
                        pc = np.uint64(code[pc, JUMP])
                    else:
                        pc += _U1
                elif op == CONSTANT:
                    if bit:
                        mask |= np.uint64(code[pc, MASK])
                        if code[pc, COLUMN] >= 0:
                            values[np.uint64(code[pc, COLUMN] + row)] = code[pc, INITIAL]
                        bit_before = bit
                        pc += _U1
                    elif flags & EXPONENT:
                        pc += _U2
                    else:
                        pc += _U1
                elif op <= TAIL:
                    kind = head >> KIND_SHIFT & 15
                    present = True
                    value = np.int64(0)
                    if bit:
                        nullable = flags & NULLABLE
                        taken = np.int64(0)
                        if op == DELTA:
                            # How much is taken off comes first.
                            if position >= end:
                                fault = np.int64(ENDED)
                                break
                            byte = load_u8(buffer, position)
                            if byte > 127:
                                position += 1
                                taken = np.int64(byte & 127)
                                if taken & 64:
                                    taken -= 128
                            else:
                                low, high, position, fault = _long_number(
                                    buffer, position, end, True
                                )
                                if fault != SOUND:
                                    break
                                taken = np.int64(low)
                                if high != taken >> 63:
                                    fault = np.int64(OUT_OF_RANGE)
                                    break
                            if nullable:
                                if taken == 0:
                                    pc += _U1
                                    continue
                                if taken > 0:
                                    taken -= 1
                                nullable = 0
                            if taken < -(1 << 31) or taken >= 1 << 31:
                                fault = np.int64(OUT_OF_RANGE)
                                break
                        if position >= end:
                            fault = np.int64(ENDED)
                            break
                        byte = load_u8(buffer, position)
                        if kind == ASCII:
                            if byte > 127:
                                position += 1
                                if byte > 128:
                                    value = (np.int64(byte & 127) << 32) | 1
                                else:
                                    present = nullable == 0
                            else:
                                size, position, fault = _ascii(
                                    buffer, position, end, nullable, arena, text_used
                                )
                                if fault != SOUND:
                                    break
                                value = (text_used << 32) | size
                                text_used += size
                        else:
                            size = np.int64(byte & 127)
                            if byte > 127:
                                position += 1
                                if nullable:
                                    present = size != 0
                                    size -= 1
                            else:
                                low, high, position, fault = _long_number(
                                    buffer, position, end, False
                                )
                                if fault != SOUND:
                                    break
                                size = np.int64(low) - nullable
                                if high != 0 or size < 0 or size > 0xFFFFFFFF:
                                    fault = np.int64(OUT_OF_RANGE)
                                    break
                            if present:
                                if size > end - position:
                                    fault = np.int64(PAST_END)
                                    break
                                for b in range(size):
                                    arena[text_used + b] = load_u8(buffer, position + b)
                                position += size
                                value = (text_used << 32) | size
                                text_used += size
                        if op >= COPY:
                            slot = code[pc, SLOT]
                            tag = head >> TAG_SHIFT & 15
                            if present and op >= DELTA:
                                # A difference or a tail: of what?
                                known = stamps[slot]
                                base = code[pc, INITIAL]
                                if known == stamp | tag:
                                    base = previous[slot]
                                elif known == stamp:
                                    if op == DELTA:
                                        fault = np.int64(EMPTY_PREVIOUS)
                                        break
                                elif known > stamp:
                                    fault = np.int64(OTHER_KIND)
                                    break
                                size = value & 0xFFFFFFFF
                                length = base & 0xFFFFFFFF
                                front = True
                                if op == TAIL:
                                    taken = min(size, length)
                                elif taken < 0:
                                    front = False
                                    taken = -taken - 1
                                if taken > length:
                                    fault = np.int64(TAKEN)
                                    break
                                if taken < length or op == DELTA:
                                    whole = length - taken + size
                                    needed = size + whole + (end - position)
                                    too_long = op == DELTA and whole > MAX_TEXT
                                    if too_long or text_used + needed > MAX_ARENA:
                                        fault = np.int64(LONG_TEXT)
                                        break
                                    arena = _grown(arena, text_used, needed)
                                    # The new piece to where the arena ends.
                                    for b in range(size):
                                        arena[text_used + b] = arena[(value >> 32) + b]
                                    place, whole = _combine(
                                        arena, text_used, base, taken, size, front
                                    )
                                    text_used = place + whole
                                    value = (place << 32) | whole
                            stamps[slot] = stamp | tag if present else stamp
                            previous[slot] = value
                    elif op == DEFAULT:
                        present = flags & HAS_INITIAL != 0
                        value = code[pc, INITIAL]
                    else:
                        # Copy or tail with nothing in the stream.
                        slot = code[pc, SLOT]
                        tag = head >> TAG_SHIFT & 15
                        known = stamps[slot]
                        if known == stamp | tag:
                            value = previous[slot]
                        elif known > stamp:
                            fault = np.int64(OTHER_KIND)
                            break
                        elif known < stamp and flags & HAS_INITIAL:
                            value = code[pc, INITIAL]
                            stamps[slot] = stamp | tag
                            previous[slot] = value
                        elif flags & NULLABLE:
                            present = False
                            stamps[slot] = stamp
                        else:
                            fault = np.int64(NO_PREVIOUS)
                            break
                    if present:
                        if kind == UNICODE:
                            place = value >> 32
                            if not _is_utf8(arena, place, place + (value & 0xFFFFFFFF)):
                                fault = np.int64(NOT_UTF8)
                                break
                        mask |= np.uint64(code[pc, MASK])
                        values[np.uint64(code[pc, COLUMN] + row)] = value
                    pc += _U1
                elif op == LEAVE:
                    if mask_words:
                        masks[nodes[MASK_PLACE, node] + row * mask_words + mask_word] = mask
                    remaining -= 1
                    if remaining:
                        row = nodes[USED, node]
                        nodes[USED, node] += 1
                        mask = np.uint64(0)
                        mask_word = np.int64(0)
                        if flags & HAS_MAP:
                            word, left, rest, rest_end = _whole_map(buffer, position, end)
                            if rest_end < 0:
                                fault = np.int64(ENDED)
                                break
                            position = rest_end
                        elif position >= end:
                            fault = np.int64(ENDED)
                            break
                        pc = np.uint64(code[pc, JUMP])
                    else:
                        depth -= 1
                        remaining = stack[depth, 0]
                        row = stack[depth, 1]
                        mask = np.uint64(stack[depth, 2])
                        mask_word = stack[depth, 3]
                        node = stack[depth, 4]
                        word = np.uint64(stack[depth, 5])
                        left = stack[depth, 6]
                        rest = stack[depth, 7]
                        rest_end = stack[depth, 8]
                        mask_words = node_facts[node, MASK_WORDS]
                        pc += _U1
                elif op == GROUP:
                    if not bit:
                        pc = np.uint64(code[pc, JUMP])
                        continue
                    mask |= np.uint64(code[pc, MASK])
                    if flags & HAS_MAP:
                        stack[depth, 5] = np.int64(word)
                        stack[depth, 6] = left
                        stack[depth, 7] = rest
                        stack[depth, 8] = rest_end
                        depth += 1
                        word, left, rest, rest_end = _whole_map(buffer, position, end)
                        if rest_end < 0:
                            fault = np.int64(ENDED)
                            break
                        position = rest_end
                    pc += _U1
                elif op == END_GROUP:
                    if flags & HAS_MAP:
                        depth -= 1
                        word = np.uint64(stack[depth, 5])
                        left = stack[depth, 6]
                        rest = stack[depth, 7]
                        rest_end = stack[depth, 8]
                    pc += _U1
                elif op == NEXT_MASK:
                    masks[nodes[MASK_PLACE, node] + row * mask_words + mask_word] = mask
                    mask = np.uint64(0)
                    mask_word += 1
                    pc += _U1
                else:
                    if mask_words:
                        masks[nodes[MASK_PLACE, node] + row * mask_words + mask_word] = mask
                    break
            if fault != SOUND:
                for node in range(first_node, last_node):
                    nodes[USED, node] = saved[node]
        status[i] = fault
        found_end[i] = position
        if fault == SOUND:
            found_template[i] = template
            found_row[i] = row
        else:
            found_template[i] = -1
            found_row[i] = -1
            # Nobody knows what the message would have left: nothing is.
            generation += 1
            last_id = np.int64(-1)
    state[GENERATION] = generation
    state[LAST_ID] = last_id
    state[TEXT_USED] = text_used
    state[DONE] = len(positions)
    return arena
