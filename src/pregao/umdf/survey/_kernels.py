"""Kernels of the survey: counts by line and kind, peaks, and the audit of sequence numbers."""

from __future__ import annotations

import numpy as np

from pregao._njit import load_i64, njit, njit_or
from pregao.umdf._sequencing_kernels import version_distance
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION

_FALLBACK = "pregao.umdf.survey._numpy_fallback"


@njit_or(_FALLBACK)
def gather_words(buffer, positions, values):
    """Read the eight bytes at each position, as a signed number."""
    for m in range(np.uint64(len(positions))):
        values[m] = load_i64(buffer, positions[m])


@njit
def count_one_by_one(lines, packet_of, kinds, slots, pair_line, pair_kind, tallies, used, rows):
    """Count messages by the line of their packet and their kind; set the row of each message.

    Returns the number of rows in use. Messages that do not fit in the table get row -1.
    """
    mask = len(slots) - 1
    last_line = -1
    last_kind = np.int64(-1)
    row = -1
    for m in range(np.uint64(len(kinds))):
        line = lines[packet_of[m]]
        kind = kinds[m]
        if line != last_line or kind != last_kind:
            last_line = line
            last_kind = kind
            slot = (((kind * 31 + line) * 2654435761) >> 8) & mask
            row = slots[slot]
            while row >= 0 and (pair_kind[row] != kind or pair_line[row] != line):
                slot = (slot + 1) & mask
                row = slots[slot]
            if row < 0 and used < len(tallies):
                row = used
                slots[slot] = row
                pair_line[row] = line
                pair_kind[row] = kind
                tallies[row] = 0
                used += 1
        rows[m] = row
        if row >= 0:
            tallies[row] += 1
    return used


@njit_or(_FALLBACK)
def count_pairs(lines, packet_of, kinds, slots, pair_line, pair_kind, tallies, used, rows):
    """Count messages as `count_one_by_one` does; its fallback is for many messages of few kinds."""
    return count_one_by_one(
        lines, packet_of, kinds, slots, pair_line, pair_kind, tallies, used, rows
    )


@njit_or(_FALLBACK)
def tally_peaks(times, keys, span, tags, counts, peaks):
    """Raise each key's maximum count within one interval.

    A few intervals per key are open at a time, so that packets slightly out of order still count
    where they belong.
    """
    mask = tags.shape[1] - 1
    for m in range(np.uint64(len(keys))):
        key = keys[m]
        if key < 0:
            continue
        tag = times[m] // span
        slot = tag & mask
        if tags[key, slot] != tag:
            tags[key, slot] = tag
            counts[key, slot] = 0
        counts[key, slot] += 1
        if counts[key, slot] > peaks[key]:
            peaks[key] = counts[key, slot]


# Columns of a run: the packets of one sequence version on one line and channel. A row whose version
# is TRACK represents the line and channel themselves.
RUN_KEY = 0
RUN_FIRST = 1
RUN_NEXT = 2
RUN_PACKETS = 3
RUN_MISSING = 4
RUN_GAPS = 5
RUN_DUPLICATES = 6
RUN_LATE = 7
RUN_HEAD = 8
RUN_ENDED = 9
RUN_SERIAL = 10
RUN_TURNS = 11
RUN_BEGAN = 12
RUN_COLUMNS = 13
# Columns of a track: the newest version, and the heartbeats.
TRACK_VERSION = RUN_FIRST
TRACK_HEARTBEATS = RUN_PACKETS
TRACK = 1 << 16
# Columns of a gap, which is linked to the previous one of its run.
GAP_START = 0
GAP_END = 1
GAP_NEXT = 2
GAP_TIME = 3
# State of the audit between blocks.
RUNS_USED = 0
GAPS_USED = 1
FREE_GAP = 2
SERIALS = 3
UNTRACKED = 4
AUDIT_STATE = 5

_SEARCH = 4096
_COMES_ROUND = LAST_SEQUENCE_VERSION // 2


@njit
def _find_run(key, slots, runs, state):
    """Return the row of a key, created if it is new; -1 if the table is full."""
    mask = len(slots) - 1
    slot = ((key * 2654435761) >> 9) & mask
    while slots[slot] >= 0:
        if runs[slots[slot], RUN_KEY] == key:
            return slots[slot]
        slot = (slot + 1) & mask
    row = state[RUNS_USED]
    if row == len(runs):
        return -1
    state[RUNS_USED] = row + 1
    slots[slot] = row
    for column in range(RUN_COLUMNS):
        runs[row, column] = 0
    runs[row, RUN_KEY] = key
    runs[row, RUN_HEAD] = -1
    return row


@njit
def fill_run_slots(slots, runs, used):
    """Insert the rows in use into an empty table of slots."""
    mask = len(slots) - 1
    for row in range(used):
        slot = ((runs[row, RUN_KEY] * 2654435761) >> 9) & mask
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = row


