"""The survey: lines and streams, templates and versions, peaks, rejects."""

import random
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.clock import MILLISECOND
from pregao.schemas.registry import Registry
from pregao.umdf.bulk_decoder import walk
from pregao.umdf.packets import PacketDecoder
from pregao.umdf.streams import Stream
from pregao.umdf.survey.lines import Destination, LineNumbers, LineTable
from pregao.umdf.survey.survey import Peaks, Survey
from tests.umdf.survey_support import HEARTBEAT, ORDER, PHASE, RESET, block_of, flows, payload

DEFINITION = b"\xe8\x00\x0c\x00\x02\x00\x10\x00" + bytes(232) + bytes(3 * 3) + bytes(1)


def surveyed(blocks, names=None, streams=None):
    survey = Survey(streams=streams)
    numbers = LineNumbers(survey.lines, names or flows(4))
    for block in blocks:
        survey.add("day.pcap", block, numbers)
    return survey


def test_streams_are_detected_from_all_packets_of_a_line():
    snapshot = b"\x22\x00\x1e\x00\x02\x00\x10\x00" + bytes(34)
    block = block_of(
        [
            payload(1, (PHASE,)),  # alone, this could be incremental
            payload(1, (ORDER,)),
            payload(2, (snapshot,)),
            payload(0, (HEARTBEAT,)),
        ],
        flow=[0, 1, 0, 2],
    )
    accounts = surveyed([block]).line_accounts()
    assert [account.stream for account in accounts] == [
        Stream.SNAPSHOT,
        Stream.INCREMENTAL,
        Stream.UNKNOWN,
    ]
    assert [account.heartbeats for account in accounts] == [0, 0, 1]
    streams = {Destination("233.252.14.3", 30001): Stream.DEFINITION}
    assert surveyed([block], streams=streams).line_accounts()[2].stream is Stream.DEFINITION


def test_the_same_destination_is_one_line_in_all_captures():
    lines = LineTable()
    first = LineNumbers(lines, flows(2))
    second = LineNumbers(lines, flows(3)[::-1])
    assert first.of(np.array([0, 1, 1], np.int32)).tolist() == [0, 1, 1]
    assert second.of(np.array([0, 1, 2], np.int32)).tolist() == [2, 1, 0]


def test_flows_that_appear_while_reading_get_their_line():
    lines, growing = LineTable(), flows(1)
    numbers = LineNumbers(lines, growing)
    assert numbers.of(np.array([0], np.int32)).tolist() == [0]
    growing.extend(flows(3)[1:])
    assert numbers.of(np.array([2, 0], np.int32)).tolist() == [2, 0]
    assert str(lines.destinations[2]) == "233.252.14.3:30001"
    assert str(Destination("ff02::1", 5)) == "[ff02::1]:5"


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_messages_are_counted_by_line_kind_and_version(seed):
    rng = random.Random(seed)
    kinds = [ORDER, PHASE, HEARTBEAT, RESET, b"\0\0\x31\0\2\0\x10\0", b"\0\0\2\0\2\0\x07\0"]
    expected: Counter[tuple[int, int, int]] = Counter()
    blocks = []
    for _ in range(rng.randrange(1, 4)):
        payloads, flow = [], []
        for _ in range(rng.randrange(1, 20)):
            messages = rng.choices(kinds, k=rng.randrange(1, 4))
            line = rng.randrange(4)
            for message in messages:
                expected[line, message[2], message[6]] += 1
            payloads.append(payload(rng.randrange(9), messages))
            flow.append(line)
        blocks.append(block_of(payloads, flow=flow))
    survey = surveyed(blocks)
    order = [survey.lines.number(Destination(f.dst, f.dst_port)) for f in flows(4)]
    found = {(s.line, s.template_id, s.version): s.messages for s in survey.lines.messages()}
    assert found == {(order[line], t, v): n for (line, t, v), n in expected.items()}
    assert survey.messages == expected.total()
    assert sum(t.messages for t in survey.templates()) == expected.total()
    assert survey.unknown == Counter(
        {(t, v): n for (t, v), n in _by_template(expected).items() if t == 0x31}
    )


def _by_template(counts):
    result: Counter[tuple[int, int]] = Counter()
    for (_, template, version), number in counts.items():
        result[template, version] += number
    return result


def test_noise_in_the_headers_is_counted_without_growing():
    rng = np.random.default_rng(5)
    headers = rng.integers(0, 256, (40_000, 6), np.uint8)
    messages = [b"\0\0" + headers[n].tobytes() for n in range(len(headers))]
    payloads = [payload(1, messages[n : n + 100]) for n in range(0, len(messages), 100)]
    block = block_of(payloads)
    lines = LineTable()
    walked = walk(block.buffer, block.offset, block.length)
    rows = lines.add(np.zeros(len(block), np.int32), walked)
    assert lines.uncounted == np.count_nonzero(rows < 0) > 20_000
    assert sum(seen.messages for seen in lines.messages()) + lines.uncounted == 40_000


