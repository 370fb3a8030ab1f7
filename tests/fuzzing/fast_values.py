"""Values of any FAST template, drawn from a seeded generator."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

from pregao.errors import EncodeError
from pregao.fast.codec import Encoder
from pregao.fast.model import (
    DecimalField,
    FastField,
    FastGroup,
    FastSequence,
    FieldType,
    Operator,
    Templates,
)

TEXTS = ("", "A", "PETR4", "BMFBR123456", "BMFBR789012", "20130812-12:00:00.123", "x" * 40)
EDGES = (0, 1, 63, 64, 127, 128, 8_192, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def values_of(rng: random.Random, parts: Any) -> dict[str, Any]:
    """Return values for the parts of a template, group or entry; None where they are absent."""
    return {part.name: value_of(rng, part) for part in parts}


def value_of(rng: random.Random, part: Any) -> Any:
    """Return something that a part can hold."""
    if part.optional and rng.random() < 0.5:
        return None
    if isinstance(part, FastGroup):
        return values_of(rng, part.parts)
    if isinstance(part, FastSequence):
        return [values_of(rng, part.parts) for _ in range(rng.choice((0, 1, 1, 2, 5)))]
    if isinstance(part, DecimalField):
        initial = part.exponent.initial
        constant = part.exponent.operator is Operator.CONSTANT
        exponent = int(initial) if constant else rng.choice((-2, -2, -8, 0, 3, -30))
        return Decimal(rng.choice((1, -1)) * edge(rng, 2**63 - 1)).scaleb(exponent)
    assert isinstance(part, FastField)
    if part.operation.operator is Operator.CONSTANT:
        found = part.operation.initial
        return found.decode() if part.kind is FieldType.UNICODE else found
    if part.kind.is_number:
        number = edge(rng, part.kind.maximum)
        return -number if part.kind.minimum < 0 and rng.random() < 0.3 else number
    text = rng.choice(TEXTS)
    return text.encode() if part.kind is FieldType.BYTES else text


def edge(rng: random.Random, limit: int) -> int:
    """Return a number of any size up to the largest allowed."""
    return min(limit, rng.choice((rng.randrange(3), rng.randrange(1_000), rng.choice(EDGES))))


def stream_of(
    rng: random.Random, templates: Templates, count: int, *, reset: bool
) -> list[tuple[int, bytes]]:
    """Encode messages of one stream; each with its sequence number, 0 where it has none."""
    encoder = Encoder(templates, reset_each_message=reset)
    chosen = rng.choices(sorted(templates.by_name), k=min(count, 3))
    found = []
    while len(found) < count:
        name = rng.choice(chosen)
        values = values_of(rng, templates.by_name[name].parts)
        try:
            found.append((values.get("MsgSeqNum") or 0, encoder.encode(name, values)))
        except EncodeError:
            # Numbers too far from each other for a difference: others are drawn.
            chosen = rng.choices(sorted(templates.by_name), k=3)
    return found
