"""Packets with impossible sending times are rejected, and the days of an ingest are limited."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pregao.capture import PcapWriter, udp_frame
from pregao.clock import DAY, SECOND
from pregao.errors import UsageError
from pregao.lake.ingest import options
from pregao.lake.ingest.growing_file import FAR_REASON, sent_far_from_capture
from pregao.lake.ingest.pipeline import ingest
from pregao.lake.ingest.verify import check_lake
from pregao.lake.storage.lake_store import LakeStore
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, encode_packet
from tests.lake.days import rows

NOON = 1_779_375_600_000_000_000
ORDER = SchemaCodec(bundled("umdf", 16)).codec(50).packer(
    "securityID", "mDUpdateAction", "mDEntryType", "mDEntryPx", "mDEntrySize", "secondaryOrderID",
)  # fmt: skip
TABLE = "umdf_order_mbo_50"


def capture(path: Path, times: list[tuple[int, int]], channel: int = 72) -> str:
    """Write a capture of packets, by their times of capture and of sending."""
    with PcapWriter(path) as writer:
        for number, (captured, sent) in enumerate(times, 1):
            body = encode_packet(
                PacketHeader(channel, 1, number, sent), [ORDER(5, 0, ord("0"), 1, 7, number)]
            )
            writer.write(captured, udp_frame("10.0.0.1", 1, "233.1.1.1", 5000, body))
    return str(path)


def test_a_packet_sent_a_day_from_its_capture_is_rejected(tmp_path: Path) -> None:
    shifts = [0, DAY, -DAY, DAY + 1, -DAY - 1, 3600 * SECOND, 400 * 365 * DAY // 2, 1 - NOON]
    times = [(NOON + at, NOON + at + shift) for at, shift in enumerate(shifts)]
    lake = str(tmp_path / "lake")
    report = ingest([capture(tmp_path / "a.pcap", times)], lake)
    content = report.json()
    assert report.committed
    assert content["packets"]["rejected"] == 4
    assert content["messages"]["decoded"] == 4
    assert content["rejects_by_reason"] == {FAR_REASON: 4}
    assert sorted(row["sequence_number"] for row in rows(lake, TABLE)) == [1, 2, 3, 6]
    rejects = rows(lake, "rejects")
    assert {row["reason"] for row in rejects} == {FAR_REASON}
    assert {str(row["date"]) for row in rejects} == {"2026-05-21"}
    assert all(len(row["bytes"]) > 16 for row in rejects)
    outcomes = {row["position"]: row["outcome"] for row in rows(lake, "packets")}
    assert sorted(outcomes.values()) == ["decoded"] * 4 + ["rejected"] * 4
    assert check_lake(LakeStore(lake)).faults == []


def test_captures_without_times_are_ingested_by_their_sending_times(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    report = ingest([capture(tmp_path / "a.pcap", [(at, NOON + at) for at in range(9)])], lake)
    assert report.json()["messages"]["decoded"] == 9


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1)), max_size=9))
def test_sending_times_far_from_the_capture_are_found(times: list[tuple[int, int]]) -> None:
    sent, came = (np.array([each[at] for each in times], np.int64) for at in (0, 1))
    expected = [one > 0 and two >= DAY and abs(one - two) > DAY for one, two in times]
    assert sent_far_from_capture(sent, came).tolist() == expected


@pytest.mark.parametrize("days", [3, 4])
def test_an_ingest_has_a_maximum_number_of_days(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    monkeypatch.setattr(options, "MAX_DAYS", 3)
    times = [(NOON + day * DAY, NOON + day * DAY) for day in range(days)]
    source, lake = capture(tmp_path / "a.pcap", times), str(tmp_path / "lake")
    if days == 3:
        assert ingest([source], lake).committed
        return
    with pytest.raises(UsageError, match=r"of more than 3 days, from 2026-05-21, 2026-05-22, "):
        ingest([source], lake)
    assert not LakeStore(lake).exists() or rows(lake, TABLE) == []


def test_the_limits_are_a_year_and_all_channels_of_the_exchange(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    options.check_days(range(400))
    options.check_channels(range(1_000))
    with pytest.raises(UsageError, match=r"400 days, from 1970-01-01, .* to .*, 1971-02-05;"):
        options.check_days(range(401))
    with pytest.raises(UsageError, match=r"1,000 channels, from 0, 1, 2 to 998, 999, 1000;"):
        options.check_channels(range(1_001))
    monkeypatch.setattr(options, "MAX_CHANNELS", 1)
    sources = [
        capture(tmp_path / f"{channel}.pcap", [(NOON, NOON)], channel) for channel in (72, 73)
    ]
    with pytest.raises(UsageError, match=r"more than 1 channels, from 72, 73 to 72, 73; select"):
        ingest(sources, str(tmp_path / "lake"))
