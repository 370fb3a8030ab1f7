"""The audit of statistics that have several variants, on captures made by hand."""

from datetime import date
from decimal import Decimal

import pytest
from deltalake import DeltaTable

from pregao.capture import PcapWriter, udp_frame
from pregao.clock import SECOND
from pregao.lake.books.build import build_books
from pregao.lake.ingest.pipeline import ingest
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, encode_packet
from pregao.umdf.templates import END_OF_EVENT, SETTLEMENT_PRICE
from tests.feed.channel_messages import order, sequence_reset, snapshot, snapshot_orders

BEGIN = 1_779_364_800 * SECOND
ONE, TWO = date(2026, 5, 20), date(2026, 5, 21)
CODEC = SchemaCodec(bundled("umdf", 17)).codec(SETTLEMENT_PRICE)


def settlement(rpt, price, settles, flag=None):
    return CODEC.encode(
        {
            "securityID": 1111, "matchEventIndicator": END_OF_EVENT, "tradeDate": TWO,
            "mDEntryPx": Decimal(price), "mDEntryTimestamp": 1, "openCloseSettlFlag": flag,
            "priceType": None, "settlPriceType": "FINAL", "rptSeq": rpt, "settlDate": settles,
        }
    )  # fmt: skip


def audited(folder, shown):
    """Result and detail of the audit of a snapshot that shows these settlement prices."""
    published = [settlement(2, 12, ONE), settlement(3, 13, TWO), settlement(4, 14, ONE, "DAILY")]
    header = snapshot(4, 4, bids=1, stats=len(shown))
    figures = [settlement(None, *each) for each in shown]
    streams = {
        "Incremental_A": [[order(1, 10)], *([each] for each in published)],
        "Snapshot": [[header, *figures, snapshot_orders(10)], [sequence_reset()]],
    }
    for port, (name, packets) in enumerate(streams.items(), 1):
        with PcapWriter(folder / f"007_{name}.pcap") as writer:
            for at, messages in enumerate(packets, 1):
                when = BEGIN + (10 * port + at) * SECOND
                payload = encode_packet(PacketHeader(7, 1, at, when), messages)
                writer.write(when, udp_frame("10.0.0.1", 9, "224.1.1.1", port, payload))
    lake = folder / "lake"
    ingest([str(path) for path in sorted(folder.glob("*.pcap"))], str(lake))
    build_books(str(lake))
    (row,) = DeltaTable(str(lake / "book_audit")).to_pyarrow_table().to_pylist()
    return row["result"], row["detail"]


@pytest.mark.parametrize(
    ("shown", "detail"),
    [
        ([(12, ONE), (13, TWO), (14, ONE, "DAILY")], None),
        (
            [(12, ONE), (12, TWO), (14, ONE, "DAILY")],
            "settlement_price_28 md_entry_px 13.0000 instead of 12.0000",
        ),
        (
            [(12, ONE), (13, TWO), (14, TWO, "DAILY")],
            "settlement_price_28 settl_date 2026-05-20 instead of 2026-05-21",
        ),
    ],
)
def test_000_13_11_3_settlement_prices_without_a_flag_are_compared_by_date(tmp_path, shown, detail):
    assert audited(tmp_path, shown) == ("equal" if detail is None else "different", detail)
