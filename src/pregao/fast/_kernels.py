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

from pregao._njit import leading_zeros, load_u8, load_u64, njit, trailing_zeros
from pregao.fast._table import (
    ASCII,
    BITS_OF,
    BY_BITS,
    BY_BYTES,
    BYTES_OF,
    COLUMN,
    CONSTANT,
    COPY,
    DEFAULT,
    DELTA,
    DIFFERENCE,
    DONE,
    EMPTY_PREVIOUS,
    END_GROUP,
    ENDED,
    ENTRIES,
    EXPONENT,
    EXPONENT_RANGE,
    FIRST,
    FIRST_NODE,
    FLAGS_SHIFT,
    FOLLOWS,
    GENERATION,
    GROUP,
    HAS_BIT,
    HAS_INITIAL,
    HAS_MAP,
    HEAD,
    INCREMENT,
    INITIAL,
    JUMP,
    KIND_SHIFT,
    LAST_ID,
    LAST_NODE,
    LEAVE,
    LENGTH,
    LONG_TEXT,
    MASK,
    MASK_PLACE,
    MASK_WORDS,
    MAX_ARENA,
    MAX_DEPTH,
    MAX_TEXT,
    NEXT_MASK,
    NEXT_OF,
    NO_ID,
    NO_PREVIOUS,
    NODE,
    NOT_UTF8,
    NULLABLE,
    NUMERIC,
    OTHER_KIND,
    OUT_OF_RANGE,
    OVERLONG,
    PAST_END,
    RESET,
    ROOM,
    RUN,
    SIGNED,
    SIGNED_FIELD,
    SLACK,
    SLOT,
    SOUND,
    TAG_SHIFT,
    TAIL,
    TAKEN,
    TEMPLATE_ID,
    TEXT_USED,
    UNICODE,
    UNKNOWN,
    USED,
    WAITING,
    WIDE,
)
from pregao.fast._wire_kernels import (
    NULLS,
    SEVEN,
    U1,
    U2,
    U3,
    U63,
    added,
    ascii_text,
    combined,
    fits,
    grown,
    is_utf8,
    long_number,
    map_bits,
    short_number,
    whole_map,
)


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
            word, left, rest, rest_end = whole_map(buffer, position, end)
            if rest_end < 0:
                fault = np.int64(ENDED)
            else:
                position = rest_end
                given = word >> U63
                word <<= U1
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
                            low, high, position, fault = long_number(buffer, position, end, False)
                            last_id = np.int64(low)
                            if fault == SOUND and not fits(low, high, False, False):
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
                    arena = grown(arena, text_used, end - position)
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
                    nulls = trailing_zeros(load_u64(buffer, position) ^ NULLS) >> U3
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
                        word, left, rest = map_bits(buffer, rest, rest_end)
                    bit = word >> U63 != 0
                    word <<= U1
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
                        low, size = short_number(eight)
                        if size and position + size <= end:
                            if size > 1:
                                first = eight & np.uint64(0x407F)
                                # The first byte, and the sign bit of the second, say nothing.
                                if first == 0 or (
                                    first == np.uint64(0x407F) if signed else first & SEVEN == 0
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
                            if narrow and not fits(np.uint64(value), high, signed, False):
                                fault = np.int64(OUT_OF_RANGE)
                                break
                        else:
                            if position >= end:
                                fault = np.int64(ENDED)
                                break
                            low, high, position, fault = long_number(buffer, position, end, signed)
                            if fault != SOUND:
                                break
                            if nullable and (high > 0 or (high == 0 and low != 0)):
                                if low == 0:
                                    high -= 1
                                low -= U1
                            if op != DELTA and not fits(low, high, signed, flags & WIDE != 0):
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
                                    total, high = added(base, np.uint64(value), high, signed)
                                    if not fits(total, high, signed, flags & WIDE != 0):
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
                                    value = np.int64(np.uint64(value) + U1)
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
                                word, left, rest, rest_end = whole_map(buffer, position, end)
                                if rest_end < 0:
                                    fault = np.int64(ENDED)
                                    break
                                position = rest_end
                        pc += U1
                    elif flags & EXPONENT:
                        pc += U2
                    elif flags & LENGTH:
                        pc = np.uint64(code[pc, JUMP])
                    else:
                        pc += U1
                elif op == CONSTANT:
                    if bit:
                        mask |= np.uint64(code[pc, MASK])
                        if code[pc, COLUMN] >= 0:
                            values[np.uint64(code[pc, COLUMN] + row)] = code[pc, INITIAL]
                        bit_before = bit
                        pc += U1
                    elif flags & EXPONENT:
                        pc += U2
                    else:
                        pc += U1
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
                                low, high, position, fault = long_number(
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
                                    pc += U1
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
                                size, position, fault = ascii_text(
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
                                low, high, position, fault = long_number(
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
                                    arena = grown(arena, text_used, needed)
                                    # The new piece to where the arena ends.
                                    for b in range(size):
                                        arena[text_used + b] = arena[(value >> 32) + b]
                                    place, whole = combined(
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
                            if not is_utf8(arena, place, place + (value & 0xFFFFFFFF)):
                                fault = np.int64(NOT_UTF8)
                                break
                        mask |= np.uint64(code[pc, MASK])
                        values[np.uint64(code[pc, COLUMN] + row)] = value
                    pc += U1
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
                            word, left, rest, rest_end = whole_map(buffer, position, end)
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
                        pc += U1
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
                        word, left, rest, rest_end = whole_map(buffer, position, end)
                        if rest_end < 0:
                            fault = np.int64(ENDED)
                            break
                        position = rest_end
                    pc += U1
                elif op == END_GROUP:
                    if flags & HAS_MAP:
                        depth -= 1
                        word = np.uint64(stack[depth, 5])
                        left = stack[depth, 6]
                        rest = stack[depth, 7]
                        rest_end = stack[depth, 8]
                    pc += U1
                elif op == NEXT_MASK:
                    masks[nodes[MASK_PLACE, node] + row * mask_words + mask_word] = mask
                    mask = np.uint64(0)
                    mask_word += 1
                    pc += U1
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
