"""Arbitration of several feeds: the first copy of each packet, in sequence, with gaps reported.

Feeds A and B carry the same packets. A packet ahead of the sequence is held until the missing ones
arrive, up to a maximum time and number of packets; then the gap is declared lost and reported. If
the feeds are named beforehand, it is declared lost as soon as all of them are well past it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Generic, NamedTuple, TypeVar

from pregao.clock import MILLISECOND
from pregao.umdf.sequencing import PacketKey, next_version, version_distance

T = TypeVar("T")

MAX_HELD_PACKETS = 65_536
"""Maximum number of packets held while earlier ones are missing."""
MAX_WAIT_NS = 20 * MILLISECOND
"""Maximum time to wait for missing packets."""
REMEMBERED = 65_536
"""Number of packets whose first feed and arrival time are remembered."""
REORDER = 16
"""Number of packets by which every feed must be past a gap before it is declared lost."""
MAX_RUNS = 16_384
"""Maximum number of remembered runs of consecutive packets."""


def feed_name(number: int) -> str:
    """Return the name of a channel's feed by its number, from 0 on: A to Z, AA, AB, …"""
    name = ""
    while number >= 0:
        number, letter = divmod(number, 26)
        name = ascii_uppercase[letter] + name
        number -= 1
    return name


class PacketDelivered(NamedTuple, Generic[T]):
    """A packet, in sequence."""

    packet_key: PacketKey
    item: T
    feed: str
    time_ns: int
    new_version: bool = False


@dataclass(frozen=True, slots=True)
class PacketsLost:
    """Packets that no feed delivered in time; ``last`` is None if their number is unknown."""

    sequence_version: int
    first: int
    last: int | None


class PacketDuplicate(NamedTuple):
    """A packet that another feed, or the same one, had already delivered."""

    packet_key: PacketKey
    feed: str
    first_feed: str | None
    """None if it is no longer remembered."""
    difference_ns: int | None
    """Delay after the first copy; None if that is no longer remembered."""


@dataclass(frozen=True, slots=True)
class PacketTooLate:
    """A packet that arrived after it was declared lost, or too late to be remembered."""

    packet_key: PacketKey
    feed: str


FeedOutcome = PacketDelivered[T] | PacketsLost | PacketDuplicate | PacketTooLate


class FirstArrivals:
    """Remembers which feed delivered a packet first, for the newest packets of each stream.

    Keys are (channel, stream, sequence version, sequence number).
    """

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._seen: dict[tuple[int, str, int, int], tuple[str, int]] = {}

    def __len__(self) -> int:
        """Return the number of remembered packets."""
        return len(self._seen)

    def note(
        self, channel: int, stream: str, packet_key: PacketKey, feed: str, time_ns: int
    ) -> tuple[str, int] | None:
        """Record a packet. Returns None if it is new, else its first feed and the delay."""
        key = (channel, stream, *packet_key)
        first = self._seen.get(key)
        if first is not None:
            return first[0], time_ns - first[1]
        self._seen[key] = (feed, time_ns)
        if len(self._seen) > self._remembered:
            del self._seen[next(iter(self._seen))]
        return None


