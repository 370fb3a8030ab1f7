"""Metrics of a running exchange for Prometheus, and its health page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pregao.net.http import Page, Response

if TYPE_CHECKING:
    from pregao.exchange.host.server import ExchangeServer


@dataclass(slots=True)
class ServerCounters:
    """Counters of the server itself."""

    turns: int = 0
    slow_readers: int = 0


def pages(exchange: ExchangeServer) -> dict[str, Page]:
    """Return the HTTP pages of an exchange."""
    return {
        "/metrics": lambda: Response(
            metrics(exchange), content_type="text/plain; version=0.0.4; charset=utf-8"
        ),
        "/health": lambda: Response("serving\n"),
    }


def metrics(exchange: ExchangeServer) -> str:
    """Return all metrics in Prometheus text format."""
    host, journal, output = exchange.host, exchange.journal, exchange.output
    rows: list[tuple[str, str, str, int]] = [
        ("requests_total", "counter", "New, modify and cancel requests of clients", host.requests),
        (
            "reports_total",
            "counter",
            "Reports numbered by the engine",
            host.engine.market.exec_id,
        ),
        ("orders", "gauge", "Open orders", len(host.engine.market.orders)),
        ("connections", "gauge", "Client connections", exchange.connections),
        (
            "loop_iterations_total",
            "counter",
            "Event loop iterations with work",
            exchange.counts.turns,
        ),
        (
            "slow_readers_total",
            "counter",
            "Clients disconnected because they did not read",
            exchange.counts.slow_readers,
        ),
        (
            "failures_total",
            "counter",
            "Internal failures of requests, commands, timers, connections and the feed",
            host.faults.count,
        ),
        (
            "journal_set_aside",
            "gauge",
            "Records of the journal that could not be replayed",
            len(host.faults.skipped_records),
        ),
        (
            "active_gateway",
            "gauge",
            "Gateway that accepts sessions: 1 primary, 2 backup",
            host.active,
        ),
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
