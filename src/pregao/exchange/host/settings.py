"""Settings of an exchange: instruments, sessions, addresses and pace, read from TOML.

::

    phases = "open"                      # or "schedule": by the clock
    instruments = "instruments.toml"     # default: the bundled catalog

    [gateway]
    primary = "127.0.0.1:9610"
    backup = "127.0.0.1:9611"

    [feed]
    mode = "multicast"                   # or "unicast", "none"

    [[session]]
    id = 100000001
    firm = 85
    access_key = "123456789ABC"

Errors name the file, the table and the entry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pregao.clock import MICROSECOND, MILLISECOND, MINUTE, system_clock
from pregao.entrypoint.framing import MAX_MESSAGE, MAX_MESSAGE_SIZE
from pregao.entrypoint.session_settings import GatewaySettings, SessionAccount, ThrottleLimit
from pregao.errors import UsageError
from pregao.exchange.engine.model.auction_rules import AuctionRules, parse_auction_rules
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue, load_catalogue
from pregao.exchange.engine.model.instruments import Instrument
from pregao.exchange.engine.model.schedule import Schedule, default_schedule, load_schedule
from pregao.exchange.host.admin.control_requests import parse_request
from pregao.exchange.host.gateway.pre_trade import RiskDelay
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.simulation.settings import LegacyDepth
from pregao.net.addresses import Address, parse_address
from pregao.safe_io.documents import SettingsTable, read_tables
from pregao.umdf.streams import Stream
from pregao.units import date_of, day_of, parse_day

_KEY: Final = "123456789ABC"
_PRIMARY: Final = Address("127.0.0.1", 9610)
_BACKUP: Final = Address("127.0.0.1", 9611)
_UNICAST_BASE: Final = Address("127.0.0.1", 30_000)
_OPEN, _SCHEDULED = "open", "schedule"
_MULTICAST, _UNICAST, _NO_FEED = "multicast", "unicast", "none"


def default_sessions() -> tuple[SessionAccount, ...]:
    """Return the sessions of an exchange without a configuration: four of two firms."""
    firms = (85, 85, 127, 127)
    return tuple(SessionAccount(100_000_001 + n, firm, _KEY) for n, firm in enumerate(firms))


@dataclass(frozen=True)
class ExchangeSettings:
    """Settings of an exchange."""

    instruments: tuple[Instrument, ...] = field(default_factory=lambda: tuple(bundled_catalogue()))
    sessions: tuple[SessionAccount, ...] = field(default_factory=default_sessions)
    first_date: date = field(default_factory=lambda: date_of(day_of(system_clock())))
    """First trading day of the exchange."""
    schedule: Schedule | None = None
    """Schedule of the groups' phases; None: everything is open all day."""
    rules: GatewaySettings = field(default_factory=GatewaySettings)
    auction_duration_ns: int = 5 * MINUTE
    auction_rules: AuctionRules | None = None
    """Rules of auctions whose instrument and phase do not define them."""
    risk: RiskDelay = field(default_factory=RiskDelay)
    """Delay of orders in the risk engine, which cancels bypass."""
    seed: int | None = None
    """Seed of random auction ends; None: drawn when the journal is created."""
    implied_orders: bool = False
    """Whether eligible spreads get implied orders from the books of their legs."""
    primary: Address = _PRIMARY
    backup: Address | None = _BACKUP
    control_port: int = 9612
    control_token: Path | None = None
    """File of the control token; None: a file named by the port in the user's state folder."""
    metrics_port: int | None = None
    feed: str = _MULTICAST
    unicast: Address = _UNICAST_BASE
    """Address and first port of a unicast feed."""
    interface: str | None = None
    loss: float = 0.0
    """Share of packets that each incremental feed loses, for demonstrations."""
    schema_version: int | str = 16
    legacy: LegacyDepth | None = None
    """Book depth of the legacy feed; None: no legacy feed."""
    recovery: Address | None = None
    """Address of the TCP recovery of the legacy feed; None: no recovery."""
    pace: LoopPace = field(default_factory=lambda: LoopPace(200, 500 * MILLISECOND))
    max_unread_bytes: int = 8 * 1024 * 1024
    """Number of unread bytes above which a client is disconnected."""

    @cached_property
    def instruments_digest(self) -> str:
        """Digest that identifies the instruments."""
        # Version 0.1 called the side of a leg `Side`: its journals have the digest of that text.
        text = repr(self.instruments).replace("<OrderSide.", "<Side.")
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def rules_of(self, gateway: int, *, accepting: bool) -> GatewaySettings:
        """Return the rules of one of the two gateways."""
        return replace(self.rules, gateway=gateway, accepting=accepting)

    @property
    def channels(self) -> list[ChannelEndpoints]:
        """Channels of the instruments."""
        return [
            ChannelEndpoints.numbered(number)
            for number in sorted({i.channel for i in self.instruments})
        ]

    def targets(self) -> dict[tuple[int, Stream], tuple[tuple[str, Address], ...]]:
        """Return the feeds and addresses of each stream of each channel."""
        targets_by_stream: dict[tuple[int, Stream], tuple[tuple[str, Address], ...]] = {}
        if self.feed == _NO_FEED:
            return targets_by_stream
        for channel in self.channels:
            targets_by_stream |= self._targets(channel)
        return targets_by_stream

    def legacy_targets(self) -> dict[tuple[int, Stream], tuple[tuple[str, Address], ...]]:
        """Return the feeds and addresses of the legacy feed; empty if there is none."""
        targets_by_stream: dict[tuple[int, Stream], tuple[tuple[str, Address], ...]] = {}
        if self.legacy is not None and self.feed != _NO_FEED:
            for channel in self.channels:
                targets_by_stream |= self._targets(
                    ChannelEndpoints.numbered(channel.number, legacy=True)
                )
        return targets_by_stream

    def _targets(self, channel: ChannelEndpoints) -> dict[tuple[int, Stream], Any]:
        return {
            (channel.number, stream): tuple(
                (feed.value, self._address(endpoint.address, endpoint.port))
                for feed, endpoint in channel.endpoints(stream)
            )
            for stream in (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)
        }

    def _address(self, group: str, port: int) -> Address:
        if self.feed == _MULTICAST:
            return Address(group, port)
        return Address(self.unicast.host, self.unicast.port + port - _FIRST_PORT)

    def live_config(self) -> str:
        """Return the configuration with which ``pregao live`` follows this exchange."""
        return self._live_config(self.targets())

    def legacy_live_config(self) -> str:
        """Return the configuration with which ``pregao live`` follows its legacy feed."""
        depth = None if self.legacy is None else self.legacy.market_depth
        channel_tables = [
            line
            for channel in self.channels
            for line in (
                f"[channel.{channel.number}]", 'protocol = "legacy"', 'platform = "PUMA"',
                f"market_depth = {depth or 0}", "",
                *self._recovery_table(channel.number),
            )
        ]  # fmt: skip
        return self._live_config(self.legacy_targets(), channel_tables)

    def _recovery_table(self, number: int) -> tuple[str, ...]:
        """Return the recovery table of a channel; empty while the port is not known (0)."""
        if self.recovery is None or not self.recovery.port:
            return ()
        return (f"[channel.{number}.recovery]", f'A = "{self.recovery}"', "")

    def _live_config(self, targets: dict[tuple[int, Stream], Any], own: Iterable[str] = ()) -> str:
        lines = [f'interface = "{self.interface or "lo"}"', "", *own]
        for (number, stream), feeds in targets.items():
            lines.append(f"[channel.{number}.{stream.value}]")
            lines += [f'{feed} = "{address}"' for feed, address in feeds]
            lines.append("")
        return "\n".join(lines)


