"""FAST messages with damage: kernel and codec accept the same ones and give the same values."""

from __future__ import annotations

import random
from pathlib import Path

from pregao.fast.codec import Decoder
from pregao.fast.columns import FastColumnDecoder
from pregao.fast.model import Templates
from pregao.fast.xml import load_templates
from pregao.schemas.fast_templates import bundled_templates
from tests.fast.support import compare_with_codec
from tests.fuzzing.damage import damaged
from tests.fuzzing.fast_values import stream_of

Streams = list[tuple[Templates, bool, list[bytes]]]


def prepare() -> Streams:
    """Encode streams of both template files, with and without previous values."""
    rng = random.Random(5)
    own = load_templates(Path(__file__).parents[1] / "fast" / "incremental.xml")
    return [
        (templates, reset, [body for _, body in stream_of(rng, templates, 8, reset=reset)])
        for templates in (own, own, bundled_templates())
        for reset in (True, False)
        for _ in range(25)
    ]


def run(rng: random.Random, prepared: Streams) -> bool:
    """Damage messages of a stream; return whether all of them were decoded nevertheless."""
    templates, reset, stream = rng.choice(prepared)
    share = rng.choice((0.1, 0.3, 1.0))
    cases = [harmed(rng, body) if rng.random() < share else body for body in stream]
    if rng.random() < 0.1:
        cases.append(rng.choice(stream)[:3] + rng.randbytes(rng.randrange(60)))
    columns = FastColumnDecoder(templates, reset_each_message=reset, reuse=rng.random() < 0.5)
    codec = Decoder(templates, reset_each_message=reset)
    # In two calls: the second one begins with what the first one left.
    middle = rng.randrange(len(cases) + 1)
    decoded = compare_with_codec(columns, codec, cases[:middle])
    return decoded + compare_with_codec(columns, codec, cases[middle:]) == len(cases)


def harmed(rng: random.Random, body: bytes) -> bytes:
    """Return a message with damage; often only its last bytes are gone, which others follow."""
    if rng.random() < 0.3:
        return body[: max(0, len(body) - rng.randrange(1, 4))]
    return damaged(rng, body)
