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
from typing import Any, NoReturn

from pregao.errors import PregaoError, UsageError
from pregao.feed.channel.settings import ChannelSettings, LegacyFeed
from pregao.legacy.streams import PLATFORMS
from pregao.name_matching import did_you_mean
from pregao.net.addresses import Address, parse_address
from pregao.net.sockets import BUFFER_BYTES
from pregao.safe_io.documents import DocumentError, parse_toml, read_document
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
    try:
        data = parse_toml(read_document(path))
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file.") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}.") from None
    except DocumentError as error:
        raise UsageError(f"{path}: is not valid TOML: {error}.") from None
    return parse_config(data, str(path))


def parse_config(data: Mapping[str, Any], name: str = "the configuration") -> LiveConfig:
    """Build a configuration from parsed TOML; ``name`` appears in error messages."""
    reading = _Reading(name, "")
    reading.names(data, _TOP)
    interface = reading.text(data, "interface")
    buffer = data.get("buffer_bytes", BUFFER_BYTES)
    if not _is_whole(buffer) or not _MIN_BUFFER <= buffer <= _MAX_BUFFER:
        reading.fail(
            "buffer_bytes",
            f"must be an integer from {_MIN_BUFFER} to {_MAX_BUFFER}, was {buffer!r}",
        )
    spin, realtime = reading.switch(data, "spin"), reading.switch(data, "realtime")
    tables = reading.table(data, "channel")
    if not tables:
        raise UsageError(
            f"{name} has no channels: add tables such as [channel.51.incremental] with "
            'A = "233.252.14.1:30511".'
        )
    channels, lines, processes, recoveries = [], [], {}, {}
    for number, table in tables.items():
        inside = reading.inside(f"channel.{number}")
        if not (number.isascii() and number.isdigit() and len(number) <= 3 and int(number) <= 0xFF):
            inside.fail("", "is not a channel: channels are numbered from 0 to 255")
        if number != str(int(number)):
            inside.fail("", f"is not a channel: write its number as {int(number)}")
        if not isinstance(table, Mapping):
            inside.fail("", f"must be a table, was {table!r}")
        own = list(_lines(inside, int(number), table, interface))
        channels.append(_settings(inside, int(number), table, own))
        lines += own
        process = inside.text(table, "process")
        if process is not None:
            processes[int(number)] = process
        if "recovery" in table:
            recoveries[int(number)] = _recovery(inside, table)
    _check_distinct(name, lines)
    return LiveConfig(
        tuple(channels), tuple(lines), buffer, name, spin, processes, recoveries, realtime
    )


class _Reading:
    """A table of the file, with its path for error messages."""

    def __init__(self, name: str, at: str) -> None:
        self._name = name
        self._at = at

    def inside(self, table: str) -> _Reading:
        """Return a nested table."""
        return _Reading(self._name, f"{self._at}.{table}" if self._at else table)

    def fail(self, entry: str, why: str) -> NoReturn:
        """Raise a `UsageError` that names the entry."""
        where = ".".join(part for part in (self._at, entry) if part)
        end = "" if why.endswith("?") else "."
        raise UsageError(f"{self._name}: {where} {why}{end}") from None

    def names(self, table: Mapping[str, Any], known: Iterable[str]) -> None:
        """Reject entries with unknown names."""
        known = list(known)
        for entry in table:
            if entry not in known:
                entries = f" Entries are {', '.join(known)}"
                hint = did_you_mean(entry, known, 1, otherwise=entries)
                self.fail(entry, f"is not a known entry.{hint}")

    def switch(self, table: Mapping[str, Any], name: str) -> bool:
        """Return a boolean entry, False if it is missing."""
        value = table.get(name, False)
        if not isinstance(value, bool):
            self.fail(name, f"must be true or false, was {value!r}")
        return value

    def text(self, table: Mapping[str, Any], entry: str) -> str | None:
        """Return a string entry, or None if it is missing."""
        value = table.get(entry)
        if value is not None and not isinstance(value, str):
            self.fail(entry, f"must be a string, was {value!r}")
        return value

    def table(self, table: Mapping[str, Any], entry: str) -> Mapping[str, Any]:
        """Return a table, empty if it is missing."""
        value = table.get(entry, {})
        if not isinstance(value, Mapping):
            self.fail(entry, f"must be a table, was {value!r}")
        return value


def _lines(
    reading: _Reading, channel: int, table: Mapping[str, Any], interface: str | None
) -> Iterator[Line]:
    for stream in STREAMS:
        inside = reading.inside(stream.value)
        feeds = reading.table(table, stream.value)
        if not feeds:
            inside.fail("", 'is missing: add feeds such as A = "233.252.14.1:30511"')
        for feed, value in feeds.items():
            if not (len(feed) == 1 and "A" <= feed <= "Z"):
                inside.fail(feed, "is not a feed: feeds are named A to Z")
            entry = {"address": value} if isinstance(value, str) else value
            if not isinstance(entry, Mapping):
                inside.fail(
                    feed, f'must be "ADDRESS:PORT" or a table with an address, was {value!r}'
                )
            own = inside.inside(feed)
            own.names(entry, _LINE)
            text = own.text(entry, "address")
            if text is None:
                own.fail("address", "is missing")
            try:
                address = parse_address(text, feed)
                source = own.text(entry, "source")
                if source is not None:
                    source = parse_address(f"{source}:1", "source").host
            except PregaoError as error:
                inside.fail("", str(error).rstrip("."))
            yield Line(
                channel, stream, feed, address, own.text(entry, "interface") or interface, source
            )


