"""Files cut at every byte, and damaged before their end: nothing whole is lost."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from itertools import pairwise

import pytest

from pregao.entrypoint.session_state import (
    IncomingAccepted,
    OutgoingSent,
    SessionBound,
    VersionNegotiated,
)
from pregao.entrypoint.session_store import SessionFile
from pregao.errors import UsageError
from pregao.exchange.host.checkpoints.checkpoint_file import read_checkpoint
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from tests.entrypoint.raw_peer import SESSION
from tests.exchange import host_floor
from tests.exchange.host.test_host_checkpoints import Days, checkpoints, good_till
from tests.exchange.host_desk import whole_state
from tests.live.test_live_recorder import batch, recorded, recorder

ORDERS = 2
SETTINGS = replace(
    host_floor.SETTINGS,
    instruments=tuple(
        each for each in host_floor.SETTINGS.instruments if each.symbol in ("PETR4", "VALE3")
    ),
)
"""An exchange that starts quickly: it does so for each byte."""


class FewInstruments(Days):
    """The same days with few instruments."""

    def __init__(self, folder):
        host_floor.HostFloor.__init__(self, folder, SETTINGS)
        self.versions = 1
        self.host.commit()


def start(folder):
    """The state of the exchange that a journal makes, and the bytes that it set aside."""
    journal = Journal(folder)
    try:
        host = ExchangeHost(SETTINGS, journal)
        host.replay()
        return whole_state(host), journal.torn
    finally:
        journal.close()


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """The folder of an exchange with a checkpoint, and the bounds of its last records."""
    folder = tmp_path_factory.mktemp("journal")
    floor = FewInstruments(folder)
    good_till(floor, 1001, 25)
    floor.next_day(29)
    for number in range(ORDERS):
        good_till(floor, 2001 + number, 20 + number)
    floor.end()
    journal = Journal(folder)
    bounds = []
    for _ in journal.records():
        bounds.append(journal.reading.size)
    (path,) = journal.files()
    journal.close()
    return folder, [*bounds[-ORDERS:], path.stat().st_size]


def cut(folder, trial, size):
    """A copy of a journal's folder whose file ends at a byte."""
    shutil.rmtree(trial, ignore_errors=True)
    shutil.copytree(folder, trial)
    (path,) = trial.glob("journal-??????")
    os.truncate(path, size)
    return trial


@pytest.fixture(autouse=True)
def _memory(monkeypatch):
    """No file has to reach a disk: hundreds would take long."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_a_journal_cut_at_any_byte_makes_the_exchange_after_its_last_whole_record(ended, tmp_path):
    folder, bounds = ended
    states = [start(cut(folder, tmp_path / "trial", bound))[0] for bound in bounds]
    assert all(one != other for one, other in pairwise(states))
    for number, (bound, following) in enumerate(pairwise(bounds)):
        for size in range(bound, following):
            found, torn = start(cut(folder, tmp_path / "trial", size))
            assert torn == size - bound
            assert found == states[number], size


def test_a_changed_byte_before_the_last_record_is_never_taken_for_a_torn_end(ended, tmp_path):
    folder, bounds = ended
    whole, _ = start(cut(folder, tmp_path / "trial", bounds[-1]))
    refused = 0
    for at in range(bounds[0], bounds[-2]):
        trial = cut(folder, tmp_path / "trial", bounds[-1])
        (path,) = trial.glob("journal-??????")
        data = bytearray(path.read_bytes())
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        try:
            assert start(trial) == (whole, 0), at
        except UsageError as error:
            assert "damaged" in str(error)  # noqa: PT017
            refused += 1
    assert refused > (bounds[-2] - bounds[0]) * 0.9


def test_a_checkpoint_cut_at_any_byte_is_ignored(ended, tmp_path):
    folder, bounds = ended
    trial = cut(folder, tmp_path / "trial", bounds[-1])
    (path,) = checkpoints(trial)
    data = path.read_bytes()
    assert read_checkpoint(trial) is not None
    for size in range(len(data) - 1, -1, -1):
        os.truncate(path, size)
        assert read_checkpoint(trial) is None, size


HISTORY = (
    VersionNegotiated(1, 6, 1),
    SessionBound("CANCEL_ON_TERMINATE_ONLY", 0),
    OutgoingSent(1, b"an order"),
    IncomingAccepted(1),
    OutgoingSent(2, b"another order"),
    IncomingAccepted(2),
)


def test_a_session_file_cut_at_any_byte_has_its_whole_records(tmp_path):
    path, sizes, states = tmp_path / "sessions", [], []
    store = SessionFile(path)
    for record in HISTORY:
        store.record(SESSION, record)
        store.flush()
        sizes.append(path.stat().st_size)
        states.append(repr(store.state(SESSION)))
    store.close()
    data = path.read_bytes()

    def loaded(content):
        path.write_bytes(content)
        found = SessionFile(path)
        try:
            return repr(found.state(SESSION))
        finally:
            found.close()

    for size in range(sizes[0], len(data) + 1):
        whole = max(number for number, each in enumerate(sizes) if each <= size)
        assert loaded(data[:size]) == states[whole], size
    for at in range(sizes[0], sizes[-2]):  # before the last record
        changed = bytearray(data)
        changed[at] ^= 1 << at % 8
        with pytest.raises(UsageError, match="damaged at byte"):
            loaded(bytes(changed))


def test_a_capture_of_the_recorder_cut_at_any_byte_keeps_its_whole_packets(tmp_path):
    payloads = [b"first", b"second", b"the third"]
    sizes = []
    with recorder(tmp_path) as made:
        for payload in payloads:
            made.write(batch([payload]))
            (path,) = tmp_path.iterdir()
            sizes.append(path.stat().st_size)
    data = path.read_bytes()
    for size in range(sizes[0], len(data) + 1):
        path.write_bytes(data[:size])
        whole = max(number for number, each in enumerate(sizes) if each <= size)
        made = recorder(tmp_path)
        made.close()
        assert made.mended == size - sizes[whole]
        assert path.read_bytes() == data[: sizes[whole]]
        assert [each.payload for each in recorded(tmp_path)] == payloads[: whole + 1]
