"""The kernel that finds messages in a stream and its plain twin, on streams of any kind and cut."""

import struct

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pregao.capture import PADDING
from pregao.entrypoint.captured import _kernels
from tests.entrypoint.captured_talk import conversation

FRAMES = [data for _, data in conversation(3).frames]
MAX_LENGTH, HEADERS, FRAMING = 2048, 12, 4


def sound(data, at):
    """Whether the headers at an offset look like those of a message."""
    length, encoding, block, _, schema, _ = struct.unpack_from("<HHHHHH", data, at)
    return (
        encoding == 0xEB50 and HEADERS <= length <= MAX_LENGTH and schema == 1
        and block + HEADERS <= length
    )  # fmt: skip


def may_be(part):
    """Whether bytes that are shorter than the headers can be their beginning."""
    return b"\x50\xeb".startswith(part[2:4])


def begins(data, at, final):
    """True, False, or None if more bytes are needed to decide."""
    if len(data) - at < HEADERS:
        return None if not final and may_be(data[at:]) else False
    if not sound(data, at):
        return False
    following = at + struct.unpack_from("<H", data, at)[0]
    if following > len(data):
        return False if final else None
    if len(data) - following >= HEADERS:
        return sound(data, following)
    if not may_be(data[following:]):
        return False
    return True if final else None


class PlainWalk:
    """The messages and stretches of a stream, byte after byte."""

    def __init__(self, synced):
        self.synced, self.recognised = synced, False
        self.rest = b""
        self.found = []

    def take(self, more, *, final=False):
        data, at = self.rest + more, 0
        while at < len(data):
            if self.synced:
                if len(data) - at < (FRAMING if self.recognised else HEADERS):
                    break
                length, encoding = struct.unpack_from("<HH", data, at)
                good = encoding == 0xEB50 and HEADERS <= length <= MAX_LENGTH
                if not good or not (self.recognised or sound(data, at)):
                    self.synced = False
                    continue
                if at + length > len(data):
                    break
                self.found.append(("message", data[at : at + length]))
                self.recognised = True
                at += length
            else:
                verdict = begins(data, at, final)
                if verdict is None:
                    break
                if verdict:
                    self.synced = True
                else:
                    self.skip(data[at : at + 1])
                    at += 1
        if final:
            self.skip(data[at:])
            at = len(data)
        self.rest = data[at:]

    def skip(self, part):
        if part and self.found and self.found[-1][0] == "stretch":
            part = self.found.pop()[1] + part
        if part:
            self.found.append(("stretch", part))


class BulkWalk:
    """Result of the kernel."""

    def __init__(self, synced):
        self.synced, self.recognised = synced, False
        self.rest = b""
        self.found = []

    def take(self, more, *, final=False):
        data = self.rest + more
        buffer = np.frombuffer(data + bytes(PADDING), np.uint8)
        capacity = 2 * (len(data) // HEADERS) + 8
        offset, length = np.empty(capacity, np.int64), np.empty(capacity, np.int32)
        count, at, self.synced, self.recognised = _kernels.walk_stream(
            buffer, 0, len(data), self.synced, self.recognised, final, offset, length
        )
        for start, size in zip(offset[:count].tolist(), length[:count].tolist(), strict=True):
            part = data[start : start + size]
            whole = size >= FRAMING and struct.unpack_from("<HH", part) == (size, 0xEB50)
            if whole and size >= HEADERS:
                self.found.append(("message", part))
            else:
                PlainWalk.skip(self, part)
        self.rest = data[at:]


PARTS = st.one_of(
    st.sampled_from(FRAMES),
    st.sampled_from(FRAMES),
    st.binary(max_size=30),
    st.builds(lambda frame, at: frame[at:], st.sampled_from(FRAMES), st.integers(1, 60)),
    st.builds(lambda frame, at: frame[:at], st.sampled_from(FRAMES), st.integers(1, 60)),
    st.sampled_from(
        [b"\x50\xeb", b"\x20\x00\x50\xeb", b"\x0c\x00\x50\xeb\x00\x00\x09\x00\x01\x00"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(PARTS, max_size=8), st.lists(st.integers(1, 90), max_size=12), st.booleans())
@example([FRAMES[0], b"x", FRAMES[1]], [5], True)
def test_kernel_and_plain_code_find_the_same(parts, cuts, synced):
    data = b"".join(parts)
    plain, bulk = PlainWalk(synced), BulkWalk(synced)
    at = 0
    for size in [*cuts, len(data)]:
        for walk in (plain, bulk):
            walk.take(data[at : at + size])
        assert bulk.rest == plain.rest
        at += size
    for walk in (plain, bulk):
        walk.take(b"", final=True)
    assert bulk.found == plain.found
    assert b"".join(part for _, part in bulk.found) == data


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=3000))
def test_no_bytes_are_lost_or_read_twice(data):
    walk = BulkWalk(False)
    walk.take(data)
    walk.take(b"", final=True)
    assert b"".join(part for _, part in walk.found) == data
