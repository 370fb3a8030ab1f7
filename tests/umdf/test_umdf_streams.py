"""The stream of a flow is detected from all the templates seen on it."""

import pytest

from pregao.umdf.streams import Stream, StreamEvidence


@pytest.mark.parametrize(
    ("templates", "stream"),
    [
        ([], Stream.UNKNOWN),
        ([2, 2, 1], Stream.UNKNOWN),
        ([2, 12, 12, 1], Stream.DEFINITION),
        ([4, 1], Stream.DEFINITION),
        ([12, 50], Stream.INCREMENTAL),
        ([12, 3], Stream.INCREMENTAL),
        ([2, 3, 10, 22], Stream.INCREMENTAL),
        ([5], Stream.INCREMENTAL),
        ([10, 30, 71, 27, 56, 3, 1], Stream.SNAPSHOT),
        ([30], Stream.SNAPSHOT),
        ([49, 58], Stream.INCREMENTAL),
    ],
)
def test_decide(templates, stream):
    evidence = StreamEvidence()
    for template in templates:
        evidence.add(template)
    assert evidence.decide() is stream


def test_the_larger_part_names_a_mixed_flow():
    evidence = StreamEvidence()
    evidence.add(50, 1000)
    evidence.add(30, 2)
    assert evidence.decide() is Stream.INCREMENTAL
    evidence.add(71, 5000)
    assert evidence.decide() is Stream.SNAPSHOT
