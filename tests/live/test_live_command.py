"""``pregao live``: lines of JSON, the demonstration, the view, and mistakes as sentences."""

import io
import json
import os
import pty
import select
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from pregao.book.state import State
from pregao.book.views import BookLevel
from pregao.cli.live import demo
from pregao.cli.live.json_lines import data_of, status_data
from pregao.cli.live.view import ViewSelection, draw, key_names, span
from pregao.clock import SECOND
from pregao.events import DefinitionChange, GapFound, InstrumentChanged, TradeBusted, TradeDone
from pregao.exchange.engine.model.enums import TradingSession, TradingStatus
from pregao.exchange.engine.model.events import SecurityGroupPhase
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.feed.channel.settings import ChannelState
from pregao.live import (
    BookCopy,
    BookRefresh,
    ChannelReport,
    FeedReport,
    InstrumentPage,
    InstrumentRow,
    ItemsMissed,
    LiveEvent,
)
from pregao.net.sockets import receive_socket
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, encode_packet
from pregao.umdf.phases import GroupKey, Status
from pregao.umdf.sequencing import PacketKey
from pregao.umdf.streams import Stream
from pregao.umdf.templates import END_OF_EVENT
from tests.live.config_text import config_text
from tests.live.live_support import followed_at, running, unicast
from tests.schemas.plain_facts import published_file
from tests.waiting import PATIENCE_S

BOOK = BookCopy(
    State.VALID,
    "follows from a snapshot",
    PacketKey(1, 7),
    (BookLevel(None, 100, 1), BookLevel(361_900, 3_900, 5)),
    (BookLevel(362_000, 1_234_567, 12),),
)


def test_lines_have_exact_prices_and_positions():
    trade = TradeDone(
        PacketKey(1, 7),
        5,
        6,
        14,
        70,
        1910,
        None,
        361_900,
        300,
        3,
        None,
        0,
        None,
        4,
        False,
        False,
        True,
    )
    data = data_of(LiveEvent(51, "PETR4", trade, None))
    assert (data["event"], data["channel"], data["symbol"]) == ("TradeDone", 51, "PETR4")
    assert (data["price"], data["size"]) == ("36.1900", 300)
    assert "price_mantissa" not in data
    assert trade.price == Decimal("36.19")
    assert "price=Decimal('36.1900'), size=300" in repr(trade)
    assert (data["sequence_version"], data["sequence_number"]) == (1, 7)
    assert data["market_event"] == 70
    added = InstrumentChanged(None, 0, 0, 14, "PETR4", DefinitionChange.ADDED)
    assert data_of(LiveEvent(51, "PETR4", added, None))["change"] == "added"
    fresh = data_of(BookRefresh(51, "PETR4", 14, BOOK))
    assert fresh["book"]["bids"] == [[None, 100, 1], ["36.1900", 3900, 5]]
    book = fresh["book"]
    assert (book["state"], book["sequence_version"], book["sequence_number"]) == ("valid", 1, 7)
    assert data_of(ItemsMissed(7)) == {"event": "ItemsMissed", "count": 7}
    gap = data_of(LiveEvent(51, None, GapFound(PacketKey(1, 7), 5, 6, 2, 1, 3), None))
    assert (gap["sequence_version"], gap["first"], gap["last"]) == (2, 1, 3)
    assert "sequence_number" not in gap  # it would be that of a packet of another version
    for item in (fresh, data, gap):
        json.dumps(item)


def test_a_status_line_has_the_time_and_the_latency():
    data = status_data(report(seconds=2))
    assert data["time_ns"] == 2 * SECOND
    (channel,) = data["channels"]
    assert channel["latency_ns"] == {"p50": 1_500, "p99": 2_500_000, "max": None}


@pytest.fixture
def small_demo(monkeypatch):
    monkeypatch.setattr(demo, "INSTRUMENTS", 3)
    monkeypatch.setattr(demo, "DURATION_NS", 20 * SECOND)


