"""Table ``clock_offsets``: offset of a capture's clock from the exchange's.

Capture time minus sending time is the network time plus the difference of two clocks. The smallest
such difference among all packets of a capture and feed is taken as the offset: the excess over it
is network time. The shortest network time is part of the offset: the two cannot be separated.

Single packets with a wrong time must not set the offset. So differences far below the usual are
excluded: below the median by more than ten times the distance from the median to the lowest tenth,
plus a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pregao.arrays import Int64Array
from pregao.book.update_rows import NULL
from pregao.clock import MILLISECOND
from pregao.lake.analytics.legacy import LEGACY_PACKETS
from pregao.lake.analytics.reading import LakeDay
from pregao.lake.analytics.row_groups import ALL, Labels, read_rows
from pregao.lake.analytics.tables import AnalyticsOptions, AnalyticsTable, Scope, column

PACKETS = "packets"
FLOW = ("channel", "stream", "feed", "capture_id")
"""Key of an offset: a channel's stream, as one capture has it from one feed."""
_BIN_BITS = 16
"""A pass divides a range into at most 2¹⁶ bins."""

COLUMNS = (
    column("channel", pa.int16(), "Channel."),
    column("stream", pa.string(), "Stream."),
    column("feed", pa.string(), "Feed."),
    column("capture_id", pa.string(), "Capture; see ingests."),
    column("name", pa.string(), "Name of the capture."),
    column("packets", pa.int64(), "Number of compared packets."),
    column(
        "offset_ns",
        pa.int64(),
        "Lead of the capture's clock over the exchange's, including the shortest network time; "
        "negative if it lags.",
    ),
    column("min_ns", pa.int64(), "Smallest capture time minus sending time of all packets."),
    column("median_ns", pa.int64(), "Median of capture time minus sending time."),
    column("outliers", pa.int64(), "Packets excluded for an implausibly small difference."),
)


Key = tuple[str, str, str]
"""Stream, feed and capture of a flow."""


