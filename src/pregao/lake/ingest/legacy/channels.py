"""Which channel a flow of the legacy feed belongs to: its messages do not say.

Whoever has captures knows it from the exchange's list of channels, and names their flows in the
environment: ``PREGAO_LEGACY_CHANNELS="233.1.1.1:5001=51,233.1.1.2:6001=51"``. A guess would be
worse than a question: flows that are taken for one channel lose what has the same number. Only the
addresses that `pregao simulate` sends to are known. A raw dump is named by its file.
"""

from __future__ import annotations

import os
from functools import cache, lru_cache

from pregao.errors import UsageError

VARIABLE = "PREGAO_LEGACY_CHANNELS"
UNKNOWN = -1
_DUMPED = "0.0.0."
"""No datagram is sent there."""
_MOST = 255


def known_channel(flow: str) -> int:
    """The channel of a flow, given as address and port; UNKNOWN if nobody said it."""
    named = _named(os.environ.get(VARIABLE, ""))
    if flow in named:
        return named[flow]
    if flow.startswith(_DUMPED):
        return int(flow.rpartition(":")[2])
    return _simulated().get(flow, UNKNOWN)


def dump_flow(channel: int, stream: int) -> tuple[str, int]:
    """The address and port that stand for a raw dump of a channel, which has none.

    ``stream`` tells the dumps of a channel apart: 0 to 3.
    """
    return f"{_DUMPED}{stream}", channel


def channel_of(flow: str) -> int:
    """The channel of a flow that carries the legacy feed; one that nobody named is an error."""
    channel = known_channel(flow)
    if channel == UNKNOWN:
        raise UsageError(
            f"{flow} carries the legacy feed (UMDF FIX/FAST), whose messages do not name their "
            f"channel. Name the channel of each of its flows: {VARIABLE}='{flow}=51', more of "
            "them with commas; the flows of feeds A and B get the same number."
        )
    return channel


@cache
def _simulated() -> dict[str, int]:
    """The flows of the legacy feed that the simulated exchange sends."""
    from pregao.exchange.publisher import Channel

    channels = (Channel.numbered(number, legacy=True) for number in range(_MOST + 1))
    return {
        str(endpoint): channel.number
        for channel in channels
        for endpoint in (
            channel.incremental_a, channel.incremental_b, channel.snapshot, channel.definition,
        )
    }  # fmt: skip


@lru_cache(8)
def _named(text: str) -> dict[str, int]:
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        flow, _, number = part.rpartition("=")
        if not flow or not number.isdigit() or int(number) > _MOST:
            raise UsageError(
                f"{VARIABLE} takes ADDRESS:PORT=CHANNEL, such as 233.1.1.1:5001=51, and channels "
                f"from 0 to {_MOST}; not {part!r}."
            )
        found[flow] = int(number)
    return found
