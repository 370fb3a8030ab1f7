"""TCP streams: order, repetition, overlap, wrap-around, gaps, starts and ends, bounded memory."""

from __future__ import annotations

import io
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import (
    Flow,
    PcapWriter,
    Segment,
    StreamData,
    StreamEnd,
    StreamEvent,
    StreamGap,
    StreamStart,
    TcpLimits,
    TcpReassembler,
    read_packets,
    segments,
    streams,
    tcp_frame,
)

FIN, SYN, RST, ACK = 1, 2, 4, 16
FLOW = Flow("10.0.0.1", 1000, "10.0.0.2", 2000)


def seg(
    sequence: int, data: bytes = b"", flags: int = ACK, time_ns: int = 0, flow: Flow = FLOW
) -> Segment:
    return Segment(time_ns, *flow, sequence % 2**32, 0, flags, data, 1, 24)


def bytes_of(events: list[StreamEvent], flow: Flow = FLOW) -> bytes:
    return b"".join(e.data for e in events if isinstance(e, StreamData) and e.flow == flow)


def kinds(events: list[StreamEvent]) -> list[str]:
    return [event.kind for event in events]


def fed(*given_segments: Segment, limits: TcpLimits | None = None) -> list[StreamEvent]:
    reassembler = TcpReassembler(limits)
    return [event for item in given_segments for event in reassembler.segment(item)]


@st.composite
def deliveries(draw: st.DrawFn) -> tuple[bytes, int, list[tuple[int, int]]]:
    """A stream, its first sequence number, and pieces that cover it: any order, overlapping."""
    size = draw(st.integers(1, 120))
    stream = bytes(k * 7 % 251 for k in range(size))
    first = draw(st.sampled_from([0, 1, 2**31 - 20, 2**32 - 50, 2**32 - 1]))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, size - 1)), max_size=10)) | {0, size})
    pieces = [(a, b) for a, b in itertools.pairwise(cuts) if b <= size]
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, size - 1))
        pieces.append((start, draw(st.integers(start + 1, size))))
    return stream, first, draw(st.permutations(pieces))


@settings(max_examples=200, deadline=None)
@given(deliveries())
def test_pieces_in_any_order_with_overlaps_give_the_stream_once(delivery):
    stream, first, pieces = delivery
    reassembler = TcpReassembler()
    events = reassembler.segment(seg(first - 1, flags=SYN))
    for number, (start, end) in enumerate(pieces):
        events += reassembler.segment(seg(first + start, stream[start:end], time_ns=number))
    assert bytes_of(events) == stream
    events += reassembler.segment(seg(first + len(stream), flags=FIN | ACK, time_ns=99))
    assert kinds(events)[0] == "start"
    assert set(kinds(events)[1:-1]) == {"chunk"}
    assert events[-1] == StreamEnd(FLOW, 99, "fin")
    assert reassembler._held == 0
    assert reassembler.finish() == []


@settings(max_examples=200, deadline=None)
@given(deliveries(), st.data())
def test_whatever_is_lost_the_rest_comes_in_order_with_the_gaps_stated(delivery, data):
    stream, first, pieces = delivery
    kept = [piece for piece in pieces if data.draw(st.booleans())]
    limits = TcpLimits(bytes=data.draw(st.integers(0, 1000)), segments=data.draw(st.integers(0, 5)))
    reassembler = TcpReassembler(limits)
    events = reassembler.segment(seg(first - 1, flags=SYN))
    for start, end in kept:
        events += reassembler.segment(seg(first + start, stream[start:end]))
        assert all(len(d.starts) <= limits.segments for d in reassembler._directions.values())
        assert all(d.held <= limits.bytes for d in reassembler._directions.values())
    events += reassembler.finish()
    at = 0
    for event in events:
        if isinstance(event, StreamData):
            assert event.data == stream[at : at + len(event.data)]
            at += len(event.data)
        elif isinstance(event, StreamGap):
            assert event.missing is not None
            assert event.missing > 0
            at += event.missing
    assert events[-1].kind == "end"
    assert reassembler._held == 0
    # With capacity for everything, no captured byte is missing.
    if limits.bytes > 900 and limits.segments == 5 and len(kept) <= 5:
        captured = {k for start, end in kept for k in range(start, end)}
        assert len(bytes_of(events)) == len(captured)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.builds(
            seg,
            st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1)),
            st.binary(max_size=20),
            st.integers(0, 63),
            st.integers(0, 9),
            st.sampled_from([FLOW, FLOW._replace(src_port=1), FLOW._replace(src_port=2)]),
        ),
        max_size=60,
    )
)
def test_any_segments_at_all_keep_to_the_limits_and_every_start_has_its_end(sent):
    limits = TcpLimits(flows=2, bytes=300, segments=3, total_bytes=400)
    reassembler = TcpReassembler(limits)
    events: list[StreamEvent] = []
    for item in sent:
        events += reassembler.segment(item)
        assert len(reassembler._directions) <= 2
        assert 0 <= reassembler._held <= 400
    events += reassembler.finish()
    assert reassembler._held == 0
    alive: set[Flow] = set()
    for event in events:
        if isinstance(event, StreamStart):
            assert event.flow not in alive
            alive.add(event.flow)
        else:
            assert event.flow in alive
            if isinstance(event, StreamEnd):
                alive.remove(event.flow)
    assert not alive


