"""Which snapshots count, and what they hold as of (000 §7.2, §7.4)."""

from pregao.umdf.gaps import is_usable, snapshot_key
from pregao.umdf.loops import SnapshotHeader
from pregao.umdf.sequencing import LAST_SEQUENCE_VERSION, PacketKey


def header(last, *, version=1):
    return SnapshotHeader(1111, last, 1, 0, 0, 0, 6998, version)


def test_7_2_a_snapshot_of_an_older_sequence_version_is_not_used():
    assert not is_usable(header(5, version=3), 4)
    assert is_usable(header(5, version=4), 4)
    assert is_usable(header(5, version=5), 4)
    assert not is_usable(header(5, version=LAST_SEQUENCE_VERSION), 1)


def test_below_version_15_the_version_is_that_of_the_incrementals():
    old = header(703, version=None)
    assert snapshot_key(old, 8) == PacketKey(8, 703)
    assert is_usable(old, 8)


def test_from_version_15_on_a_snapshot_carries_its_version():
    assert snapshot_key(header(703, version=9), 8) == PacketKey(9, 703)