def _settings(
    reading: _Reading, number: int, table: Mapping[str, Any], lines: list[Line]
) -> ChannelSettings:
    reading.names(table, _CHANNEL)
    names = [line.feed for line in lines if line.stream is Stream.INCREMENTAL]
    backup = table.get("backup", [each for each in names if each == BACKUP_FEED])
    if not isinstance(backup, list) or any(each not in names for each in backup):
        reading.fail(
            "backup", f"must be a list of the incremental feeds {', '.join(names)}, was {backup!r}"
        )
    values: dict[str, Any] = {}
    for entry, setting in _SPANS.items():
        text = reading.text(table, entry)
        if text is not None:
            try:
                values[setting] = parse_duration(text, entry)
            except UsageError as error:
                reading.fail("", str(error).rstrip("."))
    for entry in _NUMBERS:
        if entry in table:
            if not _is_whole(table[entry]):
                reading.fail(entry, f"must be an integer, was {table[entry]!r}")
            values[entry] = table[entry]
    feeds = tuple(each for each in names if each not in backup)
    values["legacy"] = _legacy(reading, table, backup, lines)
    for site in filter(None, (feeds, backup)):
        if values["legacy"] is None:  # any feed of the legacy feed may have the loops
            _check_loops(reading, site[0], lines)
    try:
        return ChannelSettings(number, feeds, tuple(backup), **values)
    except UsageError as error:
        reading.fail("", f"cannot be followed: {str(error).rstrip('.')}")


def _legacy(
    reading: _Reading, table: Mapping[str, Any], backup: list[str], lines: list[Line]
) -> LegacyFeed | None:
    """Return the settings of a legacy channel, or None for a binary one."""
    protocol = reading.text(table, "protocol") or _PROTOCOLS[0]
    if protocol not in _PROTOCOLS:
        reading.fail("protocol", f"must be {' or '.join(_PROTOCOLS)}, was {protocol!r}")
    if protocol != "legacy":
        for entry in _LEGACY:
            if entry in table:
                reading.fail(entry, 'requires protocol = "legacy"')
        return None
    if backup:
        reading.fail("backup", "requires the binary feed: the legacy feed has only feeds A and B")
    platform = reading.text(table, "platform") or LegacyFeed().platform
    if platform not in PLATFORMS:
        reading.fail("platform", f"must be {' or '.join(PLATFORMS)}, was {platform!r}")
    depth = table.get("market_depth", 0)
    if not _is_whole(depth) or depth < 0:
        reading.fail(
            "market_depth",
            f"must be a number of price levels, or 0 for all orders, was {depth!r}",
        )
    incremental, snapshot, definition = (
        tuple(line.feed for line in lines if line.stream is stream) for stream in STREAMS
    )
    for stream, feeds in ((Stream.SNAPSHOT, snapshot), (Stream.DEFINITION, definition)):
        for feed in feeds:
            if feed not in incremental:
                reading.fail(f"{stream.value}.{feed}", "has no incremental stream of that feed")
    return LegacyFeed(platform, depth or None, "recovery" in table, snapshot, definition)


def _recovery(reading: _Reading, table: Mapping[str, Any]) -> RecoveryGateways:
    """Return the recovery gateways of a channel; feed A's is the first."""
    inside, entries = reading.inside("recovery"), reading.table(table, "recovery")
    feeds = sorted(entry for entry in entries if entry not in _NAMES)
    inside.names(entries, (*(each for each in feeds if len(each) == 1 and each.isupper()), *_NAMES))
    if not feeds:
        inside.fail("", 'has no gateway: add one such as A = "10.0.0.1:9620"')
    addresses = []
    for feed in feeds:
        try:
            addresses.append(parse_address(inside.text(entries, feed) or "", feed))
        except PregaoError as error:
            inside.fail("", str(error).rstrip("."))
    names = {entry: inside.text(entries, entry) for entry in _NAMES if entry in entries}
    return RecoveryGateways(
        tuple(addresses), **{k: v for k, v in names.items() if v}, feeds=tuple(feeds)
    )


def _check_loops(reading: _Reading, feed: str, lines: list[Line]) -> None:
    """Check that a site's first feed has all streams: without both loops nothing could heal."""
    streams = {line.stream for line in lines if line.feed == feed}
    for stream in STREAMS:
        if stream not in streams:
            reading.fail(
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
