"""Draw an order book with block characters, for terminals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pregao.api.ladders import Level

_BLOCKS = " ▏▎▍▌▋▊▉█"
_WIDTH = 48
_DEPTH = 8


def drawing(
    bids: Sequence[Level], asks: Sequence[Level], depth: int = _DEPTH
) -> Iterator[tuple[str, str]]:
    """Yield (line, color): asks above, bids below, with a bar for the quantity of each level."""
    above, below = list(asks[:depth]), list(bids[:depth])
    largest = max((level.size for level in (*above, *below)), default=1)
    for level in reversed(above):
        yield _line(level, largest), "red"
    for level in below:
        yield _line(level, largest), "green"


def _line(level: Level, largest: int) -> str:
    eighths = max(1, round(level.size / largest * _WIDTH * 8))
    bar = "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()
    price = "market" if level.price is None else f"{level.price:,.4f}"
    return f"{price:>14} {bar:<{_WIDTH}} {level.size:>10,}"
