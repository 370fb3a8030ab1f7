"""Books with possibly missing packets: unconfirmed from the gap to the first proof."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest
from typer.testing import CliRunner

from pregao.api.lake import Lake
from pregao.book.state import State
from pregao.capture import PcapWriter, datagrams, read_packets, udp_frame
from pregao.cli.main import app
from pregao.clock import SECOND
from pregao.lake.books.book_at import book_at, open_books
from pregao.lake.books.build import build_books
from pregao.lake.books.catalog import FileCatalog
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.storage.lake_store import LakeStore
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, decode_header, encode_packet
from pregao.umdf.templates import SEQUENCE
from pregao.units import Side
from tests.feed.channel_messages import empty_book, encode, order, snapshot, snapshot_orders
from tests.lake.book_days import (
    BookDay,
    built,
    compare_ticks,
    levels,
    packet_key,
    simulate,
    tick_key,
    tick_levels,
)

UNTRUSTED = ("stale", "unconfirmed")
TRUSTED = ("valid", "empty")
CODEC = SchemaCodec(bundled("umdf"))


def fresh():
    return Path(mkdtemp(prefix="pregao-unconfirmed-"))


@cache
def day_folder():
    return simulate(fresh(), seconds=10)


@cache
def lossy(seed) -> BookDay:
    return built(simulate(fresh(), seconds=10, seed=seed, loss="0.12"))


def rewritten(source, out, change, heartbeat=None):
    """The captures of a day, each incremental packet as returned by ``change``, or without it.

    A heartbeat with the number of the next packet may follow at the end.
    """
    out.mkdir(parents=True, exist_ok=True)
    for capture in sorted(source.glob("*.pcap")):
        with PcapWriter(out / capture.name) as writer:
            for found in datagrams(read_packets(capture)):
                payload = found.payload
                if "Incremental" in capture.name:
                    payload = change(decode_header(payload), payload)
                if payload is not None:
                    flow = found.flow
                    frame = udp_frame(flow.src, flow.src_port, flow.dst, flow.dst_port, payload)
                    writer.write(found.time_ns, frame)
            if heartbeat is not None and "Incremental" in capture.name:
                message = CODEC.codec(SEQUENCE).encode({"nextSeqNo": heartbeat})
                when = found.time_ns + SECOND
                payload = encode_packet(PacketHeader(51, 1, 0, when), [message])
                frame = udp_frame(flow.src, flow.src_port, flow.dst, flow.dst_port, payload)
                writer.write(when, frame)
    return out


def last_number(folder, channel=51):
    capture = folder / f"{channel:03d}_Incremental_A.pcap"
    return max(decode_header(found.payload).sequence_number
               for found in datagrams(read_packets(capture)))  # fmt: skip


def states(lake):
    return {row["symbol"]: row["state"] for row in BookDay(Path(), LakeStore(lake)).rows("books")}


def lake_of(folder, captures=None):
    lake = folder / "lake"
    ingest([str(path) for path in captures or sorted(folder.glob("*.pcap"))], str(lake))
    build_books(str(lake))
    return lake


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_no_tick_that_is_valid_or_empty_differs_from_the_truth(seed):
    day = lossy(seed)
    assert compare_ticks(day) > 20
    found = [tick["state"] for tick in day.rows("ticks")]
    assert found.count("unconfirmed") > 20
    assert found.count("valid") > 100


@pytest.mark.parametrize("seed", [1, 2])
def test_no_lookup_that_is_valid_or_empty_differs_from_the_truth(seed):
    """By time: also where the packet of that time was lost on both feeds."""
    day = lossy(seed)
    lines = [line for line in day.truth() if not line["final"]][::7]
    trusted = 0
    for line in lines:
        moment = book_at(day.lake, line["symbol"], line["time_ns"])
        if moment.book.state.name.lower() not in TRUSTED:
            continue
        for side, orders in ((Side.BID, line["bids"]), (Side.ASK, line["asks"])):
            shown = [(each.order_id, each.size) for each in moment.book.orders(side)]
            assert shown == [(order[2], order[1]) for order in orders], line["symbol"]
        trusted += 1
    assert trusted > len(lines) // 5


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_no_tick_by_time_that_is_valid_or_empty_differs_from_the_truth(seed):
    day = lossy(seed)
    ticks = {}
    for tick in sorted(
        day.rows("ticks"), key=lambda tick: (tick["sending_time_ns"], tick_key(tick))
    ):
        ticks.setdefault(tick["security_id"], []).append(tick)
    compared = 0
    for line in day.truth():
        own = [tick for tick in ticks.get(line["security_id"], ())
               if tick["sending_time_ns"] <= line["time_ns"]]  # fmt: skip
        if own and own[-1]["state"] in TRUSTED:
            assert tick_levels(own[-1], "bid") == levels(line["bids"]), line["symbol"]
            assert tick_levels(own[-1], "ask") == levels(line["asks"]), line["symbol"]
            compared += 1
    assert compared > 20


BEGIN = 1_779_364_800 * SECOND
LOST = 3
"""Number of the packet that no feed delivered."""


def hand_made(folder, packets, snapshots=()):
    """A lake of packets (number, time in seconds, messages) of channel 7, and its snapshots."""
    folder.mkdir()
    streams = {"Incremental_A": (packets, 1), "Snapshot": (snapshots, 2)}
    for name, (sent, port) in streams.items():
        if not sent:
            continue
        with PcapWriter(folder / f"007_{name}.pcap") as writer:
            for number, seconds, *messages in sent:
                when = BEGIN + seconds * SECOND
                payload = encode_packet(PacketHeader(7, 1, number, when), messages)
                writer.write(when, udp_frame("10.0.0.1", 9, "224.1.1.1", port, payload))
    lake = folder / "lake"
    ingest([str(path) for path in sorted(folder.glob("*.pcap"))], str(lake))
    build_books(str(lake))
    return LakeStore(lake)


def state_at(lake, security, seconds):
    moment = book_at(lake, str(security), BEGIN + int(seconds * SECOND))
    return moment.book.state.name.lower()


ONE, TWO = 1111, 2222
PACKETS = [
    (1, 1, order(1, 10), order(1, 20, security=TWO)),
    (2, 2, order(2, 11)),
    # packet 3 is sent at 10 s with an order of instrument ONE, and lost
    (4, 20, empty_book(TWO, flags=0), order(1, 21, security=TWO)),
    (5, 30, order(4, 13)),
]


def test_a_gap_begins_by_time_with_the_last_packet_before_it(tmp_path):
    lake = hand_made(tmp_path / "day", PACKETS)
    for security in (ONE, TWO):
        assert state_at(lake, security, 1.5) == "valid"
        for seconds in (2, 5, 9.999, 10, 15, 19.999999999):
            assert state_at(lake, security, seconds) == "unconfirmed", (security, seconds)
    assert state_at(lake, TWO, 20) == "valid"  # proven by its EmptyBook
    assert state_at(lake, ONE, 20) == "unconfirmed"
    assert state_at(lake, ONE, 30) == "stale"
    moment = book_at(lake, str(ONE), BEGIN + 15 * SECOND)
    assert moment.reason == (
        "packet 3 of sequence version 1, sent between 2026-05-21T12:00:02.000000000Z and "
        "2026-05-21T12:00:20.000000000Z, is missing"
    )
    assert [each.order_id for each in moment.book.orders(Side.BID)] == [10, 11]
    assert book_at(lake, str(TWO), BEGIN + 20 * SECOND).reason is None


def test_books_at_many_times_know_of_gaps_like_single_lookups(tmp_path):
    lake = hand_made(tmp_path / "day", PACKETS)
    times = [BEGIN + tenths * SECOND // 10 for tenths in range(0, 400, 3)]
    for security in (ONE, TWO):
        books = open_books(FileCatalog(lake), str(security))
        single = [book_at(lake, str(security), at) for at in times[::9]]
        series = books.series(times)[::9]
        again = [books.at(at) for at in times[::9]]
        for one, two, three in zip(single, series, again, strict=True):
            assert one.book.state == two.book.state == three.book.state
            assert one.reason == two.reason == three.reason


def test_a_tick_gives_a_gap_the_time_of_the_packet_before_it(tmp_path):
    lake = hand_made(tmp_path / "day", PACKETS)
    ticks = sorted(BookDay(tmp_path, lake).rows("ticks", security_id=TWO), key=tick_key)
    assert [(tick["state"], (tick["sending_time_ns"] - BEGIN) // SECOND) for tick in ticks] == [
        ("valid", 1), ("unconfirmed", 2), ("valid", 20),
    ]  # fmt: skip


def test_a_heartbeat_before_a_gap_postpones_it(tmp_path):
    beat = encode(SEQUENCE, nextSeqNo=LOST)
    lake = hand_made(tmp_path / "day", [*PACKETS[:2], (0, 8, beat), *PACKETS[2:]])
    assert state_at(lake, ONE, 7.999) == "valid"
    assert state_at(lake, ONE, 8) == "unconfirmed"
    assert "12:00:08.000000000Z and" in book_at(lake, str(ONE), BEGIN + 9 * SECOND).reason


def test_a_snapshot_as_of_the_last_lost_packet_ends_the_doubt_when_it_is_sent(tmp_path):
    loop = [(1, 12, snapshot(LOST, 3, bids=3, reports=2), snapshot_orders(10, 11, 12),
             snapshot(LOST, 1, bids=1, reports=2, security=TWO),
             snapshot_orders(20, security=TWO))]  # fmt: skip
    lake = hand_made(tmp_path / "day", PACKETS, loop)
    for security, orders in ((ONE, [10, 11, 12]), (TWO, [20])):
        assert state_at(lake, security, 11.9) == "unconfirmed"
        assert state_at(lake, security, 12) == "valid"
        moment = book_at(lake, str(security), BEGIN + 13 * SECOND)
        assert [each.order_id for each in moment.book.orders(Side.BID)] == orders


def test_an_instrument_absent_from_a_loop_has_the_time_of_the_loops_end(tmp_path):
    """000 §7.3.1: its book is empty; ticks and checkpoints of that have the loop's time."""
    loop = [(1, 24, snapshot(4, 1, bids=1, security=TWO), snapshot_orders(21, security=TWO))]
    lake = hand_made(tmp_path / "day", PACKETS[:3], loop)
    day = BookDay(tmp_path, lake)
    assert day.rows("books", security_id=ONE)[0]["state"] == "empty"
    for table in ("ticks", "book_checkpoints"):
        last = max(day.rows(table, security_id=ONE), key=tick_key)
        assert last["state"] == "empty"
        for column in ("sending_time_ns", "capture_time_ns"):
            assert last[column] == BEGIN + 24 * SECOND, (table, column)
    assert state_at(lake, ONE, 23) == "unconfirmed"
    assert state_at(lake, ONE, 24) == "empty"


