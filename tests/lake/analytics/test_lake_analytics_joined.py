"""Columns from other tables: the book around trades and orders, the requests of events."""

import pyarrow as pa
import pytest

from pregao.lake.analytics.run import analyse
from pregao.lake.books.build import BookOptions, build_books
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.commit_unit import CommitUnit, TableSpec
from tests.entrypoint.captured_talk import CLIENT, GATEWAY, write_capture
from tests.entrypoint.gateway_desk import REPORT
from tests.entrypoint.raw_peer import RawPeer
from tests.lake.analytics_support import (
    DATE,
    assert_same_on_spark,
    lake_of,
    message_key,
    messages,
    rows,
)
from tests.lake.lake_support import ingest_row, write_file

DEPTH = 3
SETTINGS = {"seed": 3, "instruments": 2, "duration": "10s"}
STALE_EVERY = 50
RECOVERY = 1 << 5


def sided(name):
    return [
        field
        for level in range(1, DEPTH + 1)
        for field in (
            pa.field(f"{name}_price_{level}", pa.decimal128(18, 4)),
            pa.field(f"{name}_size_{level}", pa.int64()),
            pa.field(f"{name}_orders_{level}", pa.int32()),
        )
    ]


TICKS = TableSpec(
    "ticks",
    pa.schema(
        [
            pa.field("channel", pa.int16()),
            pa.field("security_id", pa.int64()),
            pa.field("event", pa.int64()),
            pa.field("sequence_version", pa.int32()),
            pa.field("sequence_number", pa.int64()),
            pa.field("index_in_packet", pa.int32()),
            pa.field("state", pa.string()),
            *sided("bid"),
            *sided("ask"),
            pa.field("date", pa.date32()),
        ]
    ),
)


def private_capture(path, requests, reports):
    """A capture of a connection with these requests and reports, each at its sending time."""
    peer = RawPeer(version=6)
    segments, numbers = [], {True: 1, False: 1}
    pending = [(True, *each) for each in requests] + [(False, *each) for each in reports]
    for from_client, time_ns, session, values in sorted(pending, key=lambda each: each[1]):
        header = {"sessionID": session, "msgSeqNum": len(segments) + 1, "sendingTime": time_ns}
        if from_client:
            header["marketSegmentID"] = 80
            data = peer.order(1, **values, businessHeader=header)
        else:
            header |= {"eventIndicator": 0, "marketSegmentID": 80}
            data = peer.frame("ExecutionReport_New", **(REPORT | values), businessHeader=header)
        ends = (CLIENT, GATEWAY) if from_client else (GATEWAY, CLIENT)
        segments.append((time_ns, *ends, numbers[from_client], 24, data))
        numbers[from_client] += len(data)
    return write_capture(path, segments)


def add(lake, spec, content):
    lake.ensure_tables([spec])
    file = write_file(lake.location, spec, content)
    lake.commit(CommitUnit(spec.name, (spec.name,), (file,), (ingest_row(spec.name),)))


class Book:
    """Orders by number; levels by adding them up each time."""

    def __init__(self):
        self.orders = {}

    def apply(self, row):
        if row["template"] == 50:
            key = row["md_entry_type"], row["md_entry_px"]
            self.orders[row["secondary_order_id"]] = (*key, row["md_entry_size"])
        elif row["template"] == 51:
            del self.orders[row["secondary_order_id"]]
        else:
            side = row.get("md_entry_type")
            gone = [n for n, order in self.orders.items() if side in (None, order[0])]
            for number in gone:
                del self.orders[number]

    def levels(self, side):
        """Price, size and orders of a side, the best first; those without price ahead of all."""
        found = {}
        for own, price, size in self.orders.values():
            if own == side:
                level = found.setdefault(price, [0, 0])
                level[0] += size
                level[1] += 1
        sign = -1 if side == "BID" else 1
        ordered = sorted(found, key=lambda price: -(10**12) if price is None else sign * price)
        return [(price, *found[price]) for price in ordered]


def book_rows(lake):
    """The ticks of the day, and for each instrument and event the levels after it."""
    books, ticks, after, before = {}, [], {}, {}
    pending = messages(lake, 9, 50, 51, 52)
    for number, row in enumerate(pending):
        book = books.setdefault(row["security_id"], Book())
        key = row["security_id"], row["event"]
        if key not in before:
            before[key] = book.levels("BID"), book.levels("OFFER")
        book.apply(row)
        following = pending[number + 1] if number + 1 < len(pending) else None
        if following is not None and (following["security_id"], following["event"]) == key:
            continue
        sides = book.levels("BID"), book.levels("OFFER")
        after[key] = sides
        if [side[:DEPTH] for side in sides] == [side[:DEPTH] for side in before[key]]:
            continue
        tick = {name: row[name] for name in TICKS.schema.names[:6]}
        tick["state"] = "stale" if len(ticks) % STALE_EVERY == 0 else "valid"
        for name, levels in zip(("bid", "ask"), sides, strict=True):
            for level in range(DEPTH):
                values = levels[level] if level < len(levels) else (None, None, None)
                for part, value in zip(("price", "size", "orders"), values, strict=True):
                    tick[f"{name}_{part}_{level + 1}"] = value
        ticks.append(tick)
    return ticks, after


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """A day with ticks made by hand and a capture of EntryPoint, analysed."""
    lake, _ = lake_of(**SETTINGS)
    ticks, after = book_rows(lake)
    answered = [
        row
        for row in messages(lake, 50)
        if row["md_update_action"] == "NEW" and not row["match_event_indicator"] & RECOVERY
    ][::3]
    reports, requests = [], []
    for number, row in enumerate(answered):
        happened = row["transact_time_ns"]
        # The report, the same sent again, and one of another moment of the order's life.
        for late, other in ((5, 0), (500, 0), (3, 1)):
            values = {
                "clOrdID": number + 1, "orderID": 7000 + number,
                "securityID": row["security_id"], "secondaryOrderID": row["secondary_order_id"],
                "transactTime": happened + other, "marketSegmentReceivedTime": happened - 10,
                "receivedTime": happened - 20, "tradeDate": DATE,
            }  # fmt: skip
            reports.append((happened + late, 8, values))
        for session in (8, 9) if number % 2 else (9,):
            requests.append((happened - 30, session, {"clOrdID": number + 1}))
    path = tmp_path_factory.mktemp("private") / "orders.pcap"
    ingest([private_capture(path, requests, reports)], lake.location)
    add(lake, TICKS, ticks)
    analyse(lake, tables=["trades", "latency", "orders"])
    return lake, ticks, after, answered


