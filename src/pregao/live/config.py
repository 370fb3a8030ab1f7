"""Configuration of the live feed in TOML: channels, their streams and feeds, groups and ports.

::

    interface = "eth1"

    [channel.51.incremental]
    A = "233.252.14.1:30511"
    B = { address = "233.252.14.2:30512", interface = "eth2", source = "198.51.100.12" }

    [channel.51.snapshot]
    A = "233.252.14.3:30513"

    [channel.51.definition]
    A = "233.252.14.4:30514"

A channel of the legacy feed states its protocol and the platform that sends it::

    [channel.10]
    protocol = "legacy"
    platform = "PUMA"

It may also have TCP recovery gateways, with the CompIDs of the FIX session::

    [channel.10.recovery]
    A = "10.0.0.1:9620"
    B = "10.0.0.2:9620"
    sender = "CUSTOMER"
    target = "BVMF"

An error names the file, the table and the entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pregao.errors import PregaoError, UsageError
from pregao.feed.channel.settings import ChannelSettings, LegacyFeed
from pregao.legacy.streams import PLATFORMS
from pregao.net.addresses import Address, parse_address
from pregao.net.sockets import BUFFER_BYTES
from pregao.safe_io.documents import SettingsTable, read_tables
from pregao.umdf.streams import Stream
from pregao.units import parse_duration

STREAMS = (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)
BACKUP_FEED = "C"
"""The feed of the backup site, unless ``backup`` names others."""
_TOP = ("interface", "buffer_bytes", "spin", "realtime", "channel")
_SPANS = {"reorder_time": "reorder_ns", "heartbeat": "heartbeat_ns"}
_NUMBERS = (
    "reorder_packets", "max_held_packets", "max_queued_messages", "max_queued_total",
    "max_instruments",
)  # fmt: skip
_PROTOCOLS = ("umdf", "legacy")
_LEGACY = ("platform", "market_depth", "recovery")
_NAMES = ("sender", "target")
_CHANNEL = (
    *(stream.value for stream in STREAMS), "protocol", *_LEGACY, "backup", "process", *_SPANS,
    *_NUMBERS,
)  # fmt: skip
_LINE = ("address", "interface", "source")
_MIN_BUFFER, _MAX_BUFFER = 4096, 1 << 30


@dataclass(frozen=True, slots=True)
class Line:
    """The address at which one feed of a channel's stream is received."""

    channel: int
    stream: Stream
    feed: str
    address: Address
    interface: str | None = None
    source: str | None = None
    """Receive from this sender only (source-specific multicast)."""

    def __str__(self) -> str:
        return f"channel {self.channel}, {self.stream.value} {self.feed} ({self.address})"


@dataclass(frozen=True, slots=True)
class RecoveryGateways:
    """TCP recovery gateways of a legacy channel, and the CompIDs of the FIX session."""

    addresses: tuple[Address, ...]
    """In order of preference."""
    sender: str = "CUSTOMER"
    target: str = "BVMF"
    feeds: tuple[str, ...] = ()
    """Feed of each gateway; none if they are those of any feed."""

    def of(self, feeds: Collection[str]) -> tuple[Address, ...]:
        """Return the gateways of some feeds, in order of preference."""
        if not self.feeds:
            return self.addresses
        pairs = zip(self.feeds, self.addresses, strict=True)
        return tuple(address for feed, address in pairs if feed in feeds)

    def feed_of(self, address: Address) -> str | None:
        """Return the feed of a gateway."""
        return dict(zip(self.addresses, self.feeds, strict=False)).get(address)