def test_data_that_begins_with_a_gap_claims_nothing_before_it(tmp_path):
    lake = hand_made(tmp_path / "day", PACKETS[1:2])
    assert state_at(lake, ONE, 1) == "unconfirmed"
    assert book_at(lake, str(ONE), BEGIN + SECOND).reason == (
        "packet 1 of sequence version 1, sent before 2026-05-21T12:00:02.000000000Z, is missing"
    )


def test_the_reason_of_an_unconfirmed_book_is_shown(tmp_path):
    lake = hand_made(tmp_path / "day", PACKETS)
    at = str(BEGIN + 15 * SECOND)
    where = ["--lake", str(lake.location), "--at", at]
    shown = CliRunner().invoke(app, ["book", str(ONE), *where, "--json"])
    assert shown.exit_code == 1
    reason = book_at(lake, str(ONE), int(at)).reason
    assert json.loads(shown.stdout)["reason"] == reason
    text = " ".join(CliRunner().invoke(app, ["book", str(ONE), *where]).stdout.split())
    assert f"{reason}, and nothing has confirmed the book since" in text
    found = Lake(str(lake.location)).book(ONE, at=int(at))
    assert (found.state, found.reason) == (State.UNCONFIRMED, reason)


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_an_unconfirmed_book_is_confirmed_by_the_next_complete_snapshot(seed):
    """Calling everything unconfirmed is no answer."""
    day = lossy(seed)
    gaps = [
        (row["sequence_version"], row["first_missing"], row["last_missing"])
        for row in day.rows("gaps", closed_by=None)
        if row["security_id"] is None
    ]
    ticks = {}
    for tick in sorted(day.rows("ticks"), key=tick_key):
        ticks.setdefault(tick["security_id"], []).append(tick)
    checked = 0
    for row in day.rows("book_audit"):
        if row["result"] in ("incomplete", "void"):
            continue
        version, number = packet_key(row)
        if any(v == version and first <= number + 1 <= last + 1 for v, first, last in gaps):
            continue  # the snapshot is from within a gap, or from right before one
        own = ticks.get(row["security_id"], [])
        before = [tick for tick in own if packet_key(tick) <= (version, number)]
        if before:
            assert before[-1]["state"] != "unconfirmed", row
            checked += 1
    assert checked > 50


