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
    lake_of,
    latency_times,
    message_key,
    messages,
    rows,
)
from tests.lake.lake_support import ingest_row, write_file

DEPTH = 3
SETTINGS = {"seed": 3, "instruments": 2, "duration": "10s"}
STALE_EVERY = 50
RECOVERY = 1 << 5
BY_HAND = 1 << 3 | 1 << 6
"""Conditions of trades that are entered or amended by hand, whose time is too."""


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
            kind, own = f"ExecutionReport_{values.get('kind', 'New')}", REPORT | values
            own.pop("kind", None)
            data = peer.frame(kind, **own, businessHeader=header)
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
    by_event = {row["event"]: row for row in latency_times(lake)}
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


@pytest.fixture(scope="module")
def aggressions(tmp_path_factory):
    """The day with reports of every other aggression, of the orders hit, and of icebergs."""
    lake, _ = lake_of(**(SETTINGS | {"duration": "40s"}))
    trades, orders = messages(lake, 53), messages(lake, 50)
    first = {}
    for trade in trades:
        if not trade["trade_condition"] & BY_HAND:
            first.setdefault(trade["event"], trade)
    reported = list(first)[::2]
    assert len(reported) > 5
    # In these events an order rests again: the next part of an iceberg, for what is known.
    replenished = {}
    for row in orders:
        if row["event"] in first and row["md_update_action"] == "NEW":
            replenished.setdefault(row["event"], row)
    assert len(set(replenished) & set(reported)) > 1
    assert set(replenished) - set(reported)
    requests, reports = [], []
    for event, trade in first.items():
        number, t5 = event % 10**12, trade["transact_time_ns"]
        common = {"securityID": trade["security_id"], "transactTime": t5, "tradeDate": DATE}
        fill = common | {
            "kind": "Trade", "ordStatus": "FILLED", "tradeID": trade["trade_id"], "lastQty": 1,
            "execType": "TRADE",
        }  # fmt: skip
        hit = {"clOrdID": number + 1, "orderID": number + 1, "secondaryOrderID": number}
        requests.append((t5 - 5_000_000, 8, {"clOrdID": number + 1}))
        reports.append((t5 + 4, 8, fill | hit | {"aggressorIndicator": "FALSE_VALUE"}))
        if event in reported:
            own = {"clOrdID": number + 2, "orderID": number + 2, "secondaryOrderID": number + 7}
            received = {"marketSegmentReceivedTime": t5 - 10, "receivedTime": t5 - 20}
            requests.append((t5 - 30, 8, {"clOrdID": number + 2}))
            # What another session calls the same number is another order.
            requests.append((t5 - 90, 9, {"clOrdID": number + 2}))
            reports.append((t5 + 5, 8, common | own | received))
            reports.append((t5 + 1, 9, common | own | received))
            aggressor = fill | own | {"aggressorIndicator": "TRUE_VALUE"}
            reports += [(t5 + 6, 8, aggressor), (t5 + 900, 8, aggressor)]
        else:
            # Both sides of a cross are entered at the time of their trade.
            reports.append((t5 + 2, 8, common | hit | {"receivedTime": t5 - 20}))
        if event in replenished:
            row = replenished[event]
            own = {"clOrdID": number + 3, "orderID": 77, "ordStatus": "RESTATED"}
            own["secondaryOrderID"] = row["secondary_order_id"]
            own |= {"transactTime": row["transact_time_ns"], "receivedTime": t5 - 20}
            requests.append((t5 - 9_000_000, 8, {"clOrdID": number + 3}))
            reports.append((t5 + 3, 8, common | own))
    cancelled = {}
    for number, row in enumerate(messages(lake, 51)):
        if row["event"] in first or row["event"] in cancelled or len(cancelled) == 4:
            continue
        cancelled[row["event"]] = t5 = row["transact_time_ns"]
        values = {
            "kind": "Cancel", "clOrdID": number, "orderID": number, "transactTime": t5,
            "securityID": row["security_id"], "secondaryOrderID": row["secondary_order_id"],
            "marketSegmentReceivedTime": t5 - 10, "receivedTime": t5 - 20, "tradeDate": DATE,
            "ordStatus": "CANCELED",
        }  # fmt: skip
        if len(cancelled) > 2:
            values["execRestatementReason"] = "ORDER_MASS_ACTION_FROM_CLIENT_REQUEST"
        requests.append((t5 - 40, 7, {"clOrdID": number}))
        reports.append((t5 + 7, 7, values))
    path = tmp_path_factory.mktemp("private") / "orders.pcap"
    ingest([private_capture(path, requests, reports)], lake.location)
    analyse(lake, tables=["latency", "orders"])
    return lake, first, reported, replenished, cancelled


def test_an_order_of_a_mass_cancel_has_no_request_of_its_own(aggressions):
    lake, *_, cancelled = aggressions
    by_event = {row["event"]: row for row in latency_times(lake)}
    found = []
    for event, t5 in cancelled.items():
        row = by_event[event]
        assert (row["t2_ns"], row["t4_ns"], row["t6_ns"]) == (t5 - 20, t5 - 10, t5 + 7)
        found.append(row["t1_ns"])
    times = list(cancelled.values())
    assert found == [times[0] - 40, times[1] - 40, None, None]


def test_an_aggression_has_the_times_of_the_request_that_traded(aggressions):
    """Not those of the orders that it hit, nor of an iceberg whose next part it uncovered."""
    lake, first, reported, *_ = aggressions
    known = 0
    for row in latency_times(lake):
        times = [row[name] for name in ("t1_ns", "t2_ns", "t4_ns", "t6_ns")]
        if row["event"] not in reported:
            assert row["event"] not in first or times == [None] * 4
            continue
        known += 1
        t5 = first[row["event"]]["transact_time_ns"]
        assert times == [t5 - 30, t5 - 20, t5 - 10, t5 + 5]
    assert known == len(reported)


def test_a_restated_order_has_its_owner_and_no_request(aggressions):
    lake, _, _, replenished, _ = aggressions
    by_number = {
        (row["security_id"], row["secondary_order_id"]): event for event, row in replenished.items()
    }
    known = 0
    for row in rows(lake, "orders"):
        event = by_number.get((row["security_id"], row["secondary_order_id"]))
        times = [row[name] for name in ("t1_ns", "t2_ns", "t4_ns", "t6_ns")]
        assert times == [None] * 4
        if event is not None and row["event"] == event:
            known += 1
            assert (row["session_id"], row["order_id"]) == (8, 77)
            assert row["cl_ord_id"] == event % 10**12 + 3
    assert known == len(replenished)
