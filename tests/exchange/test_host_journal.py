"""The journal: what is committed is there again, whatever cut it short."""

import os
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.host.journal import Journal, Kind, Record

RECORDS = st.lists(
    st.builds(
        Record,
        st.sampled_from(list(Kind)),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
        st.binary(max_size=40),
    ),
    min_size=1,
    max_size=8,
)


def written(folder, records, **options):
    journal = Journal(folder, **options)
    for record in records:
        journal.append(*record)
        journal.commit()
    journal.close()
    return journal.files()


def read(folder):
    journal = Journal(folder)
    try:
        return list(journal.records())
    finally:
        journal.close()


@settings(max_examples=40, deadline=None)
@given(RECORDS, st.integers(60, 200))
def test_what_is_written_is_read_again_over_any_number_of_files(tmp_path_factory, records, roll):
    folder = tmp_path_factory.mktemp("journal")
    written(folder, records, roll_bytes=roll)
    assert read(folder) == records


@settings(max_examples=60, deadline=None)
@given(RECORDS, st.data())
def test_a_journal_cut_anywhere_has_its_whole_records(tmp_path_factory, records, data):
    folder = tmp_path_factory.mktemp("journal")
    (path,) = written(folder, records)
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    os.truncate(path, size)
    found = read(folder)
    assert found == records[: len(found)]
    # What is added behind the cut is read too.
    written(folder, records[:1])
    assert read(folder) == [*found, *records[:1]]


def test_a_torn_end_is_put_aside(tmp_path):
    record = Record(Kind.TIME, 5, 0, b"")
    (path,) = written(tmp_path, [record, record])
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    journal = Journal(tmp_path)
    assert list(journal.records()) == [record]
    assert journal.torn == (tmp_path / "journal-000001.torn").stat().st_size > 0
    journal.close()


def test_damage_in_an_earlier_file_is_told_and_nothing_is_lost(tmp_path):
    record = Record(Kind.REQUEST, 5, 7, b"some bytes")
    first, *others = written(tmp_path, [record] * 4, roll_bytes=60)
    assert others
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    with pytest.raises(UsageError, match=r"is damaged at byte \d+, and other files follow"):
        read(tmp_path)
    assert first.read_bytes() == data


def test_a_kind_of_a_later_version_is_told(tmp_path):
    (path,) = written(tmp_path, [Record(Kind.TIME, 5, 0, b"")])
    body = (5).to_bytes(8, "little") + (0).to_bytes(4, "little") + b"\xc8"
    lengths = len(body).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little")
    with path.open("ab") as file:
        file.write(lengths + body)
    with pytest.raises(UsageError, match="of a kind that this version does not know"):
        read(tmp_path)


def test_a_journal_has_one_owner(tmp_path):
    journal = Journal(tmp_path)
    with pytest.raises(UsageError, match="another exchange has this journal open"):
        Journal(tmp_path)
    journal.close()


def test_what_is_no_journal_is_left_alone(tmp_path):
    (tmp_path / "journal-000001").write_bytes(b"something else entirely")
    with pytest.raises(UsageError, match="is no journal of Preg"):
        read(tmp_path)
    assert (tmp_path / "journal-000001").read_bytes() == b"something else entirely"


def test_what_is_no_file_is_told_before_it_is_read(tmp_path):
    (tmp_path / "journal-000001").symlink_to("/dev/full")
    with pytest.raises(UsageError, match="is not a file"):
        read(tmp_path)
