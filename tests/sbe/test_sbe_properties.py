"""Properties: decode is the inverse of encode, kernels and codec agree, any bytes are safe."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import DecodeError
from pregao.sbe.codec import MessageCodec, SchemaCodec
from pregao.sbe.xml import schema_from_bytes
from tests.sbe.support import compare_with_codec, normal, schema_xml, shown, values_of


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_decode_is_the_inverse_of_encode(data):
    schema = schema_from_bytes(data.draw(schema_xml()))
    message = schema.messages[0]
    values = data.draw(values_of(message))
    codec = SchemaCodec(schema)
    encoded = codec.encode("M", values)
    decoded = codec.decode(encoded)
    assert decoded.end == len(encoded)
    assert shown(message, decoded.values) == shown(message, blank(message, values))
    assert codec.encode("M", decoded.values) == encoded


def blank(block, values):
    """Values after a round trip: a record of only nulls is null."""
    result = {}
    for name, value in values.items():
        group = next((group for group in block.groups if group.name == name), None)
        if group is not None:
            value = [blank(group, entry) for entry in value]
        elif isinstance(value, dict) and all(part is None for part in value.values()):
            value = None
        result[name] = value
    return result


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_kernels_and_codec_agree_on_any_schema(data):
    schema = schema_from_bytes(data.draw(schema_xml()))
    message = schema.messages[0]
    codec = MessageCodec(schema, message)
    header = len(codec.header)
    bodies = [
        codec.encode(values)[header:]
        for values in data.draw(st.lists(values_of(message), max_size=4))
    ]
    bodies += data.draw(st.lists(st.binary(max_size=600), max_size=6))
    bodies += [body[: len(body) // 2] for body in bodies[:2]]
    version = data.draw(st.sampled_from([0, 1, 2, 3]))
    longer = data.draw(st.lists(st.integers(0, 450), min_size=len(bodies), max_size=len(bodies)))
    lengths = [data.draw(st.sampled_from([message.block_length, length])) for length in longer]
    compare_with_codec(schema, message, version, bodies, lengths)


@settings(max_examples=150, deadline=None)
@given(schema_xml(), st.binary(max_size=700), st.booleans())
def test_any_bytes_are_a_message_or_a_decode_error(source, noise, with_header):
    schema = schema_from_bytes(source)
    codec = SchemaCodec(schema)
    buffer = noise
    if with_header:
        inner = codec.codec(1)
        assert inner is not None
        buffer = inner.header + noise
    try:
        decoded = codec.decode(buffer)
    except DecodeError:
        return
    assert decoded.end <= len(buffer)
    assert normal(decoded.values) is not None
