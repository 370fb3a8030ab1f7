"""Blocks of segments give the streams that the plain reassembler gives, however they come."""

import io

from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import (
    PcapWriter,
    StreamColumns,
    StreamData,
    StreamEnd,
    StreamGap,
    read_blocks,
    read_packets,
    segments,
    streams,
    tcp_frame,
    udp_frame,
)
from pregao.capture.tcp_columns import BEGUN, BYTES, ENDED, GAP, JOINED

ENDS = (("10.0.0.1", 1000), ("10.0.0.2", 2000), ("10.0.0.3", 3000))


@st.composite
def captures(draw):
    """Segments of a few streams: cut, repeated, overlapping, mixed up, missing, restarted."""
    made = []
    for source in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 2))):
            size = draw(st.integers(1, 90))
            stream = bytes((source * 31 + k * 7) % 251 for k in range(size))
            first = draw(st.sampled_from([0, 77, 2**31 - 5, 2**32 - 40, 2**32 - 1]))
            own = []
            if draw(st.booleans()):
                own.append((source, first - 1, 2, b""))
            at = 0
            while at < size:
                step = draw(st.integers(1, 40))
                own.append((source, first + at, 16, stream[at : at + step]))
                at += step
            for _ in range(draw(st.integers(0, 3))):
                own.insert(draw(st.integers(0, len(own))), draw(st.sampled_from(own)))
            if draw(st.booleans()) and len(own) > 2:
                del own[draw(st.integers(1, len(own) - 1))]
            if draw(st.booleans()):
                index = draw(st.integers(0, len(own) - 1))
                own[index : index + 3] = draw(st.permutations(own[index : index + 3]))
            if draw(st.booleans()):
                own.append((source, first + size, draw(st.sampled_from([1, 4, 17])), b""))
            made.append(own)
    mixed = []
    while any(made):
        chosen = draw(st.sampled_from([own for own in made if own]))
        mixed.append(chosen.pop(0))
    return mixed


def written(mixed):
    out = io.BytesIO()
    writer = PcapWriter(out)
    for number, (source, sequence, flags, data) in enumerate(mixed):
        sender, receiver = ENDS[source], ENDS[(source + 1) % 3]
        frame = tcp_frame(*sender, *receiver, data, sequence=sequence % 2**32, flags=flags)
        writer.write(10 + number, frame)
        if number % 5 == 0:
            writer.write(10 + number, udp_frame(*sender, *receiver, b"beside"))
    writer.flush()
    return out.getvalue()


def plainly(data):
    """By flow: what happens to its streams, with bytes that follow each other joined."""
    found = {}
    with read_packets(io.BytesIO(data)) as reader:
        for event in streams(segments(reader)):
            own = found.setdefault(event.flow, [])
            match event:
                case StreamData():
                    add(own, BYTES, event.data)
                case StreamGap():
                    own.append((GAP, -1 if event.missing is None else event.missing))
                case StreamEnd():
                    own.append((ENDED, b""))
                case _:
                    own.append((BEGUN if event.from_syn else JOINED, b""))
    return found


def add(own, kind, data):
    if own and own[-1][0] == BYTES:
        data = own.pop()[1] + data
    own.append((kind, data))


def in_bulk(data, block_bytes):
    found = {}
    with read_blocks(io.BytesIO(data), block_bytes=block_bytes, segments=True) as reader:
        columns = StreamColumns(reader.tcp_flows)
        parts = []
        for _ in reader:
            if reader.segments:
                parts.append(columns.take(reader.segments))
                add_events(parts[-1], reader.tcp_flows, found)
        add_events(columns.finish(), reader.tcp_flows, found)
    return found, reader.statistics


def add_events(pieces, flows, found):
    for row in range(len(pieces)):
        own = found.setdefault(flows[pieces.flow[row]], [])
        kind, length, at = int(pieces.kind[row]), int(pieces.length[row]), int(pieces.offset[row])
        if kind == BYTES:
            add(own, kind, bytes(pieces.buffer[at : at + length]))
        else:
            own.append((kind, length if kind == GAP else b""))


@settings(max_examples=120, deadline=None)
@given(captures(), st.sampled_from([64, 300, 1 << 16]))
def test_bulk_streams_are_the_plain_ones(mixed, block_bytes):
    data = written(mixed)
    found, statistics = in_bulk(data, block_bytes)
    assert found == plainly(data)
    with read_packets(io.BytesIO(data)) as reader:
        plain = segments(reader)
        list(plain)
    assert statistics == plain.statistics


def test_times_and_locations_are_those_of_the_packets():
    data = written([(0, 100 + 10 * n, 16, bytes([n]) * 10) for n in range(6)])
    with read_blocks(io.BytesIO(data), segments=True) as reader:
        columns = StreamColumns(reader.tcp_flows)
        pieces = [columns.take(reader.segments) for _ in reader]
    with read_packets(io.BytesIO(data)) as packets:
        plain = list(segments(packets))
    (found,) = pieces
    rows = [n for n in range(len(found)) if found.kind[n] == BYTES]
    assert [int(found.number[n]) for n in rows] == [each.number for each in plain]
    assert [int(found.position[n]) for n in rows] == [each.position for each in plain]
    assert [int(found.time_ns[n]) for n in rows] == [each.time_ns for each in plain]
