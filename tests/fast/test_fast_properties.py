"""Properties on random templates: decoding undoes encoding, all decoders agree, bytes are safe."""

import contextlib
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import DecodeError, EncodeError
from pregao.fast.codec import Decoder, Encoder
from pregao.fast.columns import FastColumnDecoder
from pregao.fast.xml import templates_from_bytes
from tests.fast.plain import PlainDecoder
from tests.fast.support import compare_with_codec, messages, mutated, present, templates_xml


def encoded(encoder, drawn):
    """The messages that can be encoded; a few cannot: a tail does not shorten a text."""
    for name, values in drawn:
        with contextlib.suppress(EncodeError):
            yield name, values, encoder.encode(name, values)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans())
def test_decoding_undoes_encoding(data, reset):
    templates = templates_from_bytes(data.draw(templates_xml()))
    encoder = Encoder(templates, reset_each_message=reset)
    decoder = Decoder(templates, reset_each_message=reset)
    plain = PlainDecoder(templates, reset_each_message=reset)
    for name, values, message in encoded(encoder, data.draw(messages(templates))):
        decoded = decoder.decode(b"\xff" + message + b"\x00", 1, len(message) + 1)
        assert decoded.end == len(message) + 1
        assert decoded.template.name == name
        assert decoded.values == present(values)
        assert plain.decode(message) == (name, present(values), len(message))


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans(), st.randoms(use_true_random=False))
def test_the_generated_and_the_plain_decoder_agree_on_anything(data, reset, rng):
    templates = templates_from_bytes(data.draw(templates_xml()))
    encoder = Encoder(templates, reset_each_message=reset)
    decoder = Decoder(templates, reset_each_message=reset)
    plain = PlainDecoder(templates, reset_each_message=reset)
    sound = [message for *_, message in encoded(encoder, data.draw(messages(templates)))]
    noise = data.draw(st.lists(st.binary(max_size=60), max_size=4))
    cases = sound + [mutated(rng, message) for message in sound for _ in range(4)] + noise
    for case in random.Random(1).sample(cases, len(cases)):
        try:
            expected = plain.decode(case)
        except DecodeError:
            expected = None
        try:
            decoded = decoder.decode(case)
            found = decoded.template.name, decoded.values, decoded.end
        except DecodeError:
            found = None
        assert found == expected


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans(), st.randoms(use_true_random=False))
def test_the_kernel_and_the_codec_agree_on_anything(data, reset, rng):
    templates = templates_from_bytes(data.draw(templates_xml(references=False)))
    encoder = Encoder(templates, reset_each_message=reset)
    columns = FastColumnDecoder(templates, reset_each_message=reset)
    decoder = Decoder(templates, reset_each_message=reset)
    sound = [message for *_, message in encoded(encoder, data.draw(messages(templates, 12)))]
    noise = data.draw(st.lists(st.binary(max_size=60), max_size=4))
    compare_with_codec(columns, decoder, sound[:5])
    assert compare_with_codec(columns, decoder, sound[5:]) == len(sound[5:])
    cases = sound + [mutated(rng, message) for message in sound for _ in range(4)] + noise
    compare_with_codec(columns, decoder, rng.sample(cases, len(cases)))
