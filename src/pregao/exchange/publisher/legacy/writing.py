"""Encodes and numbers messages of the legacy feed, and splits them into datagrams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pregao.fast.codec import Encoder
from pregao.legacy.chunks import write_chunks
from pregao.legacy.recovery import MessageStore
from pregao.legacy.streams import PUMA
from pregao.legacy.times import timestamp_digits
from pregao.schemas.fast_templates import bundled_templates

INCREMENTAL = "IncrementalRefresh_152"
SNAPSHOT = "SnapshotFullRefresh_153"
SECURITY_LIST = "SecurityList_149"
SECURITY_STATUS = "SecurityStatus_142"
NEWS = "News_143"
HEARTBEAT = "Heartbeat_144"
SEQUENCE_RESET = "SequenceReset_122"


class LegacyMessageWriter:
    """Numbers the messages of one stream and returns their datagrams."""

    def __init__(
        self, first_number: int = 1, *, store: MessageStore | None = None, channel: str = ""
    ) -> None:
        """Create a writer; the ``store`` receives the channel's messages for TCP recovery."""
        self._store = store
        self._channel = channel
        self._encoder = Encoder(bundled_templates(), reset_each_message=True)
        self.next_number = first_number

    @property
    def last_number(self) -> int:
        """Number of the last message."""
        return self.next_number - 1

    def write(self, template: str, values: Mapping[str, Any], now_ns: int) -> list[bytes]:
        """Return the datagrams of the next message."""
        number = self.next_number
        sending_time: int | str = timestamp_digits(now_ns)
        if template == SECURITY_LIST:
            sending_time = str(sending_time)  # a string in this template
        message = self._encoder.encode(
            template, {**values, "MsgSeqNum": number, "SendingTime": sending_time}
        )
        self.next_number = number + 1
        if self._store is not None:
            self._store.add(self._channel, number, message)
        return write_chunks(number, message, PUMA.max_bytes)

    def heartbeat(self, now_ns: int) -> list[bytes]:
        """Return a heartbeat, which is numbered like any other message."""
        return self.write(HEARTBEAT, {}, now_ns)

    def reset(self, now_ns: int) -> list[bytes]:
        """Return a SequenceReset; the next message has number 1."""
        datagrams = self.write(SEQUENCE_RESET, {"NewSeqNo": 1}, now_ns)
        if self._store is not None:
            self._store.reset(self._channel)
        self.next_number = 1
        return datagrams