def test_the_demonstration_simulates_sends_and_follows(pregao, small_demo):
    done = pregao("live", "--demo", "--json", "--speed", "5x", "--metrics", "0")
    assert done.code == 0, done.err
    assert "/metrics" in done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    kinds = {line["event"] for line in lines}
    assert {"Status", "InstrumentChanged", "Synchronized", "BookChanged"} <= kinds
    last = lines[-1]
    assert last["event"] == "Status"
    counters = last["channels"][0]["counters"]
    assert counters["delivered"] > 100
    assert last["channels"][0]["dropped"] == 0
    assert sum(line["event"] == "TradeDone" for line in lines) > 0


def test_errors_are_one_line(pregao, tmp_path):
    path = tmp_path / "live.toml"
    config, _ = followed_at()
    path.write_text(config_text(config))
    for arguments, words in (
        ([], "requires either --config FILE or --demo"),
        (["--demo", "--config", path], "requires either --config FILE or --demo"),
        (["--config", tmp_path / "no.toml"], "there is no such file"),
        (["--config", path, "--channel", "99"], "has no channel 99; it has 51"),
        (["--config", path, "--channel", "x"], "--channel must be an integer"),
        (["--config", path, "--spool", tmp_path], "--spool requires --lake"),
        (["--demo", "--spin", "--realtime"], "Choose spin or realtime"),
        (
            ["--config", path, "--lake", "l", "--record", "r"],
            "--lake cannot be combined with --record",
        ),
        (
            ["--config", path, "--json", "--lake", "s3://b/l"],
            "set the folder of captures with --spool",
        ),
        (["--config", path, "--duration", "soon", "--json"], "--duration must be a duration"),
        (["--config", path], "The view requires a terminal: use --json"),
        (["--config", path, "--json", "--roll-size", "x"], "--roll-size"),
    ):
        done = pregao("live", *arguments)
        assert done.code == 2, arguments
        assert words in done.err
        assert done.err.count("\n") == 1
    alone = unicast(config)
    path.write_text(config_text(alone))
    with receive_socket(alone.lines[0].address):
        done = pregao("live", "--config", path, "--json")
    assert done.code == 2
    assert "another program listens there" in done.err


def test_a_named_schema_decodes_the_live_feed(pregao, tmp_path):
    """Of its own version and of others; a value that it renames keeps its effect."""
    own = tmp_path / "own.xml"
    own.write_bytes(published_file(17, settlDate="dayOfPrice", PRE_OPEN="GATHERING"))
    for version, expected in ((17, date(2026, 5, 20)), (16, None)):
        values = {"securityID": 7, "matchEventIndicator": 0x80, "tradeDate": date(2026, 5, 21),
                  "mDEntryPx": 1, "mDEntryTimestamp": 1, "openCloseSettlFlag": 0, "priceType": 2,
                  "settlPriceType": 1, "rptSeq": 1, "settlDate": date(2026, 5, 20)}  # fmt: skip
        if version < 17:
            del values["settlDate"]
        message = SchemaCodec(bundled("umdf", version)).codec(28).encode(values)
        item = SecurityGroupPhase(
            "XX", TradingSession.REGULAR, TradingStatus.RESERVED, None, 20_000, None, 10**18
        )
        phase = FeedEncoder(version).write(item, END_OF_EVENT)
        for compiled in (None, False):
            config = replace(unicast(followed_at()[0]), schema_files=(str(own),))
            payload = encode_packet(PacketHeader(51, 1, 1, 10**18), [message, phase])

            def read(handler, payload=payload):
                channel = handler.channels[51].channel
                channel.receive(Stream.INCREMENTAL, "A", payload, 10**18)
                found = [dict(each.values) for each in channel.statistics(7).values()]
                return found, channel.phases.phase(GroupKey("XX", "BVMF"))

            with running(config, compiled=compiled) as handler:
                (values_read,), phase_read = handler.call(read)
            assert phase_read is Status.RESERVED
            assert values_read["dayOfPrice"] == expected
            assert "settlDate" not in values_read
    path = tmp_path / "live.toml"
    path.write_text(config_text(config))
    missing = pregao("live", "--config", path, "--json", "--duration", "1s", "--schema", "no.xml")
    assert (missing.code, "no.xml" in missing.err) == (2, True)


