"""Messages of the legacy feed, written for tests."""

from __future__ import annotations

from typing import Any

from pregao.fast import Encoder
from pregao.legacy import write_chunks
from pregao.schemas import bundled_templates

SENT = 20130812120000000
_ENCODER = Encoder(bundled_templates(), reset_each_message=True)


def message(template: str, number: int, **values: Any) -> bytes:
    return _ENCODER.encode(template, {"MsgSeqNum": number, "SendingTime": SENT, **values})


def datagram(template: str, number: int, **values: Any) -> bytes:
    return b"".join(write_chunks(number, message(template, number, **values), 1420))


def heartbeat(number: int) -> bytes:
    return datagram("Heartbeat_144", number)


def reset(new: int = 1, number: int = 1) -> bytes:
    return datagram("SequenceReset_122", number, NewSeqNo=new)


def news(number: int, headline: str = "") -> bytes:
    return datagram("News_143", number, Headline=headline or f"number {number}")


def incremental(number: int, *entries: dict[str, Any], template: int = 152) -> bytes:
    own = [{"MDEntryTime": 120000000, **entry} for entry in entries]
    return datagram(f"IncrementalRefresh_{template}", number, MDEntries=own)