def test_the_first_copy_of_a_byte_wins():
    events = fed(seg(0, b"ab"), seg(4, b"EF"), seg(3, b"def"), seg(0, b"XXcX"), seg(2, b"Y"))
    assert bytes_of(events) == b"abcdEF"


def test_a_chunk_has_the_time_of_the_segment_that_completed_it():
    events = fed(
        seg(10, b"a", time_ns=1),
        seg(13, b"d", time_ns=2),
        seg(12, b"c", time_ns=3),
        seg(11, b"b", time_ns=4),
        seg(14, b"e", time_ns=5),
    )
    assert events == [
        StreamStart(FLOW, 1, False),
        StreamData(FLOW, 1, b"a"),
        StreamData(FLOW, 4, b"bcd"),
        StreamData(FLOW, 5, b"e"),
    ]


def test_the_sequence_number_wraps_around_many_times():
    reassembler = TcpReassembler()
    step = 1 << 26
    data = bytes(step)
    total = 0
    sequence = 2**32 - step // 2
    for _ in range(200):
        total += len(bytes_of(reassembler.segment(seg(sequence, data))))
        sequence += step
    assert total == 200 * step


def test_a_gap_that_never_fills_is_reported_after_the_bound_in_segments():
    limits = TcpLimits(segments=3)
    events = fed(seg(0, b"a"), *[seg(k, b"x") for k in (5, 7, 9, 11)], limits=limits)
    assert events[2:] == [StreamGap(FLOW, 0, 4), StreamData(FLOW, 0, b"x")]


def test_a_gap_that_never_fills_is_reported_after_the_bound_in_bytes():
    limits = TcpLimits(bytes=1000)
    events = fed(seg(0, b"a"), seg(5, bytes(600)), seg(605, bytes(600)), limits=limits)
    assert events[2:] == [StreamGap(FLOW, 0, 4), StreamData(FLOW, 0, bytes(1200))]


def test_the_bound_over_all_flows_holds_too():
    limits = TcpLimits(total_bytes=1500)
    reassembler = TcpReassembler(limits)
    other = FLOW._replace(src_port=9)
    for flow in (FLOW, other):
        reassembler.segment(seg(0, b"a", flow=flow))
    assert reassembler.segment(seg(5, bytes(1000))) == []
    events = reassembler.segment(seg(5, bytes(1000), flow=other))
    assert kinds(events) == ["gap", "chunk"]
    assert events[0].flow == other


def test_directions_are_separate_streams():
    back = Flow(FLOW.dst, FLOW.dst_port, FLOW.src, FLOW.src_port)
    events = fed(seg(5, b"to"), seg(900, b"fro", flow=back), seg(7, b"!"))
    assert bytes_of(events) == b"to!"
    assert bytes_of(events, back) == b"fro"


def test_a_stream_with_syn_and_fin():
    events = fed(
        seg(99, flags=SYN),
        seg(99, flags=SYN),
        seg(100, b"hello"),
        seg(105, b"bye", flags=FIN | ACK, time_ns=7),
        seg(105, b"bye", flags=FIN | ACK),
        seg(104, b"o", flags=ACK),
    )
    assert events == [
        StreamStart(FLOW, 0, True),
        StreamData(FLOW, 0, b"hello"),
        StreamData(FLOW, 7, b"bye"),
        StreamEnd(FLOW, 7, "fin"),
    ]


def test_data_on_the_syn_is_part_of_the_stream():
    assert bytes_of(fed(seg(99, b"early", flags=SYN), seg(105, b" late"))) == b"early late"


def test_a_fin_before_the_bytes_it_follows_waits_for_them():
    events = fed(seg(0, b"a"), seg(4, b"e", flags=FIN | ACK), seg(1, b"bcd", time_ns=9))
    assert events[1:] == [
        StreamData(FLOW, 0, b"a"),
        StreamData(FLOW, 9, b"bcde"),
        StreamEnd(FLOW, 9, "fin"),
    ]