def test_live_records_and_ends_in_time(pregao, tmp_path):
    path = tmp_path / "live.toml"
    config, _ = followed_at()
    path.write_text(config_text(config))
    folder = tmp_path / "captures"
    done = pregao("live", "--config", path, "--json", "--duration", "100ms", "--record", folder)
    assert done.code == 0, done.err
    (line,) = [json.loads(line) for line in done.out.splitlines()][-1:]
    assert (line["event"], line["ready"], line["recorded"]) == ("Status", False, 0)
    assert line["channels"][0]["state"] == "starting"
    assert list(folder.iterdir()) == []


def test_the_view_runs_in_a_terminal_until_q_is_pressed(tmp_path):
    path = tmp_path / "live.toml"
    config, _ = followed_at()
    path.write_text(config_text(config))
    ours, theirs = pty.openpty()
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(root), *sys.path]),
        "COLUMNS": "120",
        "LINES": "40",
        "TERM": "xterm",
    }
    command = [sys.executable, "-m", "pregao", "live", "--config", str(path)]
    running = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    shown = b""
    pressed = False
    stop = time.monotonic() + PATIENCE_S
    while running.poll() is None and time.monotonic() < stop:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError:  # the terminal's other end is closed
                break
        if not pressed and b"starting" in shown:
            os.write(ours, b"jq")
            pressed = True
    running.wait(PATIENCE_S)
    os.close(ours)
    assert running.returncode == 0, shown
    assert b"pregao live" in shown
    assert b"not ready" in shown


def row(number, symbol, changes):
    return InstrumentRow(51, number, symbol, changes, 3, 500, Decimal("36.1900"), BOOK)


def report(state=ChannelState.LIVE, seconds=0, messages=0):
    names = ("packets", "messages", "gaps", "lost_packets", "healed", "confirmed", "bad_packets")
    channel = ChannelReport(
        51,
        state,
        5,
        dict.fromkeys(State, 0) | {State.STALE: 1},
        dict.fromkeys(names, messages),
        {},
        (1_500, 2_500_000, None),
        (),
    )
    return FeedReport(seconds * SECOND, 0, (channel,), 12_345, 0)


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("opened", [False, True])
def test_the_screen_cuts_no_number_whatever_its_width(width, opened):
    rows = [row(14, "PETR4", 997), row(7, "VALE3", 12)]
    bust = TradeBusted(PacketKey(1, 7), 5, 6, 14, 70, 1910, None, 361_900, 300)
    page = InstrumentPage(rows[0], "open", (bust,) * 100)
    selection = ViewSelection()
    selection.show([(each.channel, each.security_id) for each in rows])
    selection.opened = opened
    console = Console(width=width, record=True, file=io.StringIO())
    before, now = report(seconds=1), report(seconds=3, messages=2_469_134)
    console.print(draw(now, before, rows, page, selection, (width, 30)))
    text = console.export_text()
    assert "live" in text
    assert "1,234,567" in text
    assert width < 80 or "36.1900" in text
    assert "…" not in text
    if width >= 140:
        for number in ("2,469,134", "2.5 ms", "1.5 µs"):
            assert number in text
    if not opened:
        assert "VALE3" in text


def test_keys_move_the_choice_which_stays_when_the_list_changes():
    selection = ViewSelection()
    selection.press("down")
    selection.show([(51, 1), (51, 2), (51, 3)])
    for key in ("down", "j", "down", "up"):
        selection.press(key)
    assert selection.held == (51, 2)
    selection.show([(51, 2), (51, 3), (51, 1)])
    assert (selection.at, selection.held) == (0, (51, 2))
    selection.press("enter")
    assert selection.opened
    selection.press("left")
    selection.press("page down")
    assert (selection.opened, selection.held) == (False, (51, 1))
    selection.show([(51, 9)])
    assert selection.held == (51, 9)
    selection.press(" ")
    selection.press("q")
    assert (selection.paused, selection.ended) == (True, True)


def test_names_of_keys():
    assert key_names(b"\x1b[A\x1bOBq\x1b[6~\r\x01 \x1b") == [
        "up", "down", "q", "page down", "enter", " ", "escape",
    ]  # fmt: skip


def test_spans_for_people():
    assert [span(each) for each in (None, 7, 1_500, 2_500_000, 3_200_000_000)] == [
        "–", "7 ns", "1.5 µs", "2.5 ms", "3.2 s",
    ]  # fmt: skip
