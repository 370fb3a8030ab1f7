"""Bytes with damage: changed, inserted, removed, repeated or cut off."""

from __future__ import annotations

import random

_NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, (1 << 63) - 1, 1 << 63)


def damaged(rng: random.Random, content: bytes, low: int = 0, high: int | None = None) -> bytes:
    """Return content with one to six kinds of damage between two positions."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        end = len(made) - (len(content) - (len(content) if high is None else high))
        at = rng.randrange(low, max(low + 1, end))
        kind = rng.randrange(7)
        if kind == 0:
            made[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            made[at : at + 1] = bytes([(made[at] if at < len(made) else 0) ^ 1 << rng.randrange(8)])
        elif kind == 2:
            made[at:at] = rng.randbytes(rng.randrange(1, 12))
        elif kind == 3:
            del made[at : at + rng.randrange(1, 12)]
        elif kind == 4:
            size = rng.choice((1, 2, 4, 8))
            number = rng.choice(_NUMBERS) + rng.randrange(-2, 3)
            made[at : at + size] = (number % (1 << 8 * size)).to_bytes(
                size, rng.choice(("little", "big"))
            )
        elif kind == 5:
            made[at:at] = made[at : at + rng.randrange(1, 40)]
        else:
            # A long number, as Thrift and FAST write it.
            made[at : at + rng.randrange(2)] = bytes(
                [rng.randrange(256) | 128 for _ in range(rng.randrange(1, 10))]
                + [rng.randrange(128)]
            )
    if rng.random() < 0.05:
        del made[rng.randrange(max(1, len(made))) :]
    return bytes(made)
