"""Summary of a simulation, for the truth files and for display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pregao.exchange.simulation.captures import ChannelCaptures
from pregao.exchange.simulation.publication import DayPublisher
from pregao.exchange.simulation.settings import SimulationSettings
from pregao.exchange.simulation.trading import TradingTotals

if TYPE_CHECKING:
    from pregao.exchange.simulation.run import Simulation


@dataclass(frozen=True, slots=True)
class SimulationSummary:
    """Results of a run; ``data`` is written to the truth, the same for the same settings."""

    data: dict[str, Any]

    @property
    def messages(self) -> int:
        """Messages on the incremental streams."""
        return int(self.data["messages"])

    @property
    def orders(self) -> int:
        """Requests sent by members."""
        return int(self.data["orders"])

    @property
    def trades(self) -> int:
        """Trades published; an amended trade counts again."""
        return int(self.data["trades"])


def describe(
    simulation: Simulation, traded: TradingTotals, publication: DayPublisher
) -> SimulationSummary:
    """Return the summary of a run. It contains nothing that depends on the machine."""
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
    return SimulationSummary(
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


def faults_of(
    settings: SimulationSettings, captures: Mapping[int, ChannelCaptures]
) -> dict[str, Any]:
    """Return the fault rates, and the counts of injected faults by channel and feed."""
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


def _settings(settings: SimulationSettings, profile: str) -> dict[str, Any]:
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