class Arbiter(Generic[T]):
    """Merges the packets of one stream of a channel from several feeds into one sequence."""

    def __init__(
        self,
        channel: int = 0,
        stream: str = "",
        *,
        max_held_packets: int = MAX_HELD_PACKETS,
        max_wait_ns: int = MAX_WAIT_NS,
        remembered: int = REMEMBERED,
        feeds: Collection[str] = (),
        reorder: int = REORDER,
    ) -> None:
        """Create an arbiter; a gap is lost once all ``feeds`` are ``reorder`` packets past it."""
        self.channel = channel
        self.stream = stream
        self._max_held_packets = max_held_packets
        self._max_wait_ns = max_wait_ns
        self._first = FirstArrivals(remembered)
        self._version: int | None = None
        self._next = 1
        self._whole_since = 1
        """All numbers of the version from this one on were delivered."""
        self._base = 0
        """Sequence version to which serials are relative."""
        self._runs: list[tuple[int, int]] = []
        """Earlier deliveries: first and last serial of each run without a gap."""
        self._ended = False
        self._promised = 1
        """All numbers below this one were sent, according to a heartbeat."""
        self._announced: PacketKey | None = None
        """The next packet of a later version, according to a heartbeat."""
        self._reached = dict.fromkeys(feeds, 0)
        """The last number of the version that each feed has delivered."""
        self._reorder = reorder
        self._held: dict[PacketKey, tuple[T, str, int, bool]] = {}
        self._waiting_since: int | None = None

    @property
    def held(self) -> int:
        """Number of held packets."""
        return len(self._held)

    @property
    def expected(self) -> PacketKey | None:
        """The next expected packet key; None before the first packet."""
        return None if self._version is None else PacketKey(self._version, self._next)

    @property
    def awaited(self) -> PacketsLost | None:
        """The gap before the earliest held packet, if that is in the same version."""
        if self._version is None or not self._held:
            return None
        following = self._following()
        if following.sequence_version != self._version:
            return None
        return PacketsLost(self._version, self._next, following.sequence_number - 1)

    @property
    def deadline_ns(self) -> int | None:
        """Time at which the current gap is declared lost, if there is one."""
        return None if self._waiting_since is None else self._waiting_since + self._max_wait_ns

    @property
    def calm(self) -> bool:
        """Whether nothing is held or missing, so that only the next packet has an effect."""
        return (
            self._version is not None
            and not self._held
            and self._waiting_since is None
            and not self._ended
        )

    @property
    def whole_since(self) -> int:
        """All numbers of the version from this one on were delivered."""
        return self._whole_since

    def reached(self, feed: str) -> int:
        """Return the last number of the version that a feed has delivered."""
        return self._reached.get(feed, 0)

    def resume_at(self, following: int, reached: Mapping[str, int]) -> None:
        """Continue after packets that another component delivered while the arbiter was calm."""
        self._next = following
        self._reached.update(reached)

    def accept(
        self, feed: str, packet_key: PacketKey, time_ns: int, item: T, *, resets: bool = False
    ) -> list[FeedOutcome[T]]:
        """Process a packet, not a heartbeat; ``resets``: it contains a SequenceReset."""
        outcomes: list[FeedOutcome[T]] = []
        if self._waiting_since is not None:
            outcomes += self.expire(time_ns)
        first = self._first.note(self.channel, self.stream, packet_key, feed, time_ns)
        if self._version is None:
            self._begin(packet_key)
        if first is not None:
            outcomes.append(PacketDuplicate(packet_key, feed, *first))
        elif self._was_delivered(packet_key):
            outcomes.append(PacketDuplicate(packet_key, feed, None, None))
        elif self._is_past(packet_key):
            outcomes.append(PacketTooLate(packet_key, feed))
        else:
            self._held[packet_key] = (item, feed, time_ns, resets)
            outcomes += self._release()
        if feed in self._reached and packet_key.sequence_version == self._version:
            self._reached[feed] = max(self._reached[feed], packet_key.sequence_number)
        while self._held and (len(self._held) > self._max_held_packets or self._all_past()):
            outcomes += self._give_up()
        self._watch(time_ns)
        return outcomes

    def heartbeat(self, version: int, next_number: int, time_ns: int) -> list[FeedOutcome[T]]:
        """Process a heartbeat, which states the number of the next packet."""
        outcomes: list[FeedOutcome[T]] = list(self.expire(time_ns))
        if self._version is None:  # an idle channel: no gap before the next packet
            self._begin(PacketKey(version, next_number))
        elif version == self._version:
            if not self._ended:
                self._promised = max(self._promised, next_number)
        elif version_distance(self._version, version) > 0:
            self._announced = PacketKey(version, next_number)
        self._watch(time_ns)
        return outcomes

    def expire(self, now_ns: int) -> Iterator[FeedOutcome[T]]:
        """Declare gaps lost whose deadline has passed."""
        while (deadline := self.deadline_ns) is not None and now_ns >= deadline:
            yield from self._give_up()
            self._waiting_since = None
            self._watch(now_ns)

    def _begin(self, packet_key: PacketKey) -> None:
        """Start the sequence at a packet key."""
        self._version, self._next = packet_key
        self._whole_since, self._base = packet_key.sequence_number, packet_key.sequence_version

    def _is_past(self, packet_key: PacketKey) -> bool:
        """Whether a packet precedes the next expected one."""
        assert self._version is not None
        if packet_key.sequence_version == self._version:
            return packet_key.sequence_number < self._next
        return version_distance(self._version, packet_key.sequence_version) < 0

    def _was_delivered(self, packet_key: PacketKey) -> bool:
        """Whether a past packet is known to have been delivered."""
        if (
            packet_key.sequence_version == self._version
            and self._whole_since <= packet_key.sequence_number
        ):
            return packet_key.sequence_number < self._next
        serial = packet_key.serial(self._base)
        index = bisect_right(self._runs, serial, key=lambda run: run[0]) - 1
        return index >= 0 and serial <= self._runs[index][1]

    def _begin_run(self, first: int) -> None:
        """Start a new run of deliveries, after a loss or at the end of a version."""
        if self._version is not None and self._whole_since < self._next:
            begin = PacketKey(self._version, self._whole_since).serial(self._base)
            self._runs.append((begin, begin + self._next - 1 - self._whole_since))
            if len(self._runs) > MAX_RUNS:
                del self._runs[: MAX_RUNS // 2]
        self._whole_since = first

    def _all_past(self) -> bool:
        """Whether every feed is so far past the gap that none will deliver it."""
        reached = self._reached
        return bool(reached) and min(reached.values()) >= self._next + self._reorder

    def _watch(self, now_ns: int) -> None:
        """Start or stop the wait for missing packets.

        It starts when a packet or a heartbeat after them arrives.
        """
        if not self._held and self._promised <= self._next and self._announced is None:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = self._held[self._following()][2] if self._held else now_ns

    def _release(self) -> Iterator[PacketDelivered[T]]:
        """Deliver held packets up to the next gap."""
        assert self._version is not None
        released = False
        while self._held:
            key = PacketKey(self._version, self._next)
            if key not in self._held:
                # After a SequenceReset only the next version is known to follow directly.
                key = PacketKey(next_version(self._version), 1)
                if not self._ended or key not in self._held:
                    break
            yield self._deliver(key)
            released = True
        if released:
            self._waiting_since = None

    def _deliver(self, packet_key: PacketKey) -> PacketDelivered[T]:
        """Deliver a held packet and continue after it."""
        item, feed, time_ns, resets = self._held.pop(packet_key)
        new_version = packet_key.sequence_version != self._version
        if new_version or packet_key.sequence_number != self._next:
            self._begin_run(packet_key.sequence_number)
        if new_version:
            self._begin_version()
            if self._announced is not None and self._is_reached(self._announced, packet_key):
                self._announced = None
        self._version, self._next = packet_key.sequence_version, packet_key.sequence_number + 1
        self._ended = resets
        return PacketDelivered(packet_key, item, feed, time_ns, new_version)

    def _following(self) -> PacketKey:
        """Return the earliest held packet; there must be one."""
        assert self._version is not None
        version = self._version
        return min(
            self._held,
            key=lambda key: (
                version_distance(version, key.sequence_version),
                key.sequence_number,
            ),
        )

    def _give_up(self) -> Iterator[FeedOutcome[T]]:
        """Report the gap before the earliest held packet as lost, and continue with that packet."""
        assert self._version is not None
        if not self._held:
            if self._promised > self._next:
                yield PacketsLost(self._version, self._next, self._promised - 1)
                self._begin_run(self._promised)
                self._next = self._promised
            if self._announced is not None:
                yield from self._start_announced_version(self._announced)
            return
        following = self._following()
        if following.sequence_version != self._version:
            if not self._ended:
                yield PacketsLost(self._version, self._next, None)
            self._begin_run(self._next)
            self._next = 1
        if following.sequence_number > self._next:
            last = following.sequence_number - 1
            yield PacketsLost(following.sequence_version, self._next, last)
        yield self._deliver(following)
        yield from self._release()

    def _start_announced_version(self, following: PacketKey) -> Iterator[PacketsLost]:
        """Start a later version of which only heartbeats were received."""
        assert self._version is not None
        self._announced = None
        if not self._ended:
            yield PacketsLost(self._version, self._next, None)
        self._begin_version()
        self._begin_run(following.sequence_number)
        self._version, self._next = following.sequence_version, 1
        self._ended = False
        if following.sequence_number > 1:
            yield PacketsLost(self._version, 1, following.sequence_number - 1)
            self._next = following.sequence_number

    def _begin_version(self) -> None:
        """Reset what is known of the numbers of a version."""
        self._promised = 1
        self._reached = dict.fromkeys(self._reached, 0)

    @staticmethod
    def _is_reached(newer: PacketKey, packet_key: PacketKey) -> bool:
        """Whether a packet is of the announced version or of a later one."""
        return version_distance(packet_key.sequence_version, newer.sequence_version) <= 0
