"""Numbers about a running exchange, for Prometheus and for those who ask whether it lives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pregao.net.http import Page, Response

if TYPE_CHECKING:
    from pregao.exchange.host.server import ExchangeServer


@dataclass(slots=True)
class Counts:
    """What the server counts itself."""

    turns: int = 0
    slow_readers: int = 0


def pages(exchange: ExchangeServer) -> dict[str, Page]:
    """The pages of an exchange."""
    return {
        "/metrics": lambda: Response(
            metrics(exchange), content_type="text/plain; version=0.0.4; charset=utf-8"
        ),
        "/health": lambda: Response("serving\n"),
    }


def metrics(exchange: ExchangeServer) -> str:
    """All numbers as Prometheus reads them."""
    host, journal, output = exchange.host, exchange.journal, exchange.output
    rows: list[tuple[str, str, str, int]] = [
        ("requests_total", "counter", "Frequent requests of clients", host.requests),
        (
            "reports_total",
            "counter",
            "Reports that the engine numbered",
            host.engine.market.exec_id,
        ),
        ("orders", "gauge", "Standing orders", len(host.engine.market.orders)),
        ("connections", "gauge", "Connections of clients", exchange.connections),
        ("turns_total", "counter", "Turns of the loop that did something", exchange.counts.turns),
        (
            "slow_readers_total",
            "counter",
            "Clients disconnected because they did not read",
            exchange.counts.slow_readers,
        ),
        ("failures_total", "counter", "Requests that failed and were undone", host.faults.count),
        (
            "journal_set_aside",
            "gauge",
            "Records of the journal that could not be replayed",
            len(host.faults.set_aside),
        ),
        ("gateway", "gauge", "Which gateway takes sessions: 1 primary, 2 backup", host.active),
    ]
    if journal is not None:
        rows += [
            ("journal_bytes_total", "counter", "Bytes written to the journal", journal.bytes),
            ("journal_commits_total", "counter", "Syncs of the journal", journal.commits),
        ]
    if output is not None:
        rows += [
            ("feed_packets_total", "counter", "Datagrams sent", output.packets),
            ("feed_bytes_total", "counter", "Payload bytes sent", output.bytes),
        ]
    lines = []
    for name, kind, text, value in rows:
        lines += [f"# HELP pregao_exchange_{name} {text}.", f"# TYPE pregao_exchange_{name} {kind}"]
        lines.append(f"pregao_exchange_{name} {value}")
    return "\n".join(lines) + "\n"
