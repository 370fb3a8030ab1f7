"""Events are numbered alike message by message and in bulk."""

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.capture import read_blocks
from pregao.clock import SECOND
from pregao.errors import DecodeError
from pregao.exchange.simulation.settings import SCHEMA_VERSIONS, SimulationSettings
from pregao.exchange.simulation.simulation import Simulation
from pregao.sbe.codec import MessageCodec
from pregao.schemas.bundle import bundled, bundled_versions
from pregao.umdf.bulk_decoder import BulkDecoder, walk
from pregao.umdf.event_columns import NO_EVENT, EventColumns
from pregao.umdf.events import EventNumbers, ends_event, event_number, flags_at
from pregao.umdf.layout import MESSAGE_HEADER, MESSAGE_HEADER_SIZE
from pregao.umdf.packets import PacketDecoder, PacketHeader, encode_packet, frames
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, PacketKey
from pregao.umdf.templates import (
    DELETE_ORDER,
    END_OF_EVENT,
    EXECUTION_SUMMARY,
    NEWS,
    ORDER,
    RECOVERY,
    SEQUENCE_RESET,
    TRADE,
)
from tests.umdf.survey_support import block_of

TEMPLATES = (ORDER, DELETE_ORDER, TRADE, EXECUTION_SUMMARY, NEWS, SEQUENCE_RESET)
UNKNOWN = 999


def in_bulk(payloads, *channels):
    """The events of packets, several of each channel."""
    block = block_of(payloads)
    walked = walk(block.buffer, block.offset, block.length)
    events = EventColumns(BulkDecoder()).number(walked, channels)
    return list(
        zip(walked.packet.tolist(), walked.index_in_packet.tolist(), events.tolist(), strict=True)
    )


def flags_of(payload, frame, decoder):
    """The event flags of a message, read where its template has them."""
    try:
        message = decoder.codec(frame.schema_id, frame.version).schema.by_id.get(frame.template_id)
    except DecodeError:
        return None
    at = None if message is None else flags_at(message)
    if at is None or at >= frame.block_length or frame.body + at >= frame.end:
        return None
    return payload[frame.body + at]


def one_by_one(payloads):
    """The events of one channel's packets as the machine numbers them."""
    machine, decoder, found = EventNumbers(), PacketDecoder(), []
    for packet, payload in enumerate(payloads):
        packet_key = PacketKey(*decoder.decode(payload).header[1:3])
        for frame in frames(payload):
            flags = flags_of(payload, frame, decoder)
            event = machine.number(packet_key, frame.index_in_packet, frame.template_id, flags)
            found.append((packet, frame.index_in_packet, event))
    return found


def message_of(template, flags, version, stated_version, cut):
    """A message with these flags, if any, that states a version.

    ``cut`` is the block length in its header, which may exceed its end.
    """
    schema = bundled("umdf", version)
    known = schema.by_id.get(template)
    if known is None:
        return MESSAGE_HEADER.pack(8, template, schema.id, stated_version) + bytes(8)
    fields = {} if flags_at(known) is None else {"matchEventIndicator": flags}
    encoded = MessageCodec(schema, known).packer(*fields)(*fields.values())
    block, *rest, _ = MESSAGE_HEADER.unpack_from(encoded)
    kept = block if cut is None else cut
    body = encoded[MESSAGE_HEADER_SIZE:]
    return MESSAGE_HEADER.pack(kept, *rest, stated_version) + (body if cut is None else body[:kept])


MESSAGES = st.builds(
    message_of,
    st.sampled_from([*TEMPLATES, UNKNOWN]),
    st.sampled_from([0, 0, END_OF_EVENT, RECOVERY, END_OF_EVENT | RECOVERY]),
    st.sampled_from([version.number for version in bundled_versions("umdf")]),
    st.sampled_from([3, 7, 9, 10, 15, 16, 17, 40]),
    st.none() | st.integers(0, 80),
)
PACKETS = st.lists(
    st.tuples(st.sampled_from([1, 1, 1, 2, -1]), st.lists(MESSAGES, min_size=1, max_size=4)),
    min_size=1,
    max_size=12,
)


def payloads_of(packets, version=LAST_SEQUENCE_VERSION - 1, channel=7):
    """Packets, each this many numbers after the previous one; below 0 in the next version."""
    number, payloads = 0, []
    for step, messages in packets:
        number += step
        if step < 0:
            version, number = version % LAST_SEQUENCE_VERSION + 1, 1
        payloads.append(encode_packet(PacketHeader(channel, version, number, 1), messages))
    return payloads


