"""Checkpoints: a start goes back to the beginning of the day, and becomes the same exchange."""

import os
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.host import PRIMARY, Host, Journal
from pregao.exchange.host.checkpoints import code_digest, pack, unpack
from tests.exchange.host_desk import ORDER, parties, whole_state
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor
from tests.exchange.test_host_restart import STEP

FIRST = SESSIONS[0]


class Days(HostFloor):
    """An exchange over several days, committed after every step."""

    def __init__(self, folder):
        super().__init__(folder)
        self.versions = 1
        self.host.commit()

    def do(self, step):
        super().do(step)
        self.host.commit()

    def next_day(self, day):
        self.now += 10**9
        self.host.control({"do": "day", "date": f"2026-05-{day}"}, self.now)
        self.host.commit()
        self.versions += 1
        self.lines = {}
        self.numbers = dict.fromkeys(SESSIONS, 1)
        for session in SESSIONS:
            self.connect(session)

    def connect(self, session, first=False):
        peer = self.peers[session]
        line = self.lines[session] = self.host.connect(PRIMARY, self.now)
        versions = getattr(self, "versions", 1)
        if first or not self.host.store.state(session).negotiated:
            self.host.receive(line, peer.negotiate(versions, now=self.now), self.now)
        number = self.numbers[session]
        establish = peer.establish(versions, number, now=self.now, keep_alive=60_000)
        self.host.receive(line, establish, self.now)
        assert line.established


def started(folder):
    """A host that the journal makes, and how many records that took."""
    journal = Journal(folder)
    host = Host(SETTINGS, journal)
    count = host.replay()
    journal.close()
    return host, count


def checkpoints(folder):
    return sorted(folder.glob("checkpoint-*"))


def good_till(floor, number, price):
    order = ORDER | parties(number, "BUY", 300, price) | {"timeInForce": "GOOD_TILL_CANCEL"}
    floor.send(FIRST, "NewOrderSingle", **order, memo=f"order {number}")
    floor.host.commit()


@settings(max_examples=25, deadline=None)
@given(st.lists(STEP, max_size=20), st.lists(STEP, max_size=20))
def test_from_a_checkpoint_the_exchange_is_the_same(tmp_path_factory, before, after):
    folder = tmp_path_factory.mktemp("journal")
    floor = Days(folder)
    for number in range(1, 4):
        good_till(floor, 1000 + number, 25 + number)
    for step in before:
        floor.do(step)
    floor.next_day(29)
    for step in after:
        floor.do(step)
    expected = whole_state(floor.host)
    floor.end()
    assert len(checkpoints(folder)) == 1
    quick, few = started(folder)
    assert whole_state(quick) == expected
    checkpoints(folder)[0].unlink()
    slow, all_records = started(folder)
    assert whole_state(slow) == expected
    assert few < all_records
    # Both go on alike.
    for host in (quick, slow):
        host.control({"do": "day", "date": "2026-05-30"}, floor.now + 10**9)
        host.control({"do": "phase", "phase": "OPEN"}, floor.now + 10**9)
    assert whole_state(quick) == whole_state(slow)
    assert quick.engine.market.carried == slow.engine.market.carried


def test_only_what_came_since_the_day_began_is_replayed(tmp_path):
    floor = Days(tmp_path)
    for number in range(1, 200):
        good_till(floor, number, 20)  # a long queue at one price
    floor.next_day(29)
    good_till(floor, 500, 21)
    expected = whole_state(floor.host)
    floor.end()
    host, count = started(tmp_path)
    assert whole_state(host) == expected
    assert count < 20
    book = host.engine.book(floor.host.engine.market.orders[1].security_id)
    assert len(book.bids) == 200


def test_a_checkpoint_of_other_code_or_half_of_one_is_as_if_there_was_none(tmp_path, monkeypatch):
    floor = Days(tmp_path)
    good_till(floor, 1, 20)
    floor.next_day(29)
    expected = whole_state(floor.host)
    floor.end()
    (path,) = checkpoints(tmp_path)
    whole = path.read_bytes()
    for wrong in (whole[:-1], b"x" * 32 + whole[32:], whole[:10], b"", whole[:-1] + b"!"):
        path.write_bytes(wrong)
        host, count = started(tmp_path)
        assert whole_state(host) == expected
        assert count > 10
    path.write_bytes(whole)
    monkeypatch.setattr("pregao.exchange.host.core.code_digest", lambda: "0" * 32)
    host, count = started(tmp_path)
    assert count > 10


def test_a_journal_that_is_shorter_than_its_checkpoint_is_replayed_from_the_beginning(tmp_path):
    floor = Days(tmp_path)
    floor.next_day(29)
    floor.end()
    (journal,) = tmp_path.glob("journal-0*")
    os.truncate(journal, 200)
    host, _ = started(tmp_path)
    assert host.engine.trade_date.isoformat() == "2026-05-28"


def test_where_a_checkpoint_cannot_be_kept_the_exchange_goes_on(tmp_path, monkeypatch, caplog):
    floor = Days(tmp_path)
    before = [path.read_bytes() for path in checkpoints(tmp_path)]

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", refuse)
    floor.next_day(29)
    monkeypatch.undo()
    assert "no checkpoint could be kept: No space left on device" in caplog.text
    assert [path.read_bytes() for path in checkpoints(tmp_path)] == before
    expected = whole_state(floor.host)
    assert whole_state(floor.again()) == expected


def test_a_checkpoint_is_read_with_nothing_but_classes_of_ours():
    assert unpack(pack({"now": 5})) == {"now": 5}
    with pytest.raises(UsageError, match="which is nothing of an exchange"):
        unpack(pickle.dumps({"x": os.system}))
    with pytest.raises(UsageError, match="something else"):
        unpack(pickle.dumps([1]))
    assert len(code_digest()) == 32


def test_credentials_are_in_no_checkpoint(tmp_path):
    floor = Days(tmp_path)
    floor.next_day(29)
    floor.end()
    (path,) = checkpoints(tmp_path)
    assert b"123456789ABC" not in path.read_bytes()
