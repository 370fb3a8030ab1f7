"""Messages of the legacy feed, written for tests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from pregao.fast.codec import Encoder
from pregao.legacy.reassembly import write_chunks
from pregao.schemas.fast_templates import bundled_templates

SENT = 20130812120000000
_ENCODER = Encoder(bundled_templates(), reset_each_message=True)


def message(template: str, number: int, **values: Any) -> bytes:
    return _ENCODER.encode(template, {"MsgSeqNum": number, "SendingTime": SENT, **values})


def datagram(template: str, number: int, **values: Any) -> bytes:
    return b"".join(write_chunks(number, message(template, number, **values), 1420))


def heartbeat(number: int, **values: Any) -> bytes:
    return datagram("Heartbeat_144", number, **values)


def reset(new: int = 1, number: int = 1, **values: Any) -> bytes:
    return datagram("SequenceReset_122", number, NewSeqNo=new, **values)


def news(number: int, headline: str = "", **values: Any) -> bytes:
    return datagram("News_143", number, Headline=headline or f"number {number}", **values)


def incremental(number: int, *entries: dict[str, Any], template: int = 152) -> bytes:
    own = [{"MDEntryTime": 120000000, **entry} for entry in entries]
    return datagram(f"IncrementalRefresh_{template}", number, MDEntries=own)


def entry(kind, action, security=1111, rpt=0, *, position=None, size=None, price=None, **more):
    """An entry of an incremental message; a price is a text."""
    return {
        "MDEntryType": kind,
        "MDUpdateAction": action,
        "SecurityID": security,
        "RptSeq": rpt,
        "MDEntryPositionNo": position,
        "MDEntrySize": size,
        "MDEntryPx": None if price is None else Decimal(price),
        **more,
    }


def snapshot(number, last, rpt, *rows, security=1111, reports=1, depth=None, template=153):
    """A message of the market recovery stream; rows are (type, size, price, more)."""
    positions: dict[str, int] = {}
    entries = []
    for kind, size, price, *more in rows:
        own = dict(more[0]) if more else {}
        if kind in "01":
            positions[kind] = positions.get(kind, 0) + 1
            own["MDEntryPositionNo"] = positions[kind]
        own |= {"MDEntryType": kind, "MDEntrySize": size}
        own["MDEntryPx"] = None if price is None else Decimal(price)
        entries.append(own)
    return datagrams(
        f"SnapshotFullRefresh_{template}", number, LastMsgSeqNumProcessed=last, RptSeq=rpt,
        SecurityID=security, TotNumReports=reports, MarketDepth=depth, MDEntries=entries,
    )  # fmt: skip


def datagrams(template: str, number: int, max_bytes: int = 1420, **values: Any) -> list[bytes]:
    return write_chunks(number, message(template, number, **values), max_bytes)