class Differences:
    """Differences of a flow, of which some ranks are found in several passes over all of them.

    A pass counts the differences by bins of a range, and the next divides the bin that has the
    rank, so that memory does not depend on the number of differences.
    """

    def __init__(self) -> None:
        self.count = 0
        self.min = self.max = 0
        self.outliers = 0
        self.plausible: int | None = None
        """Smallest plausible difference, where outliers were counted."""
        self._searches: list[_Search] = []

    def measure(self, values: Int64Array) -> None:
        """Add differences in the first pass."""
        low, high = int(values.min()), int(values.max())
        self.min = min(self.min, low) if self.count else low
        self.max = max(self.max, high) if self.count else high
        self.count += len(values)

    def search(self) -> None:
        """Start the search of the ranks, after the first pass."""
        ranks = (-(-self.count // parts) for parts in (10, 2))
        self._searches = [_Search(self.min, self.max, rank) for rank in ranks]

    @property
    def found(self) -> bool:
        """Whether the ranks are found."""
        return all(one.found for one in self._searches)

    def bin(self, values: Int64Array) -> None:
        """Add differences in a later pass."""
        for one in self._searches:
            if not one.found:
                one.add(values)

    def narrow(self) -> None:
        """End such a pass."""
        for one in self._searches:
            if not one.found:
                one.narrow()

    @property
    def median(self) -> int:
        """Median difference."""
        return self._searches[1].low

    @property
    def lowest_plausible(self) -> int:
        """Difference below which all are outliers."""
        low = self._searches[0].low
        return self.median - 10 * (self.median - low) - MILLISECOND

    def judge(self, values: Int64Array) -> None:
        """Count outliers, in the last pass."""
        plausible = values[values >= self.lowest_plausible]
        self.outliers += len(values) - len(plausible)
        if len(plausible):
            low = int(plausible.min())
            self.plausible = low if self.plausible is None else min(self.plausible, low)


class _Search:
    """Search of the value that has a rank, between two values."""

    def __init__(self, low: int, high: int, rank: int) -> None:
        self.low = low
        self._rank = rank
        self._bits = (high - low).bit_length()
        self._counts: Any = 0

    @property
    def found(self) -> bool:
        """Whether ``low`` is the value."""
        return not self._bits

    @property
    def _shift(self) -> int:
        return max(self._bits - _BIN_BITS, 0)

    def add(self, values: Int64Array) -> None:
        bins = 1 << (self._bits - self._shift)
        at = (values - self.low) >> self._shift
        self._counts += np.bincount(at[(at >= 0) & (at < bins)], minlength=bins)

    def narrow(self) -> None:
        below = np.cumsum(self._counts)
        at = int(np.searchsorted(below, self._rank))
        self._rank -= int(below[at] - self._counts[at])
        self.low += at << self._shift
        self._bits, self._counts = self._shift, 0


def clock_offsets(day: LakeDay) -> Any:
    """Return the offset of each flow of the channel's day."""
    flows: dict[Key, Differences] = {}
    for key, values in _differences(day):
        flows.setdefault(key, Differences()).measure(values)
    for flow in flows.values():
        flow.search()
    while not all(flow.found for flow in flows.values()):
        for key, values in _differences(day):
            flows[key].bin(values)
        for flow in flows.values():
            flow.narrow()
    if any(flow.min < flow.lowest_plausible for flow in flows.values()):
        for key, values in _differences(day):
            flows[key].judge(values)
    rows = [
        {
            "channel": day.channel,
            **dict(zip(FLOW[1:], key, strict=True)),
            "name": captures[key[-1]].name if key[-1] in captures else None,
            "packets": flow.count,
            "offset_ns": flow.min if flow.plausible is None else flow.plausible,
            "min_ns": flow.min,
            "median_ns": flow.median,
            "outliers": flow.outliers,
        }
        for captures in (day.tables.captures,)
        for key, flow in sorted(flows.items())
    ]
    return pa.Table.from_pylist(rows, pa.schema(COLUMNS).remove_metadata())


def _differences(day: LakeDay) -> Iterator[tuple[Key, Int64Array]]:
    """Yield capture time minus sending time of packets, by flow.

    A packet without a sending time has none: null, or 0 in lakes of earlier versions.
    """
    times, texts = ("capture_time_ns", "sending_time_ns"), FLOW[1:]
    labels = {name: Labels() for name in texts}
    for name in filter(day.has, (PACKETS, LEGACY_PACKETS)):
        read = read_rows(day.files(name), day.channel, times[0], ALL, (*times, *texts), texts)
        for rows, there in read:
            if not {*times, *texts} <= set(there):
                continue
            captured, sent = (rows.numbers(each) for each in times)
            labelled = rows.table(texts, texts)
            coded = [labels[each].of(labelled.column(each)) for each in texts]
            known = (captured != NULL) & (sent > 0) & (np.min(coded, axis=0) >= 0)
            flow = np.zeros(rows.count, np.int64)
            for own, numbers in zip(labels.values(), coded, strict=True):
                flow = flow * (len(own.texts) + 1) + numbers
            difference = captured - sent
            for number in np.flatnonzero(np.bincount(flow[known])).tolist():
                of_flow = known & (flow == number)
                at = int(of_flow.argmax())
                stream, feed, capture = (
                    own.texts[numbers[at]]
                    for own, numbers in zip(labels.values(), coded, strict=True)
                )
                yield (stream, feed, capture), difference[of_flow]


def _build(day: LakeDay, _wanted: AnalyticsOptions) -> Any:
    return clock_offsets(day)


CLOCK_OFFSETS = AnalyticsTable(
    "clock_offsets",
    "Offset of a capture's clock from the exchange's.",
    COLUMNS,
    _build,
    others=(PACKETS, LEGACY_PACKETS),
    scope=Scope.CHANNEL,
    sort_by=("channel", "stream", "feed", "capture_id"),
)