def test_bytes_after_the_fin_are_no_part_of_the_stream():
    events = fed(seg(0, b"a"), seg(3, flags=FIN | ACK), seg(1, b"bcXXX"))
    assert bytes_of(events) == b"abc"
    assert events[-1] == StreamEnd(FLOW, 0, "fin")


def test_a_reset_gives_what_was_held_and_ends_the_stream():
    events = fed(seg(0, b"a"), seg(5, b"f"), seg(1, flags=RST), seg(6, b"late"))
    assert events[2:] == [
        StreamGap(FLOW, 0, 4),
        StreamData(FLOW, 0, b"f"),
        StreamEnd(FLOW, 0, "reset"),
    ]


def test_the_same_ports_used_again_are_a_new_stream():
    events = fed(seg(0, b"old"), seg(5000, flags=SYN), seg(5001, b"new"))
    assert events == [
        StreamStart(FLOW, 0, False),
        StreamData(FLOW, 0, b"old"),
        StreamEnd(FLOW, 0, "restart"),
        StreamStart(FLOW, 0, True),
        StreamData(FLOW, 0, b"new"),
    ]


@pytest.mark.parametrize("ending", [FIN | ACK, RST])
def test_ports_reused_after_the_end_without_a_syn_restart(ending):
    events = fed(
        seg(10, b"old", flags=ending),
        seg(10, b"old"),
        *[seg(900_000 + k, b"n") for k in range(5)],
    )
    assert kinds(events) == ["start", "chunk", "end", "start", "chunk", "chunk", "chunk"]


def test_a_new_connection_far_back_without_a_syn_restarts():
    far = 3 * 2**30
    events = fed(seg(far, b"old"), *[seg(far - 2**30 + k, b"n") for k in range(5)])
    assert kinds(events) == ["start", "chunk", "gap", "chunk", "chunk", "chunk"]
    assert events[2] == StreamGap(FLOW, 0, None)


def test_one_stray_segment_does_not_disturb_the_stream():
    far = 3 * 2**30
    events = fed(
        seg(far, b"a"),
        seg(far - 2**30, b"?"),
        seg(far + 1, b"b"),
        seg(far - 2**30, b"?"),
        seg(far + 2, b"c"),
        seg(far - 2**30, b"?", flags=FIN | ACK),
        seg(far + 3, b"d"),
    )
    assert bytes_of(events) == b"abcd"
    assert kinds(events) == ["start", "chunk", "chunk", "chunk", "chunk"]


def test_segments_without_bytes_do_not_open_a_stream():
    assert fed(seg(5), seg(5, flags=FIN | ACK), seg(5, flags=RST)) == []


def test_the_oldest_flow_is_ended_when_there_are_too_many():
    flows = [FLOW._replace(src_port=k) for k in range(3)]
    events = fed(
        seg(0, b"a", flow=flows[0]),
        seg(0, b"b", flow=flows[1]),
        seg(1, b"A", flow=flows[0]),
        seg(0, b"c", flow=flows[2], time_ns=5),
        limits=TcpLimits(flows=2),
    )
    assert StreamEnd(flows[1], 0, "evicted") in events
    assert len([event for event in events if event.kind == "end"]) == 1


def test_the_end_of_the_capture_ends_every_stream():
    events = list(streams([seg(0, b"a", time_ns=3), seg(2, b"c", time_ns=4)]))
    assert events == [
        StreamStart(FLOW, 3, False),
        StreamData(FLOW, 3, b"a"),
        StreamGap(FLOW, 4, 1),
        StreamData(FLOW, 4, b"c"),
        StreamEnd(FLOW, 4, "capture end"),
    ]


def test_streams_from_a_capture():
    file = io.BytesIO()
    with PcapWriter(file) as writer:
        for k, (sequence, flags, data) in enumerate(
            [(99, SYN, b""), (103, ACK, b"def"), (100, ACK, b"abc"), (106, FIN | ACK, b"")]
        ):
            frame = tcp_frame(
                "10.0.0.1", 1000, "10.0.0.2", 2000, data, sequence=sequence, flags=flags
            )
            writer.write(k, frame)
    file.seek(0)
    assert list(streams(segments(read_packets(file)))) == [
        StreamStart(FLOW, 0, True),
        StreamData(FLOW, 2, b"abcdef"),
        StreamEnd(FLOW, 3, "fin"),
    ]
