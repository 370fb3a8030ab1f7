"""The channel of a flow of the legacy feed, whose messages do not name it.

Users take it from the exchange's list of channels and set it in the environment:
``PREGAO_LEGACY_CHANNELS="233.1.1.1:5001=51,233.1.1.2:6001=51"``. It is not guessed: if flows of two
channels were merged into one, packets with equal numbers would be lost as duplicates. Only the
addresses that `pregao simulate` sends to are built in. A raw dump has its channel in the file name.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache

from pregao.errors import UsageError

VARIABLE = "PREGAO_LEGACY_CHANNELS"
UNKNOWN = -1
_DUMPED = "0.0.0."
"""Prefix of addresses that stand for raw dumps: no datagram is sent to them."""
_MAX_CHANNELS = 255


def known_channel(flow: str) -> int:
    """Return the channel of a flow, given as ADDRESS:PORT; UNKNOWN if it is not configured."""
    configured = _named(os.environ.get(VARIABLE, ""))
    if flow in configured:
        return configured[flow]
    if flow.startswith(_DUMPED):
        return int(flow.rpartition(":")[2])
    return _simulated().get(flow, UNKNOWN)


def dump_flow(channel: int, stream: int) -> tuple[str, int]:
    """Return the placeholder address and port of a raw dump of a channel.

    ``stream`` distinguishes the dumps of a channel: 0 to 3.
    """
    return f"{_DUMPED}{stream}", channel


def channel_of(flow: str) -> int:
    """Return the channel of a legacy flow; raise UsageError if it is not configured."""
    channel = known_channel(flow)
    if channel == UNKNOWN:
        raise UsageError(
            f"{flow} carries the legacy feed (UMDF FIX/FAST), whose messages do not name their "
            f"channel. Set the channel of each flow: {VARIABLE}='{flow}=51', separated by commas; "
            "the flows of feeds A and B have the same channel."
        )
    return channel


@cache
def _simulated() -> dict[str, int]:
    """Return the channels of the simulated exchange's legacy flows."""
    from pregao.exchange.publisher.channels import ChannelEndpoints

    channels = (
        ChannelEndpoints.numbered(number, legacy=True) for number in range(_MAX_CHANNELS + 1)
    )
    return {
        str(endpoint): channel.number
        for channel in channels
        for endpoint in (
            channel.incremental_a, channel.incremental_b, channel.snapshot, channel.definition,
        )
    }  # fmt: skip


@lru_cache(8)
def _named(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        flow, _, number = part.rpartition("=")
        digits = number.isascii() and number.isdigit() and len(number) <= len(str(_MAX_CHANNELS))
        if not flow or not digits or int(number) > _MAX_CHANNELS:
            raise UsageError(
                f"{VARIABLE} must be ADDRESS:PORT=CHANNEL, such as 233.1.1.1:5001=51, with a "
                f"channel from 0 to {_MAX_CHANNELS}; was {part!r}."
            )
        if found.setdefault(flow, int(number)) != int(number):
            raise UsageError(
                f"{VARIABLE} names two channels of {flow}, {found[flow]} and {int(number)}; the "
                "messages of a flow do not name their channel, so that it can have only one."
            )
    return found
