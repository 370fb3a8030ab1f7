"""Kernel that decodes many FAST messages into flat columns, as an interpreter of a table.

The instruction table is compiled from the templates (`_program`); one kernel serves them all.
Every template, and every sequence of one, is a *node* to which rows are appended. A column of a
node is a slice of the array of values; each row has a mask of its present fields. Texts are slices
of an arena: a value has the offset in its upper and the size in its lower half. Previous values
have a stamp, so that incrementing the generation resets all of them.

Every value of a message that is used as an index is checked here.
"""

from __future__ import annotations

import numpy as np

from pregao._njit import leading_zeros, load_u64, njit, trailing_zeros
from pregao.fast import _table as k
from pregao.fast._operator_kernels import (
    has_capacity,
    number_difference,
    piece_of_text,
    template_of,
    text_difference,
    without_bytes,
)
from pregao.fast._wire_kernels import (
    NULLS,
    SEVEN,
    U1,
    U2,
    U3,
    U63,
    fits,
    grown,
    is_utf8,
    long_number,
    map_bits,
    message_head,
    short_number,
    whole_map,
)


@njit
def decode_messages(
    buffer, positions, ends, reset_each, code, runs, patterns, templates, node_facts,
    state, stamps, previous, nodes, values, masks, arena, found_template, found_row, found_end,
    status,
):  # fmt: skip
    """Decode messages from ``state[k.DONE]`` on, until all are done or the capacity is exhausted.

    Return the arena, which may have grown.
    """
    stack = np.zeros((k.MAX_DEPTH, 10), np.int64)
    saved = np.zeros(len(node_facts) + 1, np.int64)
    limit = len(buffer) - k.SLACK
    generation = state[k.GENERATION]
    last_id = state[k.LAST_ID]
    last_template = np.int64(-1)
    text_used = state[k.TEXT_USED]
    for i in range(state[k.DONE], len(positions)):
        position, end = positions[i], ends[i]
        template = np.int64(-1)
        row = np.int64(-1)
        kept_id = last_id
        if reset_each:
            generation += 1
            last_id = np.int64(-1)
        word, left, rest, rest_end, last_id, position, fault = message_head(
            buffer, position, end if end <= limit else position, last_id
        )
        if fault == k.SOUND:
            template = template_of(templates, last_id, last_template)
            if template < 0:
                fault = np.int64(k.UNKNOWN)
        if fault == k.SOUND:
            last_template = template
            max_entries = min(end - position, np.int64(k.MAX_ENTRIES)) + 1
            if not has_capacity(nodes, template, templates, max_entries):
                # Restore the state before this message: the next call decodes it.
                if reset_each:
                    generation -= 1
                last_id = kept_id
                status[i] = k.WAITING
                found_template[i] = template
                state[k.GENERATION] = generation
                state[k.LAST_ID] = last_id
                state[k.TEXT_USED] = text_used
                state[k.DONE] = i
                return arena
            if templates[template, k.RESET]:
                generation += 1
            needed = end - position + k.SLACK
            if text_used + needed > len(arena):
                if text_used + needed > k.MAX_ARENA:
                    fault = np.int64(k.LONG_TEXT)
                else:
                    arena = grown(arena, text_used, needed)
        if fault == k.SOUND:
            first_node, last_node = (
                templates[template, k.FIRST_NODE],
                templates[template, k.LAST_NODE],
            )
            for node in range(first_node, last_node):
                saved[node] = nodes[k.USED, node]
            node = first_node
            text_left = k.TEXT_FACTOR * (end - positions[i]) + k.TEXT_ALLOWANCE
            entries_left = np.int64(k.MAX_ENTRIES)
            row = nodes[k.USED, node]
            nodes[k.USED, node] += 1
            mask = np.uint64(0)
            mask_word = np.int64(0)
            mask_words = node_facts[node, k.MASK_WORDS]
            remaining = np.int64(0)
            depth = 0
            pc = np.uint64(templates[template, k.FIRST])
            stamp = generation << 4
            bit_before = True
            while True:
                head = code[pc, k.HEAD]
                op = head & 15
                flags = head >> k.FLAGS_SHIFT
                run = code[pc, k.RUN]
                if run >= 0:
                    # Skip absent parts; usually there are many in a row.
                    alike = leading_zeros(word ^ patterns[run])
                    nulls = trailing_zeros(load_u64(buffer, position) ^ NULLS) >> U3
                    parts = min(runs[run, k.BY_BITS + alike], runs[run, k.BY_BYTES + nulls])
                    if parts:
                        bits = runs[run, k.BITS_OF + parts]
                        taken = runs[run, k.BYTES_OF + parts]
                        if left >= bits and position + taken <= end:
                            word <<= np.uint64(bits)
                            left -= bits
                            position += taken
                            pc += np.uint64(runs[run, k.NEXT_OF + parts])
                            continue
                bit = True
                if flags & k.HAS_BIT:
                    if left == 0:
                        word, left, rest = map_bits(buffer, rest, rest_end)
                    bit = word >> U63 != 0
                    word <<= U1
                    left -= 1
                elif flags & k.FOLLOWS:
                    bit = bit_before
                if flags & k.NUMERIC:
                    present = True
                    value = np.int64(0)
                    if bit:
                        nullable = flags & k.NULLABLE
                        signed = head >> k.KIND_SHIFT & 15 == k.SIGNED
                        high = np.int64(0)
                        eight = load_u64(buffer, position)
                        low, size = short_number(eight)
                        if size and position + size <= end:
                            if size > 1:
                                first = eight & np.uint64(0x407F)
                                # The first byte is redundant (with the sign bit of the second).
                                if first == 0 or (
                                    first == np.uint64(0x407F) if signed else first & SEVEN == 0
                                ):
                                    fault = np.int64(k.OVERLONG)
                                    break
                            position += size
                            value = np.int64(low)
                            if signed:
                                value = (value << (64 - 7 * size)) >> (64 - 7 * size)
                                high = value >> 63
                            if nullable:
                                present = value != 0
                                value -= value > 0
                            narrow = flags & k.WIDE == 0 and op != k.DELTA and size > 4
                            if narrow and not fits(np.uint64(value), high, signed, False):
                                fault = np.int64(k.OUT_OF_RANGE)
                                break
                        else:
                            if position >= end:
                                fault = np.int64(k.ENDED)
                                break
                            low, high, position, fault = long_number(buffer, position, end, signed)
                            if fault != k.SOUND:
                                break
                            if nullable and (high > 0 or (high == 0 and low != 0)):
                                if low == 0:
                                    high -= 1
                                low -= U1
                            if op != k.DELTA and not fits(low, high, signed, flags & k.WIDE != 0):
                                fault = np.int64(k.OUT_OF_RANGE)
                                break
                            value = np.int64(low)
                        if op >= k.COPY:
                            slot = code[pc, k.SLOT]
                            tag = head >> k.TAG_SHIFT & 15
                            if op == k.DELTA:
                                if present:
                                    value, fault = number_difference(
                                        code, pc, flags, stamps, previous, stamp, tag, value, high
                                    )
                                    if fault != k.SOUND:
                                        break
                            else:
                                stamps[slot] = stamp | tag if present else stamp
                                previous[slot] = value
                    elif op == k.DEFAULT:
                        present = flags & k.HAS_INITIAL != 0
                        value = code[pc, k.INITIAL]
                    else:
                        present, value, fault = without_bytes(
                            code, pc, op, flags, stamps, previous, stamp
                        )
                        if fault != k.SOUND:
                            break
                    if present:
                        mask |= np.uint64(code[pc, k.MASK])
                        values[np.uint64(code[pc, k.COLUMN] + row)] = value
                        if flags & k.EXPONENT:
                            if value > 63 or value < -63:
                                fault = np.int64(k.EXPONENT_RANGE)
                                break
                            bit_before = bit
                        elif flags & k.LENGTH:
                            if value > end - position:
                                fault = np.int64(k.ENTRIES)
                                break
                            entries_left -= value
                            if entries_left < 0:
                                fault = np.int64(k.MANY_ENTRIES)
                                break
                            if value == 0:
                                pc = np.uint64(code[pc, k.JUMP])
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
                            node = code[pc, k.NODE]
                            text_left -= value * node_facts[node, k.CONSTANT_TEXT]
                            if text_left < 0:
                                fault = np.int64(k.MUCH_TEXT)
                                break
                            row = nodes[k.USED, node]
                            nodes[k.USED, node] += 1
                            mask = np.uint64(0)
                            mask_word = np.int64(0)
                            mask_words = node_facts[node, k.MASK_WORDS]
                            if flags & k.HAS_MAP:
                                word, left, rest, rest_end = whole_map(buffer, position, end)
                                if rest_end < 0:
                                    fault = np.int64(k.ENDED)
                                    break
                                position = rest_end
                        pc += U1
                    elif flags & k.EXPONENT:
                        pc += U2
                    elif flags & k.LENGTH:
                        pc = np.uint64(code[pc, k.JUMP])
                    else:
                        pc += U1
                elif op == k.CONSTANT:
                    if bit:
                        mask |= np.uint64(code[pc, k.MASK])
                        if code[pc, k.COLUMN] >= 0:
                            values[np.uint64(code[pc, k.COLUMN] + row)] = code[pc, k.INITIAL]
                        bit_before = bit
                        pc += U1
                    elif flags & k.EXPONENT:
                        pc += U2
                    else:
                        pc += U1
                elif op <= k.TAIL:
                    kind = head >> k.KIND_SHIFT & 15
                    present = True
                    value = np.int64(0)
                    if bit:
                        present, value, taken, position, text_used, fault = piece_of_text(
                            buffer, position, end, kind, op, flags, arena, text_used
                        )
                        if fault != k.SOUND:
                            break
                        if op == k.DELTA and not present:
                            pc += U1
                            continue
                        if op >= k.COPY:
                            slot = code[pc, k.SLOT]
                            tag = head >> k.TAG_SHIFT & 15
                            if present and op >= k.DELTA:
                                arena, text_used, value, fault = text_difference(
                                    code, pc, op, stamps, previous, stamp, tag, taken, value,
                                    arena, text_used, end - position,
                                )  # fmt: skip
                                if fault != k.SOUND:
                                    break
                            stamps[slot] = stamp | tag if present else stamp
                            previous[slot] = value
                    elif op == k.DEFAULT:
                        present = flags & k.HAS_INITIAL != 0
                        value = code[pc, k.INITIAL]
                    else:
                        present, value, fault = without_bytes(
                            code, pc, op, flags, stamps, previous, stamp
                        )
                        if fault != k.SOUND:
                            break
                    if present:
                        if not bit or op >= k.DELTA:
                            text_left -= value & 0xFFFFFFFF
                            if text_left < 0:
                                fault = np.int64(k.MUCH_TEXT)
                                break
                        if kind == k.UNICODE:
                            text_start = value >> 32
                            if not is_utf8(arena, text_start, text_start + (value & 0xFFFFFFFF)):
                                fault = np.int64(k.NOT_UTF8)
                                break
                        mask |= np.uint64(code[pc, k.MASK])
                        values[np.uint64(code[pc, k.COLUMN] + row)] = value
                    pc += U1
                elif op == k.LEAVE:
                    if mask_words:
                        masks[nodes[k.MASK_OFFSET, node] + row * mask_words + mask_word] = mask
                    remaining -= 1
                    if remaining:
                        row = nodes[k.USED, node]
                        nodes[k.USED, node] += 1
                        mask = np.uint64(0)
                        mask_word = np.int64(0)
                        if flags & k.HAS_MAP:
                            word, left, rest, rest_end = whole_map(buffer, position, end)
                            if rest_end < 0:
                                fault = np.int64(k.ENDED)
                                break
                            position = rest_end
                        elif position >= end:
                            fault = np.int64(k.ENDED)
                            break
                        pc = np.uint64(code[pc, k.JUMP])
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
                        mask_words = node_facts[node, k.MASK_WORDS]
                        pc += U1
                elif op == k.GROUP:
                    if not bit:
                        pc = np.uint64(code[pc, k.JUMP])
                        continue
                    mask |= np.uint64(code[pc, k.MASK])
                    if flags & k.HAS_MAP:
                        stack[depth, 5] = np.int64(word)
                        stack[depth, 6] = left
                        stack[depth, 7] = rest
                        stack[depth, 8] = rest_end
                        depth += 1
                        word, left, rest, rest_end = whole_map(buffer, position, end)
                        if rest_end < 0:
                            fault = np.int64(k.ENDED)
                            break
                        position = rest_end
                    pc += U1
                elif op == k.END_GROUP:
                    if flags & k.HAS_MAP:
                        depth -= 1
                        word = np.uint64(stack[depth, 5])
                        left = stack[depth, 6]
                        rest = stack[depth, 7]
                        rest_end = stack[depth, 8]
                    pc += U1
                elif op == k.NEXT_MASK:
                    masks[nodes[k.MASK_OFFSET, node] + row * mask_words + mask_word] = mask
                    mask = np.uint64(0)
                    mask_word += 1
                    pc += U1
                else:
                    if mask_words:
                        masks[nodes[k.MASK_OFFSET, node] + row * mask_words + mask_word] = mask
                    break
            if fault != k.SOUND:
                for node in range(first_node, last_node):
                    nodes[k.USED, node] = saved[node]
        status[i] = fault
        found_end[i] = position
        if fault == k.SOUND:
            found_template[i] = template
            found_row[i] = row
        else:
            found_template[i] = -1
            found_row[i] = -1
            # The previous values after a faulty message are undefined: reset them.
            generation += 1
            last_id = np.int64(-1)
    state[k.GENERATION] = generation
    state[k.LAST_ID] = last_id
    state[k.TEXT_USED] = text_used
    state[k.DONE] = len(positions)
    return arena
