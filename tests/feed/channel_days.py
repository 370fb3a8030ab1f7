"""Small simulated days for tests of a followed channel: all packets, and the truth at each key.

A day is built once, in memory; a `Network` then delivers its packets over lines with any faults,
and only those of streams that are joined.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from pregao.book.state import State
from pregao.clock import MILLISECOND, SECOND
from pregao.exchange.simulation.settings import SimulationSettings, parse_reset
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.channel.channel import Channel
from pregao.feed.channel.settings import ChannelSettings, Join
from pregao.umdf import templates
from pregao.umdf.layout import FRAMING_SIZE
from pregao.umdf.packets import PacketDecoder, decode_header, encode_packet, frames
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream
from pregao.units import Side

CHANNEL = 51
LATENCY_NS = {"A": 9_000, "B": 12_500}


@dataclass
class Day:
    """A day as sent: packets of every stream, and the state of each book after each packet."""

    start_ns: int
    end_ns: int
    sent: list = field(default_factory=list)
    """Time, stream and payload of every packet, in order."""
    packet_keys: list = field(default_factory=list)
    """The incremental packets after which the truth is known, in order."""
    books: dict = field(default_factory=dict)
    """By instrument: the states of its book, each with the index since which it is valid."""
    messages: int = 0

    def book(self, security_id, at):
        """The state of a book after the packet key of an index."""
        known = self.books[security_id]
        found = bisect_left(known, at + 1, key=lambda each: each[0]) - 1
        return known[found][1] if found >= 0 else ((), ())

    def final(self, security_id):
        """Return the state of a book at the end."""
        return self.books[security_id][-1][1] if self.books[security_id] else ((), ())


class _Listener:
    """The audience of a market that keeps what is sent, and what the engine knows then."""

    def __init__(self, simulation, calm_seconds):
        self._calm_ns = calm_seconds * SECOND
        self._publisher = simulation.publisher
        self._engine = simulation.trading.engine
        self.found = Day(simulation.day.start_ns, simulation.day.end_ns)
        for each in simulation.instruments:
            if each.channel == CHANNEL:
                self.found.books[each.security_id] = []

    def begin(self, now_ns):
        self._send(self._publisher.initialize(now_ns))

    def publish(self, units, now_ns, security_id=None):
        self._send(self._publisher.publish(units, now_ns))

    def end(self, now_ns):
        self._send(self._publisher.advance(now_ns))
        # What follows on a calm line: heartbeats and loops, nothing else.
        self._send(self._publisher.advance(now_ns + self._calm_ns))
        self.found.end_ns = now_ns + self._calm_ns
        self.found.messages = self._publisher.messages

    def book(self, book):
        pass

    def progress(self, done):
        pass

    def messages(self):
        return self._publisher.messages

    def _send(self, datagrams):
        packet_key = None
        for each in datagrams:
            if each.channel != CHANNEL:
                continue
            self.found.sent.append((each.time_ns, each.stream, each.payload))
            if each.stream is Stream.INCREMENTAL:
                header = decode_header(each.payload)
                if header.sequenced:
                    packet_key = PacketKey(header.sequence_version, header.sequence_number)
        if packet_key is None:
            return
        at = len(self.found.packet_keys)
        self.found.packet_keys.append(packet_key)
        for security_id, known in self.found.books.items():
            view = self._engine.book(security_id)
            book = (_side(view.bids), _side(view.offers))
            if not known or known[-1][1] != book:
                known.append((at, book))


def _side(entries):
    return tuple((each.price, each.size, each.secondary_order_id) for each in entries)


def simulated_day(
    seed, *, version=16, resets=(), profile="equities", seconds=4, rate=150.0, calm=3
):
    """Simulate a small day of some instruments in memory."""
    simulation = Simulation(
        SimulationSettings(
            profile=profile, out=Path(), seed=seed, instruments=6, duration_ns=seconds * SECOND,
            schema_version=version, rate=rate, resets=tuple(parse_reset(text) for text in resets),
        )
    )  # fmt: skip
    listener = _Listener(simulation, calm)
    simulation.trading.run(listener)
    return listener.found


@dataclass(frozen=True)
class Faults:
    """Faults of the lines; rates are of packets."""

    loss: dict = field(default_factory=dict)
    """By feed A, B, or stream ``snapshot`` and ``definition``."""
    reorder: float = 0.0
    duplicate: float = 0.0
    bursts: int = 0
    """Number of times that a run of packets is lost on both feeds."""
    burst_packets: int = 200
    """Their maximum duration."""
    torn: float = 0.0
    """Packets whose last message is cut short on both feeds."""
    crash: bool = False
    """Whether every SequenceReset of the incremental stream is lost, as if the sender had died."""
    join: float = 0.0
    """After which part of the day the channel is joined."""
    until: float = 0.8
    """After this part of the day the lines are free of faults."""
    slow: int = 0
    """Events are taken only after this number of packets."""


@dataclass
class Counts:
    """Faults applied to the packets."""

    lost: Counter = field(default_factory=Counter)
    both: int = 0
    reordered: int = 0
    duplicated: int = 0
    torn: int = 0
    crashes: int = 0


def arrivals(day, faults, seed):
    """The packets in arrival order: time, stream, feed, payload; and the faults applied to them."""
    draw = random.Random(seed)
    span = day.sent[-1][0] - day.start_ns
    joined_ns = day.start_ns + int(span * faults.join)
    sound_ns = day.start_ns + int(span * faults.until)
    numbered = [
        at for at, (time, stream, _) in enumerate(day.sent)
        if stream is Stream.INCREMENTAL and joined_ns <= time < sound_ns
    ]  # fmt: skip
    dead = set()
    for _ in range(faults.bursts):
        first = draw.randrange(len(numbered))
        dead.update(numbered[first : first + draw.randint(2, faults.burst_packets)])
    counts, found, free = Counts(), [], Counter()
    for at, (time, stream, payload) in enumerate(day.sent):
        if time < joined_ns:
            continue
        bad = time < sound_ns
        if stream is Stream.INCREMENTAL:
            if bad and faults.crash and is_last_of_version(payload):
                counts.crashes += 1
                continue
            missed = 0
            if bad and draw.random() < faults.torn and decode_header(payload).sequenced:
                payload = payload[:-1]
                counts.torn += 1
            for feed in ("A", "B"):
                if bad and (at in dead or draw.random() < faults.loss.get(feed, 0)):
                    counts.lost[feed] += 1
                    missed += 1
                    continue
                when = max(time + LATENCY_NS[feed] + draw.randint(0, 3_000), free[feed])
                free[feed] = when + 700  # the line takes its time
                if bad and draw.random() < faults.reorder:
                    counts.reordered += 1
                    when += draw.choice((20_000, 2 * MILLISECOND, 40 * MILLISECOND))
                found.append((when, len(found), stream, feed, payload))
                if bad and draw.random() < faults.duplicate:
                    counts.duplicated += 1
                    found.append((when + 5_000, len(found), stream, feed, payload))
            counts.both += missed == 2
        elif bad and draw.random() < faults.loss.get(stream.value, 0):
            counts.lost[stream.value] += 1
        else:
            found.append((time + LATENCY_NS["A"], len(found), stream, "A", payload))
    found.sort()
    return found, counts, joined_ns


def other_site(day, version_ahead=100):
    """The packets of a day as another site sends them: with its own sequence versions."""
    decoder = PacketDecoder()
    found = []
    for time, stream, payload in day.sent:
        header = decode_header(payload)
        if stream is Stream.INCREMENTAL:
            header = header._replace(sequence_version=header.sequence_version + version_ahead)
        messages = []
        for frame in frames(payload):
            message = payload[frame.position + FRAMING_SIZE : frame.end]
            if frame.template_id == templates.SNAPSHOT_HEADER:
                values = decoder.outcome(payload, frame).decoded.values
                if "lastSequenceVersion" in values:
                    values = values | {
                        "lastSequenceVersion": values["lastSequenceVersion"] + version_ahead
                    }
                codec = decoder.codec(frame.schema_id, frame.version)
                message = codec.codec(frame.template_id).encode(values)
            messages.append(message)
        found.append((time, stream, encode_packet(header, messages)))
    packet_keys = [
        PacketKey(version + version_ahead, number) for version, number in day.packet_keys
    ]
    return replace(day, sent=found, packet_keys=packet_keys)


def is_last_of_version(payload):
    """Whether a packet contains a SequenceReset."""
    return any(frame.template_id == templates.SEQUENCE_RESET for frame in frames(payload))


def content(book):
    """The orders of a book, as the truth writes them."""
    return tuple(
        tuple((each.price, each.size, each.order_id) for each in book.orders(side)) for side in Side
    )


class Checked:
    """Follows a day and compares every book that is called valid or empty with the truth."""

    def __init__(self, day, settings, other=None):
        self.day = day
        self.channel = Channel(settings)
        self.listening = set()
        self.events = Counter()
        self.compared = self.untrusted = 0
        self._index = {packet_key: at for at, packet_key in enumerate(day.packet_keys)}
        if other is not None:
            self._index |= {packet_key: at for at, packet_key in enumerate(other.packet_keys)}
        self._seen = {}
        emitter = self.channel._emitter
        updated = emitter.on_update

        def noted(security_id, event, update):
            self._seen.pop(security_id, None)
            updated(security_id, event, update)

        emitter.on_update = noted
        emitter.on_packet = lambda _packet_key: self.compare()

    def compare(self):
        """Every book, with the truth at its packet key."""
        channel = self.channel
        at = self._index.get(channel.last_packet)
        if at is None:
            return
        for security_id in self.day.books:
            book = channel.book(security_id)
            if book.state not in (State.VALID, State.EMPTY):
                self.untrusted += 1
                continue
            if security_id not in self._seen:
                self._seen[security_id] = content(book.content)
            truth = self.day.book(security_id, at)
            assert self._seen[security_id] == truth, (security_id, channel.last_packet, book.state)
            self.compared += 1

    def act(self):
        for action in self.channel.take_actions():
            key = (action.stream, action.feed)
            if isinstance(action, Join):
                assert key not in self.listening
                self.listening.add(key)
            else:
                self.listening.remove(key)

    def take(self):
        found = self.channel.take_events()
        self.events.update(type(each).__name__ for each in found)
        return found

    def follow(self, found, joined_ns, *, slow=0):
        """Deliver packets in arrival order to the listeners."""
        channel = self.channel
        channel.start(joined_ns)
        self.act()
        for count, (when, _, stream, feed, payload) in enumerate(found):
            while (deadline := channel.deadline()) is not None and deadline <= when:
                channel.tick(deadline)
                self.compare()
                self.act()
            if (stream, feed) in self.listening:
                channel.receive(stream, feed, payload, when)
                self.compare()
                self.act()
            if not slow or count % slow == 0:
                self.take()
        channel.tick(channel._now_ns + 1)
        self.take()


def check_the_end(checked):
    """Every book equals the engine's, and is called so."""
    channel = checked.channel
    for security_id in checked.day.books:
        book = channel.book(security_id)
        assert book.trusted, (security_id, book.state, book.reason)
        assert content(book.content) == checked.day.final(security_id)
    feeds = (*channel.settings.feeds, *channel.settings.backup)
    assert checked.listening == {(Stream.INCREMENTAL, feed) for feed in feeds}