_FIRST_PORT: Final = ChannelEndpoints.numbered(0).incremental_a.port

_TOP: Final = ("phases", "date", "instruments", "schedule", "auction", "gateway", "feed", "control",
               "control_token", "metrics", "session", "implied_orders", "seed",
               "risk")  # fmt: skip
_GATEWAY: Final = (
    "primary", "backup", "max_unread_bytes", "clock_tolerance_ms", "max_message_bytes",
)  # fmt: skip
_RISK: Final = ("delay_us", "jitter_us")
_FEED: Final = ("mode", "address", "interface", "schema_version", "legacy", "recovery")
_SESSION: Final = ("id", "firm", "access_key", "blocked", "throttle_messages", "throttle_ms",
                   "locations", "traders", "accounts")  # fmt: skip


def read_settings(path: Path) -> ExchangeSettings:
    """Read settings from a TOML file; paths in it are relative to its folder."""
    return parse_settings(read_tables(path), str(path), path.parent)


def parse_settings(
    data: Mapping[str, Any], name: str = "the configuration", folder: Path | None = None
) -> ExchangeSettings:
    """Return the settings of a parsed configuration; raise UsageError if it is invalid."""
    table = SettingsTable(name, data)
    folder = Path() if folder is None else folder
    table.only(_TOP)
    gateway = table.inside("gateway", _GATEWAY)
    feed = table.inside("feed", _FEED)
    given: dict[str, Any] = {}
    if "instruments" in data:
        given["instruments"] = tuple(load_catalogue(folder / table.text("instruments")))
    if "date" in data:
        given["first_date"] = _day(name, data["date"])
    if "session" in data:
        given["sessions"] = tuple(_sessions(table, data["session"]))
    for entry in ("primary", "backup"):
        if entry in gateway:
            given[entry] = parse_address(gateway.text(entry), f"{name}: gateway.{entry}")
    if "max_unread_bytes" in gateway:
        given["max_unread_bytes"] = gateway.whole("max_unread_bytes", 4096)
    given["rules"] = _rules(gateway)
    for entry, known in (("control", "control_port"), ("metrics", "metrics_port")):
        if entry in data:
            given[known] = table.whole(entry, 0, 0xFFFF)
    if "control_token" in data:
        given["control_token"] = folder / table.text("control_token")
    if "implied_orders" in data:
        given["implied_orders"] = table.flag("implied_orders")
    if "auction" in data:
        try:
            given["auction_rules"] = parse_auction_rules(data["auction"])
        except ValueError as fault:
            table.fail("auction", f"cannot be read: {fault}")
    risk = table.inside("risk", _RISK)
    if risk.entries:
        given["risk"] = RiskDelay(
            *(risk.whole(entry, 0, 10**7) * MICROSECOND if entry in risk else 0 for entry in _RISK)
        )
    if "seed" in data:
        given["seed"] = table.whole("seed", 0)
    given |= _feed(feed, name)
    settings = ExchangeSettings(**given)
    phases = data.get("phases", _SCHEDULED if "schedule" in data else _OPEN)
    if phases not in (_OPEN, _SCHEDULED):
        table.fail("phases", f"must be {_OPEN!r} or {_SCHEDULED!r}, was {phases!r:.80}")
    if phases == _SCHEDULED:
        if "schedule" in data:
            schedule_file = folder / table.text("schedule")
            schedule = load_schedule(schedule_file)
            check_operations(schedule, str(schedule_file))
        else:
            schedule = default_schedule(settings.instruments)
        settings = replace(settings, schedule=schedule)
    return settings