def test_a_day_without_loss_has_no_unconfirmed_book():
    folder = day_folder()
    day = built(folder)
    assert {tick["state"] for tick in day.rows("ticks")} <= {"valid", "empty", "building"}
    assert "unconfirmed" not in states(day.lake.location.path).values()


def test_a_heartbeat_shows_packets_missing_at_the_end(tmp_path):
    """000 §7.5: its nextSeqNo is above the last number that came."""
    last = last_number(day_folder())

    def cut(header, payload):
        return None if header.sequence_number > last - 5 else payload

    folder = rewritten(day_folder(), tmp_path, cut, heartbeat=last + 1)
    lake = lake_of(folder, [*folder.glob("*Incremental*.pcap"), *folder.glob("*Definition*.pcap")])
    assert set(states(lake).values()) <= set(UNTRUSTED)
    shown = CliRunner().invoke(app, ["book", "PETR4", "--lake", str(lake), "--json"])
    assert shown.exit_code == 1
    assert json.loads(shown.stdout)["state"] in UNTRUSTED


def test_the_next_days_first_number_shows_packets_missing_at_the_end(tmp_path):
    folder = day_folder()
    last = last_number(folder)

    def today(header, payload):
        return None if header.sequence_number == 0 or header.sequence_number > last - 5 else payload

    def tomorrow(header, payload):
        if header.sequence_number <= last - 3:
            return None
        return replace_header(header, payload, header.sending_time_ns + 86_400 * SECOND)

    first = sorted(rewritten(folder, tmp_path / "one", today).glob("*Incremental*.pcap"))
    second = sorted(rewritten(folder, tmp_path / "two", tomorrow).glob("*Incremental*.pcap"))
    lake = str(tmp_path / "lake")
    ingest([str(path) for path in first], lake)
    (before,) = build_books(lake)
    assert "unconfirmed" not in states(lake).values()
    ingest([str(path) for path in second], lake)
    reports = build_books(lake)
    assert reports[0].unit_id != before.unit_id  # more is known of the first day now
    rows = BookDay(tmp_path, LakeStore(lake)).rows("books", date=before.date)
    assert {row["state"] for row in rows} <= set(UNTRUSTED)


