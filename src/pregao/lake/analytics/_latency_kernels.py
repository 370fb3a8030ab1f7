"""Kernel that gathers the messages of events; its twin is in the tests."""

from __future__ import annotations

from pregao._njit import njit
from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL


@njit
def gather_events(
    order: Int64Array,
    event: Int64Array,
    place: Int64Array,
    times: Int64Array,
    first: Int64Array,
    last: Int64Array,
    messages: Int64Array,
    least: Int64Array,
) -> int:
    """Fill the first and last message, the number of messages and the least times of each event.

    ``order`` sorts the messages by event. ``place`` has their event keys, ``times`` a row for each
    kind of time, ``least`` the same for events; a time that is `NULL` does not count. Returns the
    number of events.
    """
    count = -1
    for row in order:
        if count < 0 or event[row] != event[first[count]]:
            count += 1
            first[count] = row
            last[count] = row
            messages[count] = 0
            for kind in range(len(times)):
                least[kind, count] = NULL
        elif place[row] < place[first[count]]:
            first[count] = row
        elif place[row] > place[last[count]]:
            last[count] = row
        messages[count] += 1
        for kind in range(len(times)):
            time = times[kind, row]
            if time != NULL and (least[kind, count] == NULL or time < least[kind, count]):
                least[kind, count] = time
    return count + 1
