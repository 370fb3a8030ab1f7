"""Repair of a damaged journal: what is lost is named and set aside, and the exchange starts."""

import json
import os
import random
import re

import pytest
from typer.testing import CliRunner

from pregao.cli.main import app
from pregao.errors import UsageError
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal import repair
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.journal.journal_file import JournalRecord, RecordKind, read_header, walk
from pregao.exchange.host.journal.repair import examine_journal, repair_journal
from tests.exchange.host.test_host_checkpoints import Days, checkpoints, good_till
from tests.exchange.host.test_host_journal import damaged, first_version, read, written
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor

REQUEST = JournalRecord(RecordKind.REQUEST, 5, 7, b"some bytes")


def contents(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def offsets(path):
    """Return the records of a file, each with the offset at which it begins."""
    data = path.read_bytes()
    header = read_header(data)
    position, found = header.start, []
    for record in walk(path, data, position, header.seed):
        found.append((position, record))
        position += 21 + len(record.body)
    return found


def traded(folder, count=6):
    """An exchange with some orders, the last changed and cancelled; return its orders."""
    floor = HostFloor(folder)
    for number in range(1, count + 1):
        floor.do(("new", SESSIONS[0], number, "BUY", 30, 100, 0))
        floor.host.commit()
    floor.do(("cancel", SESSIONS[0], 50, "BUY", 30, 100, 4))
    floor.end()
    return {order.cl_ord_id for order in floor.host.engine.market.orders.values()}


def started(folder):
    journal = Journal(folder)
    try:
        host = ExchangeHost(SETTINGS, journal)
        host.replay()
    finally:
        journal.close()
    return {order.cl_ord_id for order in host.engine.market.orders.values()}


def refused(folder, path):
    """Whether a start is refused; then its error names the file."""
    try:
        started(folder)
    except UsageError as error:
        return str(path) in str(error) or pytest.fail(f"{error} does not name {path}")
    return False


def entering(path, wanted):
    """The index of the record with the given request of the first session."""
    found = [offset for offset, record in offsets(path) if record.kind is RecordKind.REQUEST]
    return found[wanted]


def test_a_lost_order_is_named_with_its_session_and_what_is_about_it(tmp_path):
    assert traded(tmp_path) == {1, 2, 3, 5, 6}
    (path,) = tmp_path.glob("journal-0*")
    offset = entering(path, 3)  # order 4, which is cancelled later
    damaged(path, offset + 21 + 6, 0x10)
    with pytest.raises(
        UsageError, match=f"at byte {offset}, of kind REQUEST, session {SESSIONS[0]}"
    ):
        started(tmp_path)
    before = contents(tmp_path)
    found = examine_journal(tmp_path)
    assert contents(tmp_path) == before
    (finding,) = found.findings
    assert f"journal-000001: bytes {offset:,} to " in finding
    assert f"session {SESSIONS[0]}" in finding
    assert found.concerns == [
        f"session {SESSIONS[0]}: request 4 missing",
        f"session {SESSIONS[0]}: OrderCancelRequest 50 refers to order 4, which is missing",
    ]
    done = repair_journal(tmp_path)
    (aside,) = done.set_aside
    assert aside.name == f"journal-000001.damaged-{offset}"
    whole = before["journal-000001"]
    lost = aside.read_bytes()
    assert whole[offset : offset + len(lost)] == lost
    assert path.read_bytes() == whole[:offset] + whole[offset + len(lost) :]
    assert aside.stat().st_mode & 0o777 == 0o600
    assert started(tmp_path) == {1, 2, 3, 5, 6}
    assert examine_journal(tmp_path).sound


def test_what_can_be_read_of_a_damaged_request_is_named(tmp_path):
    traded(tmp_path)
    (path,) = tmp_path.glob("journal-0*")
    offset = entering(path, 2)
    damaged(path, offset + 4)  # its checksum: all of it can be read
    (finding,) = examine_journal(tmp_path).findings
    assert "readable parts: SimpleNewOrder clOrdID 3, securityID" in finding


@pytest.mark.parametrize("words", ["REQUEST", "nothing"])
def test_the_kind_of_a_damaged_record_decides_whether_it_is_read_as_a_request(
    tmp_path, monkeypatch, words
):
    traded(tmp_path)
    (path,) = tmp_path.glob("journal-0*")
    kinds = {offset: record.kind for offset, record in offsets(path)}
    monkeypatch.setattr(repair, "describe", lambda data, offset: f"{words} at {offset}")
    data = path.read_bytes()
    for offset in kinds:
        path.write_bytes(data)
        damaged(path, offset + 4)  # its checksum: all of it can be read
        found = examine_journal(tmp_path)
        (finding,) = found.findings + found.notes
        assert f"{words} at {offset}" in finding
        assert ("readable parts: " in finding) == (kinds[offset] is RecordKind.REQUEST)
    assert {RecordKind.REQUEST, RecordKind.HANDSHAKE} < set(kinds.values())


def test_wherever_a_byte_changes_the_exchange_starts_after_a_repair(tmp_path):
    """In a journal of several files never more is lost than the damaged request."""
    folder = tmp_path / "journal"
    floor = HostFloor(folder)
    floor.journal._roll_bytes = 1200
    for number in range(1, 25):
        floor.do(("new", SESSIONS[0], number, "BUY", 30, 100, 0))
        floor.host.commit()
    floor.end()
    acknowledged = set(range(1, 25))
    files = sorted(folder.glob("journal-0*"))
    assert len(files) > 2
    first = entering(files[0], 0)
    draw = random.Random(3)
    whole = contents(folder)
    for _ in range(30 * int(os.environ.get("PREGAO_FUZZ", "1"))):
        path = draw.choice(files)
        lowest = first if path == files[0] else 0
        damaged(path, draw.randrange(lowest, path.stat().st_size), draw.randint(1, 255))
        if examine_journal(folder).hopeless:
            pytest.fail("one byte cannot be too much")
        if not refused(folder, path):
            assert started(folder) == acknowledged
        else:
            repair_journal(folder)
            left = started(folder)
            assert left < acknowledged
            assert len(acknowledged - left) == 1
        for name, data in whole.items():
            (folder / name).write_bytes(data)
        for each in folder.glob("*.damaged-*"):
            each.unlink()


def test_a_missing_file_is_accepted_knowingly(tmp_path):
    records = [REQUEST._replace(time_ns=number) for number in range(6)]
    files = written(tmp_path, records, roll_bytes=73 + 40)
    files[1].unlink()
    found = examine_journal(tmp_path)
    assert [each.split(": ")[1] for each in found.findings] == [
        "file is missing, with all its records."
    ]
    repair_journal(tmp_path)
    assert read(tmp_path) == records[:2] + records[4:]
    written(tmp_path, [REQUEST])
    assert read(tmp_path) == [*records[:2], *records[4:], REQUEST]


def test_a_file_that_was_cut_at_a_record_is_accepted_knowingly(tmp_path):
    records = [REQUEST._replace(time_ns=number) for number in range(6)]
    files = written(tmp_path, records, roll_bytes=73 + 40)
    os.truncate(files[0], 73 + 31)
    assert "the records between are missing" in examine_journal(tmp_path).findings[0]
    repair_journal(tmp_path)
    assert read(tmp_path) == records[:1] + records[2:]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_every_damaged_region_of_every_file_is_set_aside(tmp_path, number):
    records = [REQUEST._replace(time_ns=each, body=bytes([each]) * 40) for each in range(9)]
    files = written(tmp_path, records, roll_bytes=73 + 150)
    assert len(files) == 3
    for path in files:
        damaged(path, 73 + 61 * number + 30)
    repair_journal(tmp_path)
    lost = {number, number + 3, number + 6}
    assert read(tmp_path) == [each for each in records if each.time_ns not in lost]
    assert len(list(tmp_path.glob("*.damaged-*"))) == 3


def test_a_damaged_header_is_written_again(tmp_path, caplog):
    (path,) = written(tmp_path, [REQUEST])
    whole = path.read_bytes()
    damaged(path, 20)
    assert read(tmp_path) == [REQUEST]
    assert "header is damaged; using its copy" in caplog.text
    repair_journal(tmp_path)
    assert path.read_bytes() == whole


def test_what_cannot_be_repaired_is_reported_and_nothing_changes(tmp_path):
    files = written(tmp_path, [REQUEST] * 4, roll_bytes=73 + 40)
    second = files[1].read_bytes()
    damaged(files[0], 20)
    damaged(files[0], 50)
    before = contents(tmp_path)
    with pytest.raises(UsageError, match="journal-000001: the header is damaged"):
        repair_journal(tmp_path)
    files[0].write_bytes(second)
    with pytest.raises(UsageError, match="the header states file number 2; rename the file back"):
        repair_journal(tmp_path)
    files[0].unlink()
    with pytest.raises(UsageError, match="journal-000001: file is missing; restore it"):
        repair_journal(tmp_path)
    files[0].write_bytes(before["journal-000001"])
    assert contents(tmp_path) == before
    journal = Journal(tmp_path)
    with pytest.raises(UsageError, match="exchange has this journal open"):
        examine_journal(tmp_path)
    journal.close()
    with pytest.raises(UsageError, match="no journal of Preg"):
        examine_journal(tmp_path / "elsewhere")


def test_a_file_of_the_first_version_is_repaired(tmp_path):
    records = [REQUEST._replace(time_ns=number) for number in range(4)]
    path = tmp_path / "journal-000001"
    first_version(path, records)
    damaged(path, 17 + 31 + 25)
    repair_journal(tmp_path)
    assert read(tmp_path) == [records[0], *records[2:]]


def test_damage_before_a_checkpoint_needs_no_repair(tmp_path):
    floor = Days(tmp_path)
    good_till(floor, 1, 20)
    good_till(floor, 2, 21)
    floor.next_day(29)
    floor.end()
    (path,) = tmp_path.glob("journal-0*")
    damaged(path, entering(path, 0) + 40)
    found = examine_journal(tmp_path)
    assert found.sound
    assert "a start resumes from a later checkpoint" in found.notes[0]
    assert started(tmp_path) == {1, 2}
    # Without it, the record is lost, and a checkpoint that no longer fits goes too.
    (checkpoint,) = checkpoints(tmp_path)
    data = bytearray(checkpoint.read_bytes())
    data[-1] ^= 1
    checkpoint.write_bytes(data)
    with pytest.raises(UsageError, match="is damaged, and valid records follow"):
        started(tmp_path)
    repair_journal(tmp_path)
    assert started(tmp_path) == {2}


def test_records_that_only_a_checkpoint_knows_are_abandoned_on_request(tmp_path):
    floor = Days(tmp_path)
    good_till(floor, 1, 20)
    floor.host.commit()
    (path,) = tmp_path.glob("journal-0*")
    size = path.stat().st_size
    floor.next_day(29)
    floor.end()
    os.truncate(path, size)
    assert "before the position of its checkpoint" in examine_journal(tmp_path).findings[0]
    done = repair_journal(tmp_path)
    assert [each.name for each in done.set_aside] == ["checkpoint-000001.before-repair"]
    assert started(tmp_path) == {1}


def test_the_command_changes_nothing_without_consent(tmp_path):
    traded(tmp_path)
    (path,) = tmp_path.glob("journal-0*")
    runner = CliRunner()
    sound = runner.invoke(app, ["exchange", "repair", str(tmp_path)])
    assert (sound.exit_code, sound.stdout) == (0, "")
    assert sound.stderr == "An exchange can start from this journal.\n"
    damaged(path, entering(path, 3) + 27)
    before = contents(tmp_path)
    shown = runner.invoke(app, ["exchange", "repair", str(tmp_path)])
    assert shown.exit_code == 1
    assert re.search(r"journal-000001: bytes [\d,]+ to [\d,]+, record \d+ \(of kind", shown.stdout)
    assert f"  session {SESSIONS[0]}: request 4 missing\n" in shown.stdout
    assert "Nothing was changed. Use --yes to set the damaged bytes aside." in shown.stderr
    data = json.loads(runner.invoke(app, ["exchange", "repair", str(tmp_path), "--json"]).stdout)
    assert data["concerns"][0] == f"session {SESSIONS[0]}: request 4 missing"
    assert (data["sound"], data["set_aside"]) == (False, [])
    assert contents(tmp_path) == before
    done = runner.invoke(app, ["exchange", "repair", str(tmp_path), "--yes"])
    assert done.exit_code == 0
    assert done.stdout.endswith(": set aside.\n")
    assert done.stderr == "An exchange can start from the rest of this journal.\n"
    assert started(tmp_path) == {1, 2, 3, 5, 6}