@dataclass(frozen=True, slots=True)
class LiveConfig:
    """Channels to follow, and the lines on which they are received."""

    channels: tuple[ChannelSettings, ...]
    lines: tuple[Line, ...]
    buffer_bytes: int = BUFFER_BYTES
    name: str = "the configuration"
    """Its source, for error messages."""
    spin: bool = False
    """Whether to busy-poll the sockets instead of waiting for packets."""
    processes: Mapping[int, str] = field(default_factory=dict)
    """Name of the worker process that follows a channel; channels without one share a process."""
    recoveries: Mapping[int, RecoveryGateways] = field(default_factory=dict)
    """TCP recovery gateways by channel."""
    realtime: bool = False
    """Whether to request real-time scheduling for the feed's thread."""
    schema_files: tuple[str, ...] = ()
    """SBE schema files that decode messages of every version, as ``--schema`` names them."""

    def groups(self, maximum: int | None = None) -> list[LiveConfig]:
        """Return a configuration for each worker process.

        Channels are grouped by `processes`, or, with ``maximum``, spread over at most that many
        processes regardless of names.
        """
        names = dict.fromkeys(self.processes.get(each.number, "") for each in self.channels)
        numbers = [each.number for each in self.channels]
        if maximum is None:
            found = [[n for n in numbers if self.processes.get(n, "") == name] for name in names]
        else:
            found = [numbers[first::maximum] for first in range(min(maximum, len(numbers)))]
        return [self.only(group) for group in found]

    def only(self, numbers: Iterable[int] | None) -> LiveConfig:
        """Return the configuration restricted to the given channels."""
        if numbers is None:
            return self
        wanted = set(numbers)
        known = {each.number for each in self.channels}
        for number in sorted(wanted - known):
            available = ", ".join(map(str, sorted(known)))
            raise UsageError(f"{self.name} has no channel {number}; it has {available}.")
        return replace(
            self,
            channels=tuple(each for each in self.channels if each.number in wanted),
            lines=tuple(line for line in self.lines if line.channel in wanted),
            processes={n: name for n, name in self.processes.items() if n in wanted},
            recoveries={n: own for n, own in self.recoveries.items() if n in wanted},
        )


def read_config(path: str | Path) -> LiveConfig:
    """Read a configuration from a TOML file."""
    path = Path(path)
    return parse_config(read_tables(path), str(path))


def parse_config(data: Mapping[str, Any], name: str = "the configuration") -> LiveConfig:
    """Build a configuration from parsed TOML; ``name`` appears in error messages."""
    top = SettingsTable(name, data)
    top.only(_TOP)
    interface = top.optional_text("interface")
    buffer = BUFFER_BYTES
    if "buffer_bytes" in top:
        buffer = top.whole("buffer_bytes", _MIN_BUFFER, _MAX_BUFFER)
    spin, realtime = top.flag("spin"), top.flag("realtime")
    numbered = top.inside("channel")
    if not numbered.entries:
        raise UsageError(
            f"{name} has no channels: add tables such as [channel.51.incremental] with "
            'A = "233.252.14.1:30511".'
        )
    channels, lines, processes, recoveries = [], [], {}, {}
    for number in numbered.entries:
        if not (number.isascii() and number.isdigit() and len(number) <= 3 and int(number) <= 0xFF):
            numbered.fail(number, "is not a channel: channels are numbered from 0 to 255")
        if number != str(int(number)):
            numbered.fail(number, f"is not a channel: write its number as {int(number)}")
        table = numbered.inside(number)
        own = list(_lines(table, int(number), interface))
        channels.append(_settings(table, int(number), own))
        lines += own
        process = table.optional_text("process")
        if process is not None:
            processes[int(number)] = process
        if "recovery" in table:
            recoveries[int(number)] = _recovery(table.inside("recovery"))
    _check_distinct(name, lines)
    return LiveConfig(
        tuple(channels), tuple(lines), buffer, name, spin, processes, recoveries, realtime
    )


def _lines(table: SettingsTable, channel: int, interface: str | None) -> Iterator[Line]:
    for stream in STREAMS:
        inside = table.inside(stream.value)
        if not inside.entries:
            inside.fail("", 'is missing: add feeds such as A = "233.252.14.1:30511"')
        for feed, value in inside.entries.items():
            if not (len(feed) == 1 and "A" <= feed <= "Z"):
                inside.fail(feed, "is not a feed: feeds are named A to Z")
            entry = {"address": value} if isinstance(value, str) else value
            if not isinstance(entry, Mapping):
                inside.fail(
                    feed, f'must be "ADDRESS:PORT" or a table with an address, was {value!r}'
                )
            own = inside.nested(feed, entry)
            own.only(_LINE)
            if "address" not in own:
                own.fail("address", "is missing")
            try:
                address = parse_address(own.text("address"), feed)
                source = own.optional_text("source")
                if source is not None:
                    source = parse_address(f"{source}:1", "source").host
            except PregaoError as error:
                inside.fail("", str(error).rstrip("."))
            yield Line(
                channel, stream, feed, address, own.optional_text("interface") or interface, source
            )