@njit
def _open_gap(row, start, end, time, runs, gaps, state):
    """Add a gap to a run; if the table is full, only its size counts."""
    runs[row, RUN_MISSING] += end - start + 1
    runs[row, RUN_GAPS] += 1
    gap = state[FREE_GAP]
    if gap >= 0:
        state[FREE_GAP] = gaps[gap, GAP_NEXT]
    elif state[GAPS_USED] < len(gaps):
        gap = state[GAPS_USED]
        state[GAPS_USED] = gap + 1
    else:
        return
    gaps[gap, GAP_START] = start
    gaps[gap, GAP_END] = end
    gaps[gap, GAP_TIME] = time
    gaps[gap, GAP_NEXT] = runs[row, RUN_HEAD]
    runs[row, RUN_HEAD] = gap


@njit
def _close_gaps(row, runs, gaps, state):
    """Free the gaps of a run that has ended."""
    gap = runs[row, RUN_HEAD]
    while gap >= 0:
        after = gaps[gap, GAP_NEXT]
        gaps[gap, GAP_NEXT] = state[FREE_GAP]
        state[FREE_GAP] = gap
        gap = after
    runs[row, RUN_HEAD] = -1


@njit
def _fill_gap(row, number, runs, gaps, state):
    """Remove a number from its gap; False if it is in none."""
    before = np.int64(-1)
    gap = runs[row, RUN_HEAD]
    steps = 0
    while gap >= 0 and steps < _SEARCH:
        start = gaps[gap, GAP_START]
        end = gaps[gap, GAP_END]
        if start <= number and number <= end:
            runs[row, RUN_MISSING] -= 1
            runs[row, RUN_LATE] += 1
            if start == end:
                after = gaps[gap, GAP_NEXT]
                if before < 0:
                    runs[row, RUN_HEAD] = after
                else:
                    gaps[before, GAP_NEXT] = after
                gaps[gap, GAP_NEXT] = state[FREE_GAP]
                state[FREE_GAP] = gap
                runs[row, RUN_GAPS] -= 1
            elif number == start:
                gaps[gap, GAP_START] = number + 1
            elif number == end:
                gaps[gap, GAP_END] = number - 1
            else:
                gaps[gap, GAP_START] = number + 1
                _open_gap(row, start, number - 1, gaps[gap, GAP_TIME], runs, gaps, state)
                runs[row, RUN_MISSING] -= number - start
            return True
        before = gap
        gap = gaps[gap, GAP_NEXT]
        steps += 1
    return False


@njit
def follow_sequences(
    lines, channels, versions, numbers, counts, resets, times, slots, runs, gaps, state
):
    """Add packets to the audit of their sequences; packets without messages are skipped."""
    last = np.int64(-1)
    row = np.int64(-1)
    track = np.int64(-1)
    for p in range(np.uint64(len(lines))):
        if counts[p] == 0:
            continue
        channel_key = (np.int64(lines[p]) << 8 | np.int64(channels[p])) << 17
        number = np.int64(numbers[p])
        if number == 0:
            heartbeats = _find_run(channel_key | TRACK, slots, runs, state)
            if heartbeats >= 0:
                runs[heartbeats, TRACK_HEARTBEATS] += 1
            else:
                state[UNTRACKED] += 1
            continue
        version = np.int64(versions[p])
        key = channel_key | version
        if key != last:
            last = key
            track = _find_run(channel_key | TRACK, slots, runs, state)
            row = _find_run(key, slots, runs, state)
        if row < 0 or track < 0:
            state[UNTRACKED] += 1
            continue
        if runs[row, RUN_TURNS] > 0 and state[SERIALS] - runs[row, RUN_SERIAL] > _COMES_ROUND:
            # After this many versions, the version has wrapped.
            _close_gaps(row, runs, gaps, state)
            runs[row, RUN_NEXT] = 0
        if runs[row, RUN_NEXT] == 0:
            runs[row, RUN_TURNS] += 1
            runs[row, RUN_ENDED] = 0
            state[SERIALS] += 1
            runs[row, RUN_SERIAL] = state[SERIALS]
            runs[row, RUN_FIRST] = number
            runs[row, RUN_NEXT] = number
            if runs[row, RUN_TURNS] == 1:
                runs[row, RUN_BEGAN] = times[p]
            newest = runs[track, TRACK_VERSION]
            follows = newest != 0 and version_distance(newest, version) > 0
            if newest == 0 or follows:
                runs[track, TRACK_VERSION] = version
            if follows:
                # A version after another starts at 1; only the first may be joined midway.
                runs[row, RUN_FIRST] = 1
                runs[row, RUN_NEXT] = 1
        expected = runs[row, RUN_NEXT]
        runs[row, RUN_PACKETS] += 1
        if number >= expected:
            if number > expected:
                _open_gap(row, expected, number - 1, times[p], runs, gaps, state)
            runs[row, RUN_NEXT] = number + 1
        elif number < runs[row, RUN_FIRST]:
            if runs[row, RUN_FIRST] - number > 1:
                first = runs[row, RUN_FIRST]
                _open_gap(row, number + 1, first - 1, times[p], runs, gaps, state)
            runs[row, RUN_FIRST] = number
            runs[row, RUN_LATE] += 1
        elif not _fill_gap(row, number, runs, gaps, state):
            runs[row, RUN_DUPLICATES] += 1
        if resets[p]:
            runs[row, RUN_ENDED] += 1