def check_operations(schedule: Schedule, source: str) -> None:
    """Check the operations of a schedule as control requests; raise UsageError if one is none."""
    for number, operation in enumerate(schedule.operations, 1):
        where = f"{source}: operation {number}"
        try:
            name, _ = parse_request(operation.request)
        except UsageError as error:
            raise UsageError(f"{where}: {error}.") from None
        if name == "day":
            raise UsageError(f"{where}: a schedule is of one day: it cannot start another.")


def _rules(gateway: SettingsTable) -> GatewaySettings:
    """Return the session rules, with the changes of the gateway table."""
    rules = GatewaySettings()
    if "clock_tolerance_ms" in gateway:
        tolerance = gateway.whole("clock_tolerance_ms", 1) * MILLISECOND
        rules = replace(rules, clock_tolerance_ns=tolerance)
    if "max_message_bytes" in gateway:
        entry = "max_message_bytes"
        longest = gateway.whole(entry, MAX_MESSAGE, MAX_MESSAGE_SIZE)
        rules = replace(rules, max_message=longest)
    return rules


def _feed(table: SettingsTable, name: str) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if "mode" in table:
        given["feed"] = table.text("mode")
        if given["feed"] not in (_MULTICAST, _UNICAST, _NO_FEED):
            table.fail(
                "mode",
                f"must be {_MULTICAST}, {_UNICAST} or {_NO_FEED}, was {given['feed']!r:.80}",
            )
    if "address" in table:
        given["unicast"] = parse_address(table.text("address"), f"{name}: feed.address")
        given.setdefault("feed", _UNICAST)
    if "interface" in table:
        given["interface"] = table.text("interface")
    if "schema_version" in table:
        given["schema_version"] = table.whole("schema_version", 1)
    if "legacy" in table:
        depth = table.text("legacy")
        if depth not in list(LegacyDepth):
            table.fail("legacy", f"must be one of {', '.join(LegacyDepth)}, was {depth!r:.80}")
        given["legacy"] = LegacyDepth(depth)
    if "recovery" in table:
        given["recovery"] = parse_address(table.text("recovery"), f"{name}: feed.recovery")
        if "legacy" not in table:
            table.fail("recovery", 'requires the legacy feed: add legacy = "orders"')
    return given


def _sessions(table: SettingsTable, rows: Any) -> Iterable[SessionAccount]:
    if not isinstance(rows, list) or not rows:
        table.fail("session", "must be [[session]] tables with id, firm and access_key")
    for number, entries in enumerate(rows, 1):
        row = table.nested(f"session {number}", entries)
        row.only(_SESSION)
        throttle = None
        if "throttle_messages" in row or "throttle_ms" in row:
            throttle = ThrottleLimit(
                row.whole("throttle_messages", 1),
                row.whole("throttle_ms", 1),
            )
        key = row.text("access_key")
        yield SessionAccount(
            row.whole("id", 1, 0xFFFFFFFF),
            row.whole("firm", 1, 0xFFFFFFFF),
            key,
            row.flag("blocked"),
            throttle,
            row.several("locations", str),
            row.several("traders", str),
            row.several("accounts", int),
        )


def _day(name: str, value: Any) -> date:
    """Return the date of an entry, which TOML may have parsed."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return parse_day(str(value), f"{name}: date")
