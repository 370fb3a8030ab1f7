"""Kernels and codec agree on every template and version of every bundled schema, nulls included.

Random bytes are tried 10,000 times for each template of the newest versions, 1,000 times for those
of older ones, and plausible messages a third as often; PREGAO_FUZZ_CASES raises all cases.
"""

import os
import random
from datetime import date

import pytest

from pregao.errors import DecodeError
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.value_specs import readings
from pregao.schemas.bundle import bundled, bundled_versions
from tests.sbe.support import compare_with_codec, plausible_body

CASES = int(os.environ.get("PREGAO_FUZZ_CASES", "60"))
VERSIONS = [
    (protocol, known.number)
    for protocol in ("umdf", "entrypoint")
    for known in bundled_versions(protocol)
]
NEWEST = dict(VERSIONS)
"""The last version of each protocol: most templates have not changed since older ones."""


def cases_of(protocol, version):
    """Return the number of cases per template; older versions have a third of them."""
    return CASES if version == NEWEST[protocol] else CASES // 3


@pytest.mark.parametrize(("protocol", "version"), VERSIONS)
def test_kernels_and_codec_agree(protocol, version):
    schema = bundled(protocol, version)
    rng = random.Random(f"{protocol} {version}")
    cases = cases_of(protocol, version)
    for message in schema.messages:
        calm = [plausible_body(rng, message, wild=0) for _ in range(cases)]
        wild = [plausible_body(rng, message, wild=0.05) for _ in range(cases // 3)]
        cut = [body[: rng.randrange(len(body) + 1)] for body in calm[: cases // 3]]
        long = [body + rng.randbytes(rng.randrange(9)) for body in calm[: cases // 3]]
        noise = [rng.randbytes(rng.randrange(400)) for _ in range(cases // 3)]
        decoded = compare_with_codec(schema, message, version, calm + wild + cut + long + noise)
        assert decoded >= cases // 3, message.name


@pytest.mark.parametrize(("protocol", "version"), VERSIONS)
def test_blocks_of_other_senders_are_read_the_same(protocol, version):
    """Shorter and longer blocks, and older versions, message by message in one batch."""
    schema = bundled(protocol, version)
    rng = random.Random(f"short {protocol} {version}")
    for message in schema.messages:
        bodies, lengths = [], []
        for _ in range(cases_of(protocol, version) // 3):
            body = plausible_body(rng, message, wild=0)
            length = rng.randrange(message.block_length + 12)
            rest = body[message.block_length :]
            block = body[: message.block_length][:length].ljust(length, b"\x7f")
            bodies.append(block + rest)
            lengths.append(length)
        compare_with_codec(schema, message, version, bodies, lengths)
        compare_with_codec(schema, message, max(0, version - 3), bodies, lengths)


@pytest.mark.parametrize(("protocol", "version"), VERSIONS)
def test_any_bytes_decode_or_raise_decode_error(protocol, version):
    """Random bytes, every prefix of a valid message, every number of its header at extremes."""
    schema = bundled(protocol, version)
    codec = SchemaCodec(schema)
    rng = random.Random(f"any {protocol} {version}")
    many = max(CASES, 10_000 if version == NEWEST[protocol] else 1_000)
    for message in schema.messages:
        header = MessageCodec(schema, message).header
        sound = header + plausible_body(rng, message, wild=0)
        cases = [sound[:length] for length in range(len(sound) + 1)]
        for offset in range(0, 8, 2):
            for number in (0, 1, 0x7FFF, 0x8000, 0xFFFF):
                changed = bytearray(sound)
                changed[offset : offset + 2] = number.to_bytes(2, "little")
                cases.append(bytes(changed))
        cases += [header + rng.randbytes(rng.randrange(500)) for _ in range(many)]
        for case in cases:
            try:
                decoded = codec.decode(case)
            except DecodeError:
                continue
            assert decoded.end <= len(case)


def extremes(leaf):
    """The bytes of a number or text: 0, 1, the null, the lowest, the largest, all bits, and -2."""
    size = leaf.size
    found = [0, 1, 1 << (8 * size - 1), (1 << (8 * size - 1)) - 1, (1 << 8 * size) - 1]
    numbers = [*found, (1 << 8 * size) - 2]
    if isinstance(leaf.null, int):
        numbers.append(leaf.null % (1 << 8 * size))
    return {number.to_bytes(size, "little") for number in numbers}


@pytest.mark.parametrize(("protocol", "version"), NEWEST.items())
def test_every_field_at_its_extremes_is_read_the_same(protocol, version):
    """Each field of each message alone, the others 0, and all at once; in entries of groups too."""
    schema = bundled(protocol, version)
    for message in schema.messages:
        entries = [
            bytes([*group.block_length.to_bytes(2, "little"), 0]) for group in message.groups
        ]
        data = bytes(sum(each.header_size for each in message.data))
        rest = b"".join(entries) + data
        bodies = [bytes([byte]) * message.block_length + rest for byte in (0, 1, 0x7F, 0x80, 0xFF)]
        for leaf in (leaf for reading in readings(message) for leaf in reading.leaves):
            for pattern in extremes(leaf):
                block = bytearray(message.block_length)
                block[leaf.offset : leaf.offset + leaf.size] = pattern
                bodies.append(bytes(block) + rest)
        for at, group in enumerate(message.groups):
            for leaf in (leaf for reading in readings(group) for leaf in reading.leaves):
                for pattern in extremes(leaf):
                    entry = bytearray(group.block_length)
                    entry[leaf.offset : leaf.offset + leaf.size] = pattern
                    one = entries[at][:2] + b"\1" + entry
                    groups = b"".join([*entries[:at], one, *entries[at + 1 :]])
                    bodies.append(bytes(message.block_length) + groups + data)
        decoded = compare_with_codec(schema, message, version, bodies)
        assert decoded > 0.7 * len(bodies), message.name


def test_settlement_dates_and_flags_at_their_extremes():
    """001: the null of both is that of their primitive type, and 0 is a value."""
    schema = bundled("umdf", 17)
    codec = SchemaCodec(schema)
    message = schema.by_name["SettlementPrice_28"]
    cases = {
        (0, 0): (date(1970, 1, 1), "DAILY"),
        (1, 4): (date(1970, 1, 2), "ENTRY_FROM_PREVIOUS_BUSINESS_DAY"),
        (20594, 254): (date(2026, 5, 21), 254),
        (32768, 2): (date(2059, 9, 19), 2),
        (65534, 5): (date(2149, 6, 5), "THEORETICAL_PRICE"),
        (65535, 255): (None, None),
    }
    for (day, flag), (settl_date, name) in cases.items():
        block = bytearray(40)
        block[28] = flag
        block[35:37] = day.to_bytes(2, "little")
        decoded = codec.decode(MessageCodec(schema, message).header + bytes(block))
        assert (decoded["settlDate"], decoded["openCloseSettlFlag"]) == (settl_date, name)
        assert compare_with_codec(schema, message, 17, [bytes(block)]) == 1
        again = MessageCodec(schema, message).encode({**decoded.values})
        assert again[8:] == bytes(block)
