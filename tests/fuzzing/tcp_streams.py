"""TCP segments with damage: blocks of them give the streams that the plain reassembler gives."""

from __future__ import annotations

import io
import random
import re

import pytest

from pregao.capture import PcapWriter, read_packets, segments, tcp_frame, udp_frame
from pregao.errors import CaptureError
from tests.capture.test_capture_stream_columns import ENDS, in_bulk, plainly
from tests.fuzzing.damage import damaged

SYN, ACK = 2, 16
ENDINGS = (1, 4, 17)


def prepare() -> list[list[bytes]]:
    """Write the frames of some streams, cut into segments and mixed."""
    rng = random.Random(8)
    return [frames(rng) for _ in range(40)]


def frames(rng: random.Random) -> list[bytes]:
    """Return the frames of one to three streams, each in its order."""
    made = []
    for source in range(rng.randrange(1, 4)):
        own = []
        sequence = rng.choice((0, 77, 2**31 - 5, 2**32 - 40, 2**32 - 1))
        pieces = [(SYN, b"")] if rng.random() < 0.6 else []
        pieces += [(ACK, rng.randbytes(rng.randrange(90))) for _ in range(rng.randrange(2, 12))]
        pieces += [(rng.choice(ENDINGS), b"")] if rng.random() < 0.5 else []
        for flags, data in pieces:
            ends = (*ENDS[source], *ENDS[(source + 1) % 3])
            own.append(tcp_frame(*ends, data, sequence=sequence % 2**32, flags=flags))
            sequence += len(data) + (flags == SYN)
        made.append(own)
    mixed = []
    while any(made):
        chosen = rng.choice([own for own in made if own])
        mixed.append(chosen.pop(0))
        if rng.random() < 0.1:
            mixed.append(udp_frame(*ENDS[0], *ENDS[1], b"beside"))
    return mixed


def run(rng: random.Random, prepared: list[list[bytes]]) -> bool:
    """Damage frames or the file and read it both ways; return whether every frame was valid."""
    share = rng.choice((0.0, 0.1, 0.3, 1.0))
    out = io.BytesIO()
    writer = PcapWriter(out)
    for number, whole in enumerate(rng.choice(prepared)):
        frame = whole
        if rng.random() < share:
            # Also from the headers of IP on, so that more of them are taken for segments.
            low = rng.choice((0, 14, 34, 54))
            frame = whole[:low] + damaged(rng, whole[low:])
        for _ in range(rng.choice((1, 1, 1, 1, 0, 2))):
            writer.write(10 + number, frame)
    writer.flush()
    data = out.getvalue()
    if rng.random() < 0.2:
        data = damaged(rng, data, 24)
    try:
        expected = plainly(data)
    except CaptureError as error:
        with pytest.raises(CaptureError, match=re.escape(str(error))):
            in_bulk(data, 300)
        return False
    with read_packets(io.BytesIO(data)) as reader:
        plain = segments(reader)
        list(plain)
    for block_bytes in (rng.choice((64, 300)), 1 << 16):
        found, statistics = in_bulk(data, block_bytes)
        assert found == expected
        assert statistics == plain.statistics
    return not (statistics.malformed or statistics.cut)
