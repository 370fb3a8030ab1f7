"""Simulated days ingested into a lake, and their books compared with the truth."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

from pregao.clock import SECOND
from pregao.exchange.simulation.network_faults import fault_rates, parse_rates
from pregao.exchange.simulation.settings import SimulationSettings, parse_moment, parse_reset
from pregao.exchange.simulation.simulation import Simulation
from pregao.feed.packet_keys import AFTER_PACKET
from pregao.lake.books.build import BookOptions, DayReport, build_books
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore

INSTRUMENTS = 8


def simulate(
    out: Path,
    *,
    version=16,
    seconds=12,
    rate=250.0,
    seed=5,
    loss=None,
    reorder=None,
    duplicate=None,
    late_join=None,
    resets=(),
    instruments=INSTRUMENTS,
    profile="equities",
) -> Path:
    """Write the captures of a small day and its truth."""
    settings = SimulationSettings(
        profile=profile,
        out=out,
        seed=seed,
        instruments=instruments,
        duration_ns=seconds * SECOND,
        schema_version=version,
        rate=rate,
        faults=fault_rates(
            parse_rates("--loss", loss),
            parse_rates("--reorder", reorder),
            parse_rates("--duplicate", duplicate),
        ),
        late_join=None if late_join is None else parse_moment("--late-join", late_join),
        resets=tuple(parse_reset(text) for text in resets),
    )
    Simulation(settings).run()
    return out


@dataclass
class BookDay:
    """A lake with the books of a simulated day."""

    folder: Path
    lake: LakeStore
    reports: list[DayReport] = field(default_factory=list)
    _read: dict[str, tuple[list[str], list[dict]]] = field(default_factory=dict)
    """Tables that were read, and the log that they had then."""

    @property
    def audit(self):
        total = defaultdict(int)
        for report in self.reports:
            for name, count in report.audit.items():
                total[name] += count
        return dict(total)

    def count(self, name):
        return sum(report.counts[name] for report in self.reports)

    def rows(self, table, **equal):
        log = sorted(
            path.name for path in Path(self.lake.location.path, table, "_delta_log").iterdir()
        )
        if self._read.get(table, (None,))[0] != log:  # the table has changed
            self._read[table] = log, self.lake.delta(table).to_pyarrow_table().to_pylist()
        found = self._read[table][1]
        return [row for row in found if all(row[k] == v for k, v in equal.items())]

    def first_packet(self, channel):
        """The first packet of a channel that is in the lake."""
        rows = self.rows("packets", channel=channel, stream="incremental")
        return min(packet_key(row) for row in rows if row["sequence_number"] is not None)

    def truth(self, name="books.jsonl"):
        text = (self.folder / "truth" / name).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    @property
    def faults(self):
        return json.loads((self.folder / "truth" / "faults.json").read_text(encoding="utf-8"))


def built(folder: Path, *, options=None, captures: list[Path] | None = None) -> BookDay:
    """Ingest a day's captures and build its books."""
    lake = LakeStore(folder / "lake")
    chosen = sorted(folder.glob("*.pcap")) if captures is None else captures
    ingest([str(path) for path in chosen], lake.location)
    return BookDay(folder, lake, build_books(lake.location, options or BookOptions()))


def levels(orders, depth=10):
    """The best levels of a side of the truth: price, size, orders."""
    found = []
    for price, size, *_ in orders:
        value = None if price is None else Decimal(price)
        if found and found[-1][0] == value:
            found[-1][1] += size
            found[-1][2] += 1
        else:
            found.append([value, size, 1])
    return [tuple(level) for level in found[:depth]]


def tick_levels(tick, side, depth=10):
    """The best levels of a side of a tick."""
    found = []
    for level in range(1, depth + 1):
        orders = tick[f"{side}_orders_{level}"]
        if orders is not None:
            found.append((tick[f"{side}_price_{level}"], tick[f"{side}_size_{level}"], orders))
    return found


def checkpoint_orders(orders):
    """The orders of a checkpoint as the truth writes them."""
    return [
        [
            None if order["price"] is None else f"{order['price']:.4f}",
            order["size"],
            order["order_id"],
            order["firm"],
            order["insert_time_ns"],
        ]
        for order in orders
    ]


UNTRUSTED = ("stale", "unconfirmed")


def packet_key(row):
    return row["sequence_version"], row["sequence_number"]


def tick_key(tick):
    """Event key of a tick; those of a snapshot or a gap are after the packet."""
    index = AFTER_PACKET if tick["event"] is None else tick["index_in_packet"]
    return *packet_key(tick), index


def compare_ticks(day: BookDay):
    """Hold every line of the truth against the last tick before it; gives how many were compared.

    Lines at which the book was stale or unconfirmed, or not yet known, are left out: all others
    must be equal.
    """
    ticks = defaultdict(list)
    for tick in day.rows("ticks"):
        ticks[tick["channel"], tick["security_id"]].append(tick)
    for own in ticks.values():
        own.sort(
            key=lambda t: (
                *packet_key(t),
                AFTER_PACKET if t["event"] is None else t["index_in_packet"],
            )
        )
    compared = 0
    for line in day.truth():
        own = ticks[line["channel"], line["security_id"]]
        before = [tick for tick in own if packet_key(tick) <= packet_key(line)]
        if not before:
            known = day.first_packet(line["channel"]) == (1, 1)
            if known:
                assert line["bids"] == line["asks"] == [], line["symbol"]
                compared += 1
            continue
        tick = before[-1]
        if tick["state"] in UNTRUSTED:
            continue
        assert tick_levels(tick, "bid") == levels(line["bids"]), (line["symbol"], tick)
        assert tick_levels(tick, "ask") == levels(line["asks"]), (line["symbol"], tick)
        compared += 1
    return compared


def compare_final(day: BookDay):
    """Hold the last checkpoints against the final books of the truth; gives the untrusted ones."""
    last = {}
    for row in day.rows("book_checkpoints", reason="end"):
        last[row["channel"], row["security_id"]] = row
    stale = []
    for line in day.truth():
        if not line["final"]:
            continue
        row = last.get((line["channel"], line["security_id"]))
        if row is None:
            assert line["bids"] == line["asks"] == [], line["symbol"]
        elif row["state"] in UNTRUSTED:
            stale.append(line["symbol"])
        else:
            assert checkpoint_orders(row["bids"]) == line["bids"], line["symbol"]
            assert checkpoint_orders(row["asks"]) == line["asks"], line["symbol"]
    return stale