def _settings(table: SettingsTable, number: int, lines: list[Line]) -> ChannelSettings:
    table.only(_CHANNEL)
    names = [line.feed for line in lines if line.stream is Stream.INCREMENTAL]
    backup = table.entries.get("backup", [each for each in names if each == BACKUP_FEED])
    if not isinstance(backup, list) or any(each not in names for each in backup):
        table.fail(
            "backup", f"must be a list of the incremental feeds {', '.join(names)}, was {backup!r}"
        )
    values: dict[str, Any] = {}
    for entry, setting in _SPANS.items():
        text = table.optional_text(entry)
        if text is not None:
            try:
                values[setting] = parse_duration(text, entry)
            except UsageError as error:
                table.fail("", str(error).rstrip("."))
    for entry in _NUMBERS:
        if entry in table:
            values[entry] = table.whole(entry, -(2**62))
    feeds = tuple(each for each in names if each not in backup)
    values["legacy"] = _legacy(table, backup, lines)
    for site in filter(None, (feeds, backup)):
        if values["legacy"] is None:  # any feed of the legacy feed may have the loops
            _check_loops(table, site[0], lines)
    try:
        return ChannelSettings(number, feeds, tuple(backup), **values)
    except UsageError as error:
        table.fail("", f"cannot be followed: {str(error).rstrip('.')}")


def _legacy(table: SettingsTable, backup: list[str], lines: list[Line]) -> LegacyFeed | None:
    """Return the settings of a legacy channel, or None for a binary one."""
    protocol = table.optional_text("protocol") or _PROTOCOLS[0]
    if protocol not in _PROTOCOLS:
        table.fail("protocol", f"must be {' or '.join(_PROTOCOLS)}, was {protocol!r}")
    if protocol != "legacy":
        for entry in _LEGACY:
            if entry in table:
                table.fail(entry, 'requires protocol = "legacy"')
        return None
    if backup:
        table.fail("backup", "requires the binary feed: the legacy feed has only feeds A and B")
    platform = table.optional_text("platform") or LegacyFeed().platform
    if platform not in PLATFORMS:
        table.fail("platform", f"must be {' or '.join(PLATFORMS)}, was {platform!r}")
    depth = table.entries.get("market_depth", 0)
    if not _is_whole(depth) or depth < 0:
        table.fail(
            "market_depth",
            f"must be a number of price levels, or 0 for all orders, was {depth!r}",
        )
    incremental, snapshot, definition = (
        tuple(line.feed for line in lines if line.stream is stream) for stream in STREAMS
    )
    for stream, feeds in ((Stream.SNAPSHOT, snapshot), (Stream.DEFINITION, definition)):
        for feed in feeds:
            if feed not in incremental:
                table.fail(f"{stream.value}.{feed}", "has no incremental stream of that feed")
    return LegacyFeed(platform, depth or None, "recovery" in table, snapshot, definition)


def _recovery(inside: SettingsTable) -> RecoveryGateways:
    """Return the recovery gateways of a channel; feed A's is the first."""
    feeds = sorted(entry for entry in inside.entries if entry not in _NAMES)
    inside.only((*(each for each in feeds if len(each) == 1 and each.isupper()), *_NAMES))
    if not feeds:
        inside.fail("", 'has no gateway: add one such as A = "10.0.0.1:9620"')
    addresses = []
    for feed in feeds:
        try:
            addresses.append(parse_address(inside.text(feed), feed))
        except PregaoError as error:
            inside.fail("", str(error).rstrip("."))
    names = {entry: inside.text(entry) for entry in _NAMES if entry in inside}
    return RecoveryGateways(
        tuple(addresses), **{k: v for k, v in names.items() if v}, feeds=tuple(feeds)
    )


def _check_loops(table: SettingsTable, feed: str, lines: list[Line]) -> None:
    """Check that a site's first feed has all streams: without both loops nothing could heal."""
    streams = {line.stream for line in lines if line.feed == feed}
    for stream in STREAMS:
        if stream not in streams:
            table.fail(
                f"{stream.value}.{feed}",
                f"is missing: feed {feed} is the first of its site and needs all streams",
            )


def _check_distinct(name: str, lines: Iterable[Line]) -> None:
    """Check that no two lines have the same address: their packets could not be distinguished."""
    seen: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        other = seen.setdefault((line.address, line.interface), line)
        if other is not line:
            raise UsageError(f"{name}: {other} and {line} have the same address.")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