@settings(max_examples=200, deadline=None)
@given(PACKETS)
def test_any_messages_have_the_same_events_one_by_one_and_in_bulk(packets):
    payloads = payloads_of(packets)
    assert in_bulk(payloads, len(payloads)) == one_by_one(payloads)


@settings(max_examples=50, deadline=None)
@given(PACKETS, PACKETS, PACKETS)
def test_channels_are_numbered_separately_and_other_streams_not_at_all(one, other, rest):
    first, second = payloads_of(one), payloads_of(other, version=1, channel=8)
    found = in_bulk([*first, *second, *payloads_of(rest)], len(first), len(second))
    expected = one_by_one(first)
    expected += [(len(first) + packet, *more) for packet, *more in one_by_one(second)]
    assert found[: len(expected)] == expected
    assert {event for *_, event in found[len(expected) :]} <= {NO_EVENT}


@cache
def simulated(version):
    """The incremental packets of a short day in a schema version."""
    out = Path(mkdtemp(prefix="pregao-events-"))
    Simulation(
        SimulationSettings(
            profile="equities", out=out, schema_version=version, instruments=4,
            duration_ns=20 * SECOND, rate=200.0, seed=version,
        )
    ).run()  # fmt: skip
    (capture,) = sorted(out.glob("*Incremental_A.pcap"))[:1]
    payloads = []
    with read_blocks(capture) as reader:
        for block in reader:
            payloads += [bytes(block.payload(row)) for row in range(len(block))]
    decoder = PacketDecoder()
    return [payload for payload in payloads if decoder.decode(payload).header.sequenced]


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_a_simulated_day_has_the_same_events_one_by_one_and_in_bulk(version):
    payloads = simulated(version)
    found = in_bulk(payloads, len(payloads))
    assert found == one_by_one(payloads)
    events = [event for *_, event in found]
    assert events == sorted(events)
    assert 100 < len(set(events)) < len(events)
    lossy = [payload for at, payload in enumerate(payloads) if at % 7]
    assert in_bulk(lossy, len(lossy)) == one_by_one(lossy)


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_decoded_messages_have_the_same_flags(version):
    """A live feed has decoded messages at hand, not their bytes."""
    decoder = PacketDecoder()
    for payload in simulated(version)[:200]:
        for outcome in decoder.decode(payload).outcomes:
            flags = outcome.decoded.values.get("matchEventIndicator")
            assert flags == flags_of(payload, outcome.frame, decoder)


def test_an_event_begins_after_the_end_of_another():
    events = EventNumbers()
    numbered = [
        events.number(PacketKey(1, 5), 0, ORDER, 0),
        events.number(PacketKey(1, 5), 1, ORDER, END_OF_EVENT),
        events.number(PacketKey(1, 5), 2, ORDER, 0),
        events.number(PacketKey(1, 6), 0, ORDER, END_OF_EVENT),
    ]
    first, second = event_number(1, 5, 0), event_number(1, 5, 2)
    assert numbered == [first, first, second, second]


@pytest.mark.parametrize("packet_key", [PacketKey(1, 7), PacketKey(2, 1), PacketKey(2, 6)])
def test_an_event_begins_after_a_gap(packet_key):
    events = EventNumbers()
    events.number(PacketKey(1, 5), 0, ORDER, 0)
    assert events.number(packet_key, 0, ORDER, 0) == event_number(*packet_key, 0)


def test_a_message_without_flags_ends_its_event_but_a_summary_never_does():
    assert ends_event(NEWS, None)
    assert not ends_event(EXECUTION_SUMMARY, None)
    events = EventNumbers()
    summary = events.number(PacketKey(1, 5), 0, EXECUTION_SUMMARY, None)
    assert events.number(PacketKey(1, 5), 1, TRADE, END_OF_EVENT) == summary
    alone = events.number(PacketKey(1, 5), 2, SEQUENCE_RESET, None)
    assert alone == event_number(1, 5, 2)
    assert events.number(PacketKey(1, 6), 0, ORDER, 0) == event_number(1, 6, 0)


@given(
    st.lists(
        st.tuples(
            st.integers(1, LAST_SEQUENCE_VERSION), st.integers(1, 2**32 - 1), st.integers(0, 5457)
        ),
        min_size=2,
    )
)
def test_event_keys_sort_like_their_messages(keys):
    """A packet of 64 kB has at most 5457 messages."""
    numbers = [event_number(*key) for key in sorted(keys)]
    assert numbers == sorted(numbers)
    assert all(one < other for one, other in pairwise(sorted(set(numbers))))
    assert len(set(numbers)) == len(set(keys))
    assert max(numbers) < np.iinfo(np.int64).max