def test_the_account_of_templates_names_versions_and_peaks():
    times = [0, 1, 99 * MILLISECOND, 100 * MILLISECOND, 101 * MILLISECOND]
    old = b"\0\0\2\0\2\0\x07\0"
    payloads = [payload(n + 1, (ORDER, ORDER) if n < 3 else (old,)) for n in range(5)]
    survey = surveyed([block_of(payloads, times=times)])
    order, sequence = survey.templates()
    assert (order.name, order.messages, order.versions) == ("Order_MBO_50", 6, [16])
    assert (sequence.name, sequence.versions) == ("Sequence_2", [7])
    assert (order.peak_per_second, sequence.peak_per_second) == (60, 20)
    assert (survey.message_peak, survey.packet_peak) == (60, 30)
    assert survey.line_accounts()[0].peak_per_second == 60
    assert survey.versions() == {(2, 7): 2, (2, 16): 6}
    assert survey.channels() == [72]
    assert survey.seconds == 0.101


def test_a_peak_counts_packets_slightly_out_of_order_where_they_belong():
    peaks = Peaks()
    span = 100 * MILLISECOND
    times = np.array([span, 2 * span, span + 1, 2 * span + 1, span + 2], np.int64)
    peaks.add(times, np.zeros(5, np.int32), 1)
    assert peaks.per_second() == 30
    peaks.add(np.array([5], np.int64), np.array([40], np.int32), 41)
    assert (peaks.per_second(), peaks.per_second(40), peaks.per_second(10**6)) == (30, 10, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10 * 10**8), st.integers(-1, 3)), max_size=60))
def test_peaks_are_the_largest_counts_of_any_span(events):
    events.sort()
    peaks = Peaks()
    times = np.array([time for time, _ in events], np.int64)
    keys = np.array([key for _, key in events], np.int32)
    peaks.add(times[:20], keys[:20], 4)
    peaks.add(times[20:], keys[20:], 4)
    for key in range(4):
        spans = Counter(time // (100 * MILLISECOND) for time, each in events if each == key)
        assert peaks.per_second(key) == 10 * max(spans.values(), default=0)


def test_rejects_are_counted_by_reason_with_the_first_locations():
    old = b"\0\0\2\0\2\0\x05\0"
    big = bytearray(ORDER)
    big[8 + 8 + 4 : 8 + 8 + 4 + 8] = b"\xff" * 7 + b"\x7f"
    payloads = [payload(1, (old, ORDER)), payload(2)[:-1], payload(3, (bytes(big),)), b"short"]
    survey = surveyed([block_of(payloads)])
    rejects = survey.rejects
    assert (rejects.messages, rejects.packets, rejects.total) == (2, 2, 4)
    assert rejects.reasons.total() == 4
    assert rejects.reasons["a message that runs past the packet"] == 1
    assert rejects.reasons["a packet too short for its header"] == 1
    assert any("older than 7" in reason for reason in rejects.reasons)
    assert len(rejects.first) == 4
    plain = PacketDecoder().decode(payloads[1]).outcomes[-1]
    location = next(each for each in rejects.first if each.number == 2)
    assert (location.position, location.byte, location.reason) == (
        124,
        plain.position,
        plain.reason,
    )
    assert str(location).startswith("day.pcap: packet 2 at byte 124, byte 16 of its payload: ")


def test_a_thousand_rejects_keep_ten_locations():
    old = b"\0\0\2\0\2\0\x05\0"
    survey = surveyed([block_of([payload(n, (old,)) for n in range(1, 1001)])])
    assert (survey.rejects.total, len(survey.rejects.first)) == (1000, 10)
    noise = surveyed([block_of([b"noise"] * 500)])
    assert (noise.rejects.total, len(noise.rejects.first)) == (500, 10)
    assert noise.unsupported() == {Destination("233.252.14.1", 30001): 500}
    assert noise.line_accounts() == []


def test_the_first_locations_are_the_first_in_the_captures():
    old = b"\0\0\2\0\2\0\x05\0"
    block = block_of([payload(n, (old,)) if n % 2 else b"short" for n in range(1, 31)])
    survey = surveyed([block, block])
    assert [each.number for each in survey.rejects.first] == list(range(1, 11))


def test_reasons_without_number_are_counted_together():
    rejects = Survey().rejects
    for n in range(1000):
        rejects.count(f"reason {n}", 2)
    assert len(rejects.reasons) == 257
    assert rejects.reasons.total() == 2000


def test_a_definition_loop_is_a_definition_stream():
    block = block_of([payload(1, (DEFINITION,)), payload(2, (RESET,))])
    survey = Survey(Registry())
    survey.add("x", block, LineNumbers(survey.lines, flows(1)))
    (account,) = survey.line_accounts()
    assert account.stream is Stream.DEFINITION
    assert account.runs[0].whole
