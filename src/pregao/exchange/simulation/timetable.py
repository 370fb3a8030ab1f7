"""Timetable of a simulated day: a schedule of hours compressed into the duration of a run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from pregao.clock import MINUTE, SECOND
from pregao.errors import UsageError
from pregao.exchange.engine.model.auction_rules import AuctionRules
from pregao.exchange.engine.model.enums import TradingStatus
from pregao.exchange.engine.model.instruments import Instrument, SecurityType
from pregao.exchange.engine.model.operations_commands import SetGroupPhase
from pregao.exchange.engine.model.schedule import Schedule

_WEIGHTS = {"closed": 0.1, "auction": 3.0, "open": 1.0}
"""Relative run time of an hour by phase: closed hours pass quickly, auctions get more time."""
_LEAD = 0.01
"""Share of a run before the first change of phase."""
_TAIL = 0.05
"""Share of a run after the last change of phase: the loops publish the final state."""
_AUCTION_NS = 5 * MINUTE
"""Duration of an auction triggered by a price band in a day of full length."""
_MIN_AUCTION_NS = SECOND // 2

_RANK = {"closed": 0, "auction": 1, "open": 2}
_KIND = {
    TradingStatus.OPEN: "open",
    TradingStatus.RESERVED: "auction",
    TradingStatus.FINAL_CLOSING_CALL: "auction",
}


@dataclass(frozen=True, slots=True)
class Timetable:
    """Times of a run: its start and end, and the phase changes of the schedule."""

    midnight_ns: int
    start_ns: int
    end_ns: int
    commands: tuple[tuple[int, SetGroupPhase], ...]
    phases: tuple[tuple[int, int, str], ...]
    """Spans of the run: (start, end, "open", "auction" or "closed" for the busiest group)."""
    auction_duration_ns: int

    @property
    def tradable_ns(self) -> tuple[int, int]:
        """Start and end of the time in which orders can be sent."""
        busy = [(start, end) for start, end, kind in self.phases if kind != "closed"]
        return busy[0][0], busy[-1][1]


def shortened(rules: AuctionRules | None, day: Timetable) -> AuctionRules | None:
    """Return auction rules with their times scaled to the shorter auctions of a run."""
    if rules is None:
        return None

    def part(time_ns: int) -> int:
        return time_ns * day.auction_duration_ns // _AUCTION_NS

    return replace(
        rules,
        duration_ns=None if rules.duration_ns is None else part(rules.duration_ns),
        extension_ns=part(rules.extension_ns),
        window_ns=part(rules.window_ns),
        random_ns=part(rules.random_ns),
    )


def plan_day(
    schedule: Schedule, instruments: Sequence[Instrument], trade_date: date, duration_ns: int
) -> Timetable:
    """Fit the schedule of the instruments' groups into a run of `duration_ns`.

    The run begins at the time of day of the first entry. Its clock runs at normal speed; the hours
    between the entries are shortened.
    """
    groups = list(dict.fromkeys(instrument.security_group for instrument in instruments))
    for group in groups:
        if not schedule.entries(group):
            raise UsageError(
                f"schedule: no entries for security group {group!r} and no default: add one of them"
            )
    if schedule.operations:
        raise UsageError(
            "schedule: operations are commands of a running exchange, which a simulation does not "
            "run: remove [[operation]]"
        )
    planned = schedule.commands(groups, trade_date)
    # An index is listed and published, but takes no orders.
    traded = {
        instrument.security_group
        for instrument in instruments
        if instrument.security_type != SecurityType.INDEX and not instrument.is_forward
    }
    kinds = _kinds(planned, traded)
    if all(kind == "closed" for _, _, kind in kinds):
        raise UsageError(
            "schedule: no traded group is ever open or in auction, so no orders can be sent: "
            "add such an entry"
        )
    start = planned[0][0]
    midnight = datetime(trade_date.year, trade_date.month, trade_date.day, tzinfo=UTC)
    warp = _Warp(kinds, start, duration_ns)
    commands = tuple(
        (
            warp(when),
            replace(
                command,
                open_time_ns=None if command.open_time_ns is None else warp(command.open_time_ns),
            ),
        )
        for when, command in planned
    )
    phases = tuple((warp(begin), warp(end), kind) for begin, end, kind in kinds)
    full_ns = max(planned[-1][0] - start, 1)
    return Timetable(
        int(midnight.timestamp()) * SECOND - schedule.utc_offset_ns,
        start,
        start + duration_ns,
        commands,
        (
            (start, phases[0][0], "closed"),
            *phases,
            (phases[-1][1], start + duration_ns, "closed"),
        ),
        max(_MIN_AUCTION_NS, _AUCTION_NS * duration_ns // full_ns),
    )


def _kinds(
    planned: Sequence[tuple[int, SetGroupPhase]], traded: Collection[str]
) -> list[tuple[int, int, str]]:
    """Return the spans between schedule entries, each with the kind of its busiest traded group."""
    now = {"": "closed"}
    kinds: list[tuple[int, int, str]] = []
    for index, (when, command) in enumerate(planned):
        if command.group in traded:
            now[command.group] = _KIND.get(command.phase, "closed")
        following = planned[index + 1][0] if index + 1 < len(planned) else when + MINUTE
        if following > when:
            kinds.append((when, following, max(now.values(), key=_RANK.__getitem__)))
    return kinds


class _Warp:
    """Maps times of a schedule to times of a run."""

    def __init__(
        self, kinds: Sequence[tuple[int, int, str]], start_ns: int, duration_ns: int
    ) -> None:
        weights = [_WEIGHTS[kind] for _, _, kind in kinds]
        spans = [end - begin for begin, end, _ in kinds]
        total = sum(span * weight for span, weight in zip(spans, weights, strict=True))
        available_ns = duration_ns * (1 - _LEAD - _TAIL)
        self._begins = [begin for begin, _, _ in kinds]
        self._begins_ns: list[int] = []
        self._lengths: list[int] = []
        begin_ns = start_ns + int(duration_ns * _LEAD)
        for span, weight in zip(spans, weights, strict=True):
            length = int(available_ns * span * weight / total)
            self._begins_ns.append(begin_ns)
            self._lengths.append(length)
            begin_ns += length
        self._spans = spans

    def __call__(self, when_ns: int) -> int:
        index = max(bisect_right(self._begins, when_ns) - 1, 0)
        elapsed_ns = min(when_ns - self._begins[index], self._spans[index])
        return self._begins_ns[index] + self._lengths[index] * elapsed_ns // self._spans[index]
