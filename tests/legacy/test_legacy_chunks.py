"""The technical header and messages in chunks (002 §5.3.3)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import DecodeError, EncodeError
from pregao.legacy.reassembly import (
    HEADER_SIZE,
    AssembledMessage,
    Assembler,
    Chunk,
    read_chunks,
    write_chunks,
)

SECOND = 1_000_000_000


def chunks_of(number, message, max_bytes):
    return [
        chunk for each in write_chunks(number, message, max_bytes) for chunk in read_chunks(each)
    ]


def test_002_5_3_3_the_technical_header_is_big_endian():
    (datagram,) = write_chunks(0x01020304, b"abc")
    assert datagram == bytes.fromhex("01020304 0001 0001 0003") + b"abc"
    assert list(read_chunks(datagram)) == [Chunk(0x01020304, 1, 1, b"abc")]


def test_002_5_3_3_a_datagram_holds_several_messages():
    datagram = b"".join(write_chunks(7, b"seven") + write_chunks(8, b"eight"))
    assert [chunk.number for chunk in read_chunks(datagram)] == [7, 8]


def test_002_5_3_3_datagrams_have_at_most_1400_bytes():
    assert {len(each) for each in write_chunks(1, bytes(1390 * 3))} == {1400}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.binary(min_size=1, max_size=80), min_size=1, max_size=6),
    st.integers(HEADER_SIZE + 1, 40),
    st.randoms(use_true_random=False),
    st.floats(0, 0.4),
)
def test_messages_come_together_in_any_order_and_across_loss(messages, max_bytes, rng, loss):
    sent = [chunks_of(number, each, max_bytes) for number, each in enumerate(messages)]
    arriving = [chunk for chunks in sent for chunk in chunks]
    rng.shuffle(arriving)
    lost = {index for index in range(len(arriving)) if rng.random() < loss}
    broken = {arriving[index].number for index in lost}
    assembler = Assembler()
    found = {}
    for index, chunk in enumerate(arriving):
        if index not in lost:
            message = assembler.add(chunk, 0)
            if message is not None:
                found[message.number] = message.payload
    assert found == {n: each for n, each in enumerate(messages) if n not in broken}
    begun = {c.number for i, c in enumerate(arriving) if i not in lost} & broken
    assert assembler.waiting == len(begun)
    assembler.reset()
    assert (assembler.waiting, assembler.abandoned) == (0, len(begun))


def test_a_chunk_that_comes_twice_is_counted():
    first, second = chunks_of(5, b"abcd", HEADER_SIZE + 2)
    assembler = Assembler()
    assert assembler.add(first, 0) is None
    assert assembler.add(first, 0) is None
    assert assembler.add(second, 0) == AssembledMessage(5, b"abcd")
    assert assembler.repeated == 1


@pytest.mark.parametrize("other", [Chunk(5, 3, 2, b"xx"), Chunk(5, 2, 1, b"xx")])
def test_chunks_that_disagree_restart_the_message(other):
    assembler = Assembler()
    assembler.add(Chunk(5, 2, 1, b"ab"), 0)
    assert assembler.add(other, 0) is None
    assert (assembler.contradicting, assembler.abandoned, assembler.waiting) == (1, 1, 1)


def test_a_complete_message_replaces_a_waiting_one():
    assembler = Assembler()
    assembler.add(Chunk(5, 2, 1, b"ab"), 0)
    assert assembler.add(Chunk(5, 1, 1, b"new"), 0) == AssembledMessage(5, b"new")
    assert (assembler.abandoned, assembler.waiting) == (1, 0)


def test_chunks_of_different_loops_are_not_combined():
    assembler = Assembler()
    assembler.add(Chunk(5, 2, 1, b"ab"), 0)
    assert assembler.add(Chunk(5, 2, 2, b"cd"), 2 * SECOND) is None
    assert (assembler.abandoned, assembler.waiting) == (1, 1)


def test_what_waits_is_bounded():
    assembler = Assembler(max_pending=3, max_bytes=100)
    for number in range(10):
        assembler.add(Chunk(number, 2, 1, b"ab"), 0)
    assert (assembler.waiting, assembler.abandoned) == (3, 7)
    assembler.add(Chunk(20, 2, 1, bytes(99)), 0)
    assert assembler.waiting == 1
    assembler.add(Chunk(21, 2, 1, bytes(200)), 0)
    assert assembler.waiting == 0


@pytest.mark.parametrize(
    ("datagram", "reason", "position"),
    [
        ("", "empty", 0),
        ("00000001 0001 0001", "too short", 0),
        ("00000001 0001 0002 0001 61", "index out of range", 0),
        ("00000001 0001 0000 0001 61", "index out of range", 0),
        ("00000001 0000 0000 0001 61", "index out of range", 0),
        ("00000001 0001 0001 0000", "without bytes", 0),
        ("00000001 0001 0001 0002 61", "past the end", 0),
        ("00000001 0001 0001 0001 61 00", "too short", 11),
    ],
)
def test_broken_datagrams_are_reported_with_location_and_reason(datagram, reason, position):
    with pytest.raises(DecodeError, match=reason) as error_info:
        list(read_chunks(bytes.fromhex(datagram)))
    assert error_info.value.position == position


def test_intact_parts_of_a_broken_datagram_are_returned():
    chunks = read_chunks(write_chunks(7, b"seven")[0] + b"\0")
    assert next(chunks).number == 7
    with pytest.raises(DecodeError):
        next(chunks)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_any_datagram_gives_chunks_or_a_decode_error(datagram):
    total = 0
    try:
        for chunk in read_chunks(datagram):
            total += HEADER_SIZE + len(chunk.payload)
    except DecodeError:
        assert total <= len(datagram)
    else:
        assert total == len(datagram)


@pytest.mark.parametrize(
    ("number", "message", "max_bytes"), [(-1, b"a", 1400), (1 << 32, b"a", 1400), (1, b"", 1400),
                                    (1, b"a", HEADER_SIZE), (1, bytes(70_000), HEADER_SIZE + 1)],
)  # fmt: skip
def test_messages_that_cannot_be_sent(number, message, max_bytes):
    with pytest.raises(EncodeError):
        write_chunks(number, message, max_bytes)
