"""Helpers of the survey's tests: packets in a block, as read from a capture."""

import numpy as np

from pregao.capture import Flow, PacketBlock
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.schemas.bundle import bundled
from pregao.umdf.packets import PacketHeader, encode_packet

CODEC = SchemaCodec(bundled("umdf", 16))
HEARTBEAT = CODEC.encode("Sequence_2", {"nextSeqNo": 7})
RESET = CODEC.encode("SequenceReset_1", {})


def packed(name, **numbers):
    """A message from the numbers of its fields on the wire."""
    schema = CODEC.schema
    return MessageCodec(schema, schema.by_name[name]).packer(*numbers)(*numbers.values())


ORDER = packed("Order_MBO_50", securityID=1, mDUpdateAction=0, mDEntryType=0x30, mDEntryPx=205000)
PHASE = packed("SecurityGroupPhase_10", securityGroup=b"DOL")


def payload(number, messages=(ORDER,), *, channel=72, version=1, sent=10**18):
    return encode_packet(PacketHeader(channel, version, number, sent), messages)


def block_of(payloads, *, times=None, flow=None):
    """A block of packets, 100 bytes apart in their file."""
    lengths = np.array([len(each) for each in payloads], np.int32)
    offsets = np.concatenate(([0], np.cumsum(lengths[:-1], dtype=np.int64))).astype(np.int64)
    count = len(payloads)
    return PacketBlock(
        np.frombuffer(b"".join(payloads) + bytes(64), np.uint8),
        np.array(times if times is not None else range(1, count + 1), np.int64),
        offsets[:count],
        lengths,
        np.arange(1, count + 1, dtype=np.int64),
        24 + 100 * np.arange(count, dtype=np.int64),
        np.zeros(count, np.int32) if flow is None else np.array(flow, np.int32),
    )


def flows(count):
    return [Flow("10.0.0.1", 1, f"233.252.14.{n + 1}", 30001) for n in range(count)]