def replace_header(header, payload, sending):
    from pregao.umdf.layout import PACKET_HEADER

    changed = PacketHeader(*header)._replace(sending_time_ns=sending)
    return PACKET_HEADER.pack(changed[0], 0, *changed[1:]) + payload[PACKET_HEADER.size :]


def test_a_packet_with_an_unreadable_part_is_a_gap(tmp_path):
    middle = last_number(day_folder()) // 2

    def damage(header, payload):
        return payload + b"\x01\x02" if header.sequence_number == middle else payload

    day = built(rewritten(day_folder(), tmp_path, damage))
    assert len(day.rows("rejects")) == 1
    doubted = [tick for tick in day.rows("ticks") if tick["state"] == "unconfirmed"]
    assert {tick["sequence_number"] for tick in doubted} >= {middle - 1}
    assert "unconfirmed" not in states(day.lake.location.path).values()  # snapshots confirm


def test_feed_b_that_comes_later_rebuilds_and_confirms(tmp_path):
    last = last_number(day_folder())
    only_a = []

    def lose(header, payload):
        return None if last - 40 < header.sequence_number <= last - 30 else payload

    folder = rewritten(day_folder(), tmp_path / "day", lose)
    whole_b = day_folder() / "051_Incremental_B.pcap"
    only_a = [path for path in sorted(folder.glob("*.pcap")) if "_B" not in path.name]
    lake = str(tmp_path / "lake")
    ingest([str(path) for path in only_a], lake)
    (before,) = build_books(lake)
    assert any(
        tick["state"] == "unconfirmed" for tick in BookDay(folder, LakeStore(lake)).rows("ticks")
    )
    ingest([str(whole_b)], lake)
    (after,) = build_books(lake)
    assert after.built
    assert after.unit_id != before.unit_id
    ticks = BookDay(folder, LakeStore(lake)).rows("ticks")
    assert {tick["state"] for tick in ticks} <= {"valid", "empty", "building"}


def test_compaction_does_not_make_a_build_out_of_date(tmp_path):
    from pregao.lake.ingest.maintenance import compact

    lake = lake_of(simulate(tmp_path / "day", seconds=4))
    compact(LakeStore(lake))
    (again,) = build_books(str(lake))
    assert not again.built


def test_a_lookup_after_the_data_states_where_it_ends(tmp_path):
    lake = lake_of(simulate(tmp_path / "day", seconds=4))
    end = max(row["sending_time_ns"] for row in BookDay(tmp_path, LakeStore(lake)).rows("packets"))
    assert book_at(LakeStore(lake), "PETR4", end).data_ends_ns is None
    assert book_at(LakeStore(lake), "PETR4", end + SECOND).data_ends_ns == end
    assert replace(book_at(LakeStore(lake), "PETR4", None)).data_ends_ns is None