@pytest.fixture(scope="module")
def with_books():
    """The day with the books that the lake builds itself."""
    lake, _ = lake_of(**SETTINGS)
    build_books(lake.location, BookOptions(depth=DEPTH))
    analyse(lake, tables=["trades", "orders"])
    ticks = sorted(rows(lake, "ticks"), key=lambda tick: tick["event"])
    return lake, ticks, book_rows(lake)[1], None


@pytest.fixture(params=["joined", "with_books"])
def ticked(request):
    return request.getfixturevalue(request.param)


def test_this_process_joins_the_same_rows_as_spark(spark, ticked):
    lake, *_ = ticked
    tables = [name for name in ("trades", "latency", "orders") if name in lake.table_names()]
    assert all(assert_same_on_spark(spark, lake, tables).values())


def test_trades_know_the_best_prices_before_their_event(ticked):
    lake, ticks, *_ = ticked
    trades = rows(lake, "trades")
    known = 0
    for trade in trades:
        last = None
        for tick in ticks:
            if tick["security_id"] == trade["security_id"] and tick["event"] < trade["event"]:
                last = tick
        for name in ("bid_price", "bid_size", "bid_orders", "ask_price", "ask_size", "ask_orders"):
            is_known = last is not None and last["state"] != "stale"
            assert trade[name] == (last[f"{name}_1"] if is_known else None)
        if trade["bid_price"] is not None and trade["ask_price"] is not None:
            assert trade["spread"] == trade["ask_price"] - trade["bid_price"]
            if trade["aggressor_side"] == "BUY":
                assert trade["spread"] > 0
                assert trade["price"] >= trade["ask_price"]
                known += 1
    assert known > 3


def test_an_order_has_its_queue_position_at_its_price(joined):
    """However deep it is, and whether the event changed its level or not."""
    lake, _, after, _ = joined
    sides = {"BUY": 0, "SELL": 1}
    entries, compared = {}, 0
    for order in sorted(rows(lake, "orders"), key=message_key):
        key = order["security_id"], order["event"]
        if order["entry_seen"] and order["end_event"] != order["event"]:
            entries.setdefault((key, order["side"], order["price"]), []).append(order)
        else:
            assert order["queue_position"] is None
    for (key, side, price), orders in entries.items():
        [count] = [count for at, _, count in after[key][sides[side]] if at == price]
        for orders_after, order in enumerate(reversed(orders)):
            assert order["queue_position"] == count - orders_after
            compared += 1
    assert compared > 100


def test_orders_know_the_request_that_put_them_there(joined):
    lake, *_, answered = joined
    by_number = {
        (row["security_id"], row["secondary_order_id"]): (number, row["transact_time_ns"])
        for number, row in enumerate(answered)
    }
    known = 0
    for row in rows(lake, "orders"):
        number, t5 = by_number.get((row["security_id"], row["secondary_order_id"]), (None, 0))
        request = [row[name] for name in ("session_id", "cl_ord_id", "order_id", "t2_ns", "t4_ns")]
        if number is None:
            assert request == [None] * 5
            continue
        known += 1
        assert request == [8, number + 1, 7000 + number, t5 - 20, t5 - 10]
        assert (row["t1_ns"], row["t6_ns"]) == (t5 - 30 if number % 2 else None, t5 + 5)
    assert known == len(answered) > 20


def test_events_know_the_request_that_caused_them(joined):
    lake, *_, answered = joined
    by_event = {row["event"]: row for row in rows(lake, "latency")}
    numbers = {}
    for number, row in enumerate(answered):
        numbers.setdefault(row["event"], number)
    assert len(numbers) > 20
    for event, row in by_event.items():
        number = numbers.get(event)
        if number is None:
            assert row["t2_ns"] is row["t4_ns"] is row["t6_ns"] is row["t1_ns"] is None
            continue
        t5 = answered[number]["transact_time_ns"]
        assert row["t5_ns"] == t5
        assert (row["t2_ns"], row["t4_ns"], row["t6_ns"]) == (t5 - 20, t5 - 10, t5 + 5)
        # Another session's request under the same number is not the one.
        assert row["t1_ns"] == (t5 - 30 if number % 2 else None)