def settings_of(**changes):
    """The settings of the channel of a day."""
    return ChannelSettings(CHANNEL, **changes)


_TECHNICAL = frozenset(
    {"rptSeq", "matchEventIndicator", "mDEntryTimestamp", "transactTime", "tradeCondition",
     "tradSesOpenTime", "totNoRelatedSym", "lastFragment", "securityUpdateAction"}
)  # fmt: skip
"""Fields that differ between a message and a snapshot of the same state."""


def comparable_state(channel):
    """Instruments, states and statistics, comparable between two followers."""
    found = {}
    for security_id, instrument in channel.instruments.items():
        statistics = {
            key: {
                name: value
                for name, value in each.values.items()
                if name not in _TECHNICAL and value is not None
            }
            for key, each in channel.statistics(security_id).items()
        }
        values = {k: v for k, v in instrument.values.items() if k not in _TECHNICAL}
        found[security_id] = (channel.phases.status(security_id), statistics, values)
    return found


MARKETS = 20
"""Number of simulated markets; each is followed with many mixes of faults."""
RESETS = ((), (), ("channel@0.4",), ("sequence@0.5",), ("sequence@0.3", "channel@0.6"))
VERSIONS = (17, 16, 15, 10, 7)


@cache
def market(number):
    """A simulated market, and its events over lines without faults."""
    day = simulated_day(
        number,
        version=VERSIONS[number % len(VERSIONS)],
        resets=RESETS[number // 2 % len(RESETS)],
        rate=100.0 + 10 * number,
    )
    assert day.messages >= 500
    assert len(day.books) >= 5
    found, _, joined_ns = arrivals(day, Faults(), number)
    sound = Checked(day, settings_of())
    sound.follow(found, joined_ns)
    check_the_end(sound)
    return day, comparable_state(sound.channel)


def mix(seed):
    """The faults of a day, and how its channel is set."""
    draw = random.Random(seed)

    def perhaps(rate, limit):
        return draw.random() * limit if draw.random() < rate else 0.0

    loss = {"A": perhaps(0.7, 0.3), "B": perhaps(0.7, 0.3)}
    loss |= {"snapshot": perhaps(0.5, 0.3), "definition": perhaps(0.5, 0.3)}
    faults = Faults(
        loss=loss,
        reorder=perhaps(0.6, 0.1),
        duplicate=perhaps(0.6, 0.1),
        bursts=draw.choice((0, 0, 1, 2, 4)),
        burst_packets=draw.choice((5, 50, 200)),
        torn=perhaps(0.3, 0.02),
        crash=draw.random() < 0.3,
        join=draw.choice((0.0, 0.0, draw.random() * 0.6)),
        slow=draw.choice((0, 0, 40)),
    )
    settings = settings_of(
        reorder_packets=draw.choice((1, 4, 16)),
        max_held_packets=draw.choice((8, 65_536)),
        max_queued_messages=draw.choice((3, 20, 10_000)),
        max_queued_total=draw.choice((10, 1_000_000)),
        max_events=30 if faults.slow else 1_000_000,
    )
    return faults, settings
