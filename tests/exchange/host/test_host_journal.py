"""The journal: what is committed is there again, whatever cut it short."""

import os
import re
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.journal.journal_file import JournalRecord, RecordKind

RECORDS = st.lists(
    st.builds(
        JournalRecord,
        st.sampled_from(list(RecordKind)),
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
def test_written_records_are_read_back_over_any_number_of_files(tmp_path_factory, records, roll):
    folder = tmp_path_factory.mktemp("journal")
    written(folder, records, roll_bytes=roll)
    assert read(folder) == records


@settings(max_examples=60, deadline=None)
@given(RECORDS, st.data())
def test_a_journal_cut_anywhere_has_its_complete_records(tmp_path_factory, records, data):
    folder = tmp_path_factory.mktemp("journal")
    (path,) = written(folder, records)
    whole = path.read_bytes()
    size = data.draw(st.integers(0, len(whole)))
    os.truncate(path, size)
    found = read(folder)
    assert found == records[: len(found)]
    # Records appended after the cut are read too.
    written(folder, records[:1])
    assert read(folder) == [*found, *records[:1]]


TIME = JournalRecord(RecordKind.TIME, 5, 0, b"")
REQUEST = JournalRecord(RecordKind.REQUEST, 5, 7, b"some bytes")


def damaged(path, offset, mask=0x55):
    data = bytearray(path.read_bytes())
    data[offset] ^= mask
    path.write_bytes(data)


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_torn_end_is_put_aside_and_an_earlier_one_is_kept(tmp_path, cut):
    (path,) = written(tmp_path, [TIME, TIME])
    whole = path.read_bytes()
    for name in ("journal-000001.torn", "journal-000001.torn-2"):
        path.write_bytes(whole[:-cut])
        journal = Journal(tmp_path)
        assert list(journal.records()) == [TIME]
        assert journal.torn == 21 - cut
        journal.close()
        assert (tmp_path / name).read_bytes() == whole[-21:-cut]


@pytest.mark.parametrize("zeros", [600, 5000, 300_000])
def test_zeros_at_the_end_are_a_write_that_did_not_reach_the_disk(tmp_path, zeros):
    """A file system may have the new size of a file, and not yet its bytes, when the power goes."""
    records = [REQUEST._replace(body=b"x" * 700)] * 3
    (path,) = written(tmp_path, records)
    whole = path.read_bytes()
    # Complete records are missing; then also the end of one, from a sector on.
    path.write_bytes(whole + bytes(zeros))
    assert read(tmp_path) == records
    path.write_bytes(whole[: len(whole) // 512 * 512] + bytes(zeros))
    assert read(tmp_path) == records[:2]


@pytest.mark.parametrize("content", [b"", b"pregao", bytes(10), bytes(4096)])
def test_a_last_file_that_was_only_begun_is_continued(tmp_path, content):
    first, *_ = written(tmp_path, [REQUEST] * 2, roll_bytes=80)
    (tmp_path / "journal-000003").write_bytes(content)
    assert read(tmp_path) == [REQUEST] * 2
    written(tmp_path, [TIME])
    assert read(tmp_path) == [REQUEST, REQUEST, TIME]
    first.write_bytes(content)
    with pytest.raises(UsageError, match="journal-000001: not a journal of Preg"):
        read(tmp_path)


def test_damage_in_an_earlier_file_is_named_and_nothing_is_lost(tmp_path):
    first, *others = written(tmp_path, [REQUEST] * 4, roll_bytes=60)
    assert others
    damaged(first, -1)
    data = first.read_bytes()
    words = r"record 1 at byte 73, of kind REQUEST, session 7, is damaged, and other files follow"
    with pytest.raises(UsageError, match=words):
        read(tmp_path)
    assert first.read_bytes() == data


def test_damage_before_valid_records_of_the_last_file_is_named(tmp_path):
    (path,) = written(tmp_path, [REQUEST] * 4)
    damaged(path, 73 + 31 + 25)
    words = (
        r"journal-000001: record 2 at byte 104, of kind REQUEST, session 7, is damaged, and valid "
        r"records follow from byte 135; restore the file from a backup, or use `pregao exchange "
    )
    with pytest.raises(UsageError, match=words):
        read(tmp_path)


@settings(max_examples=150, deadline=None)
@given(RECORDS, st.integers(60, 400), st.integers(1, 255), st.data())
def test_no_changed_byte_loses_a_record_silently(tmp_path_factory, records, roll, mask, data):
    """Also of the last record, which its writer may have acknowledged."""
    folder = tmp_path_factory.mktemp("journal")
    files = written(folder, records, roll_bytes=roll)
    path = data.draw(st.sampled_from(files))
    offset = data.draw(st.integers(0, path.stat().st_size - 1))
    damaged(path, offset, mask)
    if offset < 73:  # of a header there is a copy
        assert read(folder) == records
    else:
        with pytest.raises(UsageError, match=re.escape(str(path))):
            read(folder)
    assert list(folder.glob("*.torn*")) == []


def test_bytes_of_a_client_are_no_record_of_the_journal(tmp_path):
    """A torn request that contains a record made by its own sender is still torn."""
    body = struct.pack("<QIB", 5, 0, RecordKind.CONTROL) + b'{"command":"day"}'
    forged = struct.pack("<II", len(body), zlib.crc32(body)) + body
    (path,) = written(tmp_path, [REQUEST, REQUEST._replace(body=forged + b"rest")])
    os.truncate(path, path.stat().st_size - 1)
    assert read(tmp_path) == [REQUEST]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda a, b, c: b.unlink(), "000003: does .* continues journal-000002, which is miss"),
        (lambda a, b, c: a.unlink(), "000002: does .* continues journal-000001, which is miss"),
        (lambda a, b, c: os.truncate(b, 73 + 31), "000003: does .* byte 135 .* has 104 bytes"),
        (lambda a, b, c: os.truncate(b, 73), "000003: does .* byte 135 .* has 73 bytes"),
        (lambda a, b, c: b.write_bytes(a.read_bytes()), "000002: does .* states file number 1"),
        (lambda a, b, c: replace_with_other(a), "000002: does .* from other records than those"),
        (lambda a, b, c: swap(a, b), "000001: does .* states file number 2, not 1"),
        (lambda a, b, c: c.rename(c.with_name("journal-000004")), "states file number 3, not 4"),
    ],
)
def test_a_missing_or_misplaced_file_is_named(tmp_path, change, words):
    records = [REQUEST._replace(time_ns=number) for number in range(6)]
    files = written(tmp_path, records, roll_bytes=73 + 40)
    assert len(files) == 3
    change(*files)
    with pytest.raises(UsageError, match=words):
        read(tmp_path)


def replace_with_other(path):
    """Replace the file by that of another journal of the same size."""
    records = [REQUEST._replace(time_ns=number) for number in range(2)]
    (other,) = written(path.parent / "other", records)
    path.write_bytes(other.read_bytes())


def swap(one, other):
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def first_version(path, records):
    """Write a file as the first version of the journal did."""
    parts = [b"pregao journal 1\n"]
    for kind, time_ns, session, body in records:
        whole = struct.pack("<QIB", time_ns, session, kind) + body
        parts.append(struct.pack("<II", len(whole), zlib.crc32(whole)) + whole)
    path.write_bytes(b"".join(parts))


def test_files_of_the_first_version_are_read_and_continued_in_a_new_file(tmp_path):
    records = [REQUEST._replace(time_ns=number) for number in range(6)]
    first_version(tmp_path / "journal-000001", records[:2])
    first_version(tmp_path / "journal-000002", records[2:4])
    assert read(tmp_path) == records[:4]
    written(tmp_path, records[4:])
    assert read(tmp_path) == records
    # Without links, times show that files were exchanged, and names that one is missing.
    swap(tmp_path / "journal-000001", tmp_path / "journal-000002")
    with pytest.raises(
        UsageError, match=r"000002: does not continue .* records are older than those"
    ):
        read(tmp_path)
    (tmp_path / "journal-000001").unlink()
    with pytest.raises(UsageError, match=r"000002: does not continue .* journal-000001 is missing"):
        read(tmp_path)


def test_damage_in_a_file_of_the_first_version_is_named(tmp_path):
    path = tmp_path / "journal-000001"
    first_version(path, [REQUEST] * 3)
    whole = path.read_bytes()
    for offset in range(len(whole)):
        path.write_bytes(whole)
        damaged(path, offset)
        with pytest.raises(UsageError, match=r"journal-000001: (record|not a journal)"):
            read(tmp_path)


def test_a_kind_of_a_later_version_is_named(tmp_path):
    journal = Journal(tmp_path)
    journal.append(200, 5, 0, b"")
    journal.close()
    with pytest.raises(
        UsageError, match=r"has kind 200, which this version of Preg.* does not support"
    ):
        read(tmp_path)


def test_a_journal_has_one_owner(tmp_path):
    journal = Journal(tmp_path)
    with pytest.raises(UsageError, match="another exchange has this journal open"):
        Journal(tmp_path)
    journal.close()


def test_other_files_than_journals_are_left_alone(tmp_path):
    (tmp_path / "journal-000001").write_bytes(b"something else entirely")
    with pytest.raises(UsageError, match="not a journal of Preg"):
        read(tmp_path)
    assert (tmp_path / "journal-000001").read_bytes() == b"something else entirely"


def test_a_path_that_is_no_file_is_reported_before_it_is_read(tmp_path):
    (tmp_path / "journal-000001").symlink_to("/dev/full")
    with pytest.raises(UsageError, match="not a regular file"):
        read(tmp_path)


def mode(path):
    return path.stat().st_mode & 0o777


def test_only_the_owner_reads_a_journal(tmp_path, caplog):
    folder = tmp_path / "a" / "journal"
    before = os.umask(0)
    try:
        written(folder, [REQUEST] * 3, roll_bytes=80)
    finally:
        os.umask(before)
    assert mode(folder) == 0o700
    assert {mode(each) for each in folder.iterdir()} == {0o600}
    assert caplog.text == ""
    # What an earlier version left open is closed; a folder that is there keeps its mode.
    (folder / "journal-000002").chmod(0o644)
    folder.chmod(0o777)
    assert len(read(folder)) == 3
    assert mode(folder / "journal-000002") == 0o600
    assert "journal-000002: other users could access it (mode 644)" in caplog.text
    assert "other users can write to this folder (mode 777)" in caplog.text
    assert mode(folder) == 0o777


def test_a_link_is_not_followed(tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"")
    folder = tmp_path / "journal"
    written(folder, [REQUEST])
    (folder / "journal-000002").symlink_to(target)
    with pytest.raises(UsageError, match="not a regular file"):
        written(folder, [REQUEST])
    assert target.read_bytes() == b""
    (folder / "journal-000002").unlink()
    (folder / "lock").unlink()
    (folder / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="cannot create a journal"):
        Journal(folder)
    assert not (tmp_path / "elsewhere").exists()
