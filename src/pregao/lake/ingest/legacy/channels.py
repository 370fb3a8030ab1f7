"""Which channel a flow of the legacy feed belongs to: its messages do not say.

Flows whose ports differ in their last digit only are the streams and feeds of one channel, as in
the captures that `pregao simulate` writes. Others are named in the environment:
``PREGAO_LEGACY_CHANNELS="233.1.1.1:5001=51,233.1.1.2:6001=51"``.
"""

from __future__ import annotations

import os
from functools import lru_cache

from pregao.errors import UsageError

VARIABLE = "PREGAO_LEGACY_CHANNELS"
_CHANNELS = 250


def channel_of(flow: str) -> int:
    """The channel of a flow, given as address and port."""
    named = _named(os.environ.get(VARIABLE, ""))
    if flow in named:
        return named[flow]
    _, _, port = flow.rpartition(":")
    return int(port) // 10 % _CHANNELS if port.isdigit() else 0


@lru_cache(8)
def _named(text: str) -> dict[str, int]:
    found = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        flow, _, number = part.rpartition("=")
        if not flow or not number.isdigit() or int(number) > 255:
            raise UsageError(
                f"{VARIABLE} takes ADDRESS:PORT=CHANNEL, such as 233.1.1.1:5001=51, and channels "
                f"from 0 to 255; not {part!r}."
            )
        found[flow] = int(number)
    return found
