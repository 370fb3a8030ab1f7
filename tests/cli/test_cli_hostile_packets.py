"""A capture that begins with packets which no exchange sends, through the commands that read it."""

import json
import re
from decimal import Decimal

import pytest

from pregao.capture import PcapWriter, udp_frame
from pregao.clock import SECOND
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.umdf.streams import Stream
from tests.feed.channel_days import CHANNEL, other_site, simulated_day
from tests.feed.hostile_packets import hostile_messages, sequenced

NO_BLOCK = "0700010000000000000064a7b3b6e00d0c0050eb0000020002001000"
BEFORE, AHEAD = 65_500, 40
"""The sequence version of the hostile packets, and how much higher the day's are than 1."""
EVERY = 40
STREAMS = (Stream.INCREMENTAL, Stream.SNAPSHOT, Stream.DEFINITION)
LINES = {
    each: next(iter(ChannelEndpoints.numbered(CHANNEL).endpoints(each)))[1] for each in STREAMS
}


@pytest.fixture(scope="module")
def day():
    return simulated_day(3, seconds=2, rate=60.0)


@pytest.fixture(scope="module")
def capture(day, tmp_path_factory):
    path = tmp_path_factory.mktemp("hostile") / "day.pcap"
    found, now = [], day.start_ns - SECOND
    for number, message in enumerate(hostile_messages(16, min(day.books))[::EVERY], 1):
        for stream in STREAMS:
            now += 1000
            own = 0 if number % 16 == 0 else number
            found.append((now, stream, sequenced(CHANNEL, BEFORE, own, message, now)))
    found += other_site(day, AHEAD).sent
    with PcapWriter(path) as writer:
        for when, stream, payload in found:
            line = LINES[stream]
            writer.write(when, udp_frame("10.0.0.1", 20000, line.address, line.port, payload))
    return path


def test_short_blocks_are_decoded_with_nulls(pregao, capture, tmp_path):
    done = pregao("decode", "--hex", NO_BLOCK)
    assert done.code == 0
    assert "Sequence_2" in done.out
    done = pregao("decode", capture, "--output", tmp_path / "all.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    output = done.err
    assert f"{len(rows):,} messages" in output
    before = [row["fields"] for row in rows if row["sequence_version"] == BEFORE]
    assert sum(fields.get("securityID", 0) is None for fields in before) > 10
    done = pregao("info", capture, "--json")
    rejected = int(re.search(r"([\d,]+) rejected", output).group(1).replace(",", ""))
    assert json.loads(done.out)["messages"] == len(rows) + rejected


def test_they_are_ingested_and_the_books_are_right_after_them(pregao, day, capture, tmp_path):
    lake = tmp_path / "lake"
    # What a flow carries is usually seen by its templates, which these packets mix.
    named = [
        f"--stream={each.address}:{each.port}={stream.value}" for stream, each in LINES.items()
    ]
    done = pregao("ingest", capture, "--lake", lake, "--engine", "local", "--quiet", *named)
    assert done.code == 0, done.err
    done = pregao("lake", "check", "--lake", lake)
    assert done.code == 0, done.err
    for security_id in day.books:
        done = pregao("book", security_id, "--lake", lake, "--orders", "--json", "--depth", 10**6)
        assert done.code == 0, done.err
        book = json.loads(done.out)
        assert book["state"] in ("valid", "empty")
        found = tuple(
            tuple((price(each["price"]), each["size"], each["order_id"]) for each in book[side])
            for side in ("bid_orders", "ask_orders")
        )
        assert found == day.final(security_id)


def price(text):
    return None if text is None else int(Decimal(text) * 10_000)
