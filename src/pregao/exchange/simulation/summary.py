"""What came of a simulation, as data for the truth and for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pregao.exchange.simulation.captures import ChannelCaptures
from pregao.exchange.simulation.publication import Publication
from pregao.exchange.simulation.settings import Settings
from pregao.exchange.simulation.trading import Traded

if TYPE_CHECKING:
    from pregao.exchange.simulation.run import Simulation


@dataclass(frozen=True, slots=True)
class Summary:
    """The outcome of a run; ``data`` is what is written, the same for the same settings."""

    data: dict[str, Any]

    @property
    def messages(self) -> int:
        """Messages on the incremental streams."""
        return int(self.data["messages"])

    @property
    def orders(self) -> int:
        """What members sent."""
        return int(self.data["orders"])

    @property
    def trades(self) -> int:
        """Trades published, amended ones again."""
        return int(self.data["trades"])


def describe(simulation: Simulation, traded: Traded, publication: Publication) -> Summary:
    """Sum a run up. Nothing that differs from machine to machine is in it."""
    truth = publication.truth
    channels = {}
    for number, channel in simulation.publisher.channels.items():
        channels[str(number)] = {
            "messages": channel.incremental.messages,
            "sequence_version": channel.incremental.sequence_version,
            "last_sequence_number": channel.incremental.last_number,
            "snapshot_loops": channel.snapshots.loops,
            "definition_loops": channel.definitions.loops,
            "files": {
                file.path.name: {
                    "feed": feed,
                    "packets": file.packets,
                    "payload_bytes": file.bytes,
                    "destination": str(file.endpoint),
                }
                for feed, file in publication.captures[number].files.items()
            },
        }
    return Summary(
        {
            "settings": _settings(simulation.settings, simulation.trading.profile.name),
            "instruments": [
                {
                    "symbol": instrument.symbol,
                    "security_id": instrument.security_id,
                    "channel": instrument.channel,
                }
                for instrument in simulation.instruments
            ],
            "start_ns": simulation.day.start_ns,
            "end_ns": traded.end_ns,
            "capture_from_ns": simulation.capture_from_ns,
            "orders": traded.orders,
            "messages": publication.messages(),
            "trades": truth.trades,
            "busts": truth.busts,
            "books": truth.books,
            "bursts": traded.bursts,
            "channels": channels,
        }
    )


def faults_of(settings: Settings, captures: Mapping[int, ChannelCaptures]) -> dict[str, Any]:
    """How many packets of each feed something was done to, by channel."""
    return {
        "rates": {feed: asdict(rates) for feed, rates in settings.faults.items()},
        "channels": {
            str(number): {
                **{feed: asdict(file.faults) for feed, file in channel.files.items()},
                "lost_on_both": channel.lost_on_both,
            }
            for number, channel in captures.items()
        },
    }


def _settings(settings: Settings, profile: str) -> dict[str, Any]:
    late, files = settings.late_join, (settings.instruments_file, settings.schedule_file)
    return {
        "profile": profile,
        "seed": settings.seed,
        "instruments": settings.instruments,
        "duration_ns": settings.duration_ns,
        "schema_version": settings.schema_version,
        "trade_date": settings.trade_date.isoformat(),
        "rate": settings.rate,
        "messages": settings.messages,
        "late_join": None if late is None else late.text,
        "resets": [f"{reset.kind.value}@{reset.moment.text}" for reset in settings.resets],
        "instruments_file": None if files[0] is None else files[0].name,
        "schedule_file": None if files[1] is None else files[1].name,
        "compression": settings.compression.value,
        **({} if settings.legacy is None else {"legacy": settings.legacy.value}),
    }
