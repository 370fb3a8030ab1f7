"""Checkpoints: a start goes back to the beginning of the day, and becomes the same exchange."""

import dataclasses
import json
import os
import pickle
import random
import shutil
import struct
from collections import Counter, deque
from datetime import date
from enum import Enum, Flag
from pathlib import Path
from types import NoneType, UnionType
from typing import Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pregao
from pregao.errors import UsageError
from pregao.exchange.host.checkpoints import checkpoints as checkpoints_module
from pregao.exchange.host.checkpoints.checkpoint_file import MAGIC
from pregao.exchange.host.checkpoints.checkpoints import code_digest, state_of
from pregao.exchange.host.checkpoints.column_schema import ColumnShape, StateSchema
from pregao.exchange.host.checkpoints.columns import ColumnError
from pregao.exchange.host.checkpoints.state_schema import STATE, HostState
from pregao.exchange.host.host import PRIMARY, ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from tests.exchange.host.test_host_restart import STEP
from tests.exchange.host_desk import ORDER, parties, whole_state
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor

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
        self.host.control({"command": "day", "date": f"2026-05-{day}"}, self.now)
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
    host = ExchangeHost(SETTINGS, journal)
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
    assert STATE.pack(state_of(quick)) == STATE.pack(state_of(slow))
    assert few < all_records
    # Both continue alike.
    for host in (quick, slow):
        host.control({"command": "day", "date": "2026-05-30"}, floor.now + 10**9)
        host.control({"command": "phase", "phase": "OPEN"}, floor.now + 10**9)
    assert whole_state(quick) == whole_state(slow)
    assert quick.engine.market.carried == slow.engine.market.carried


def test_only_messages_since_the_start_of_the_day_are_replayed(tmp_path):
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


HEAD_BYTES = len(MAGIC) + 64 + 16
"""Magic, header and digest of a checkpoint's file."""


def kept(tmp_path):
    """An exchange with a checkpoint that has ended: its state and the checkpoint's file."""
    floor = Days(tmp_path)
    good_till(floor, 1, 20)
    floor.next_day(29)
    good_till(floor, 2, 21)
    expected = whole_state(floor.host)
    floor.end()
    (path,) = checkpoints(tmp_path)
    return expected, path


def resealed(data, state):
    """The file of a checkpoint with other values and checksums that fit them."""
    from hashlib import blake2b

    head = data[: HEAD_BYTES - 16]
    return head + blake2b(head + state, digest_size=16).digest() + state


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda whole: whole[:-1], "it is damaged"),
        (lambda whole: whole + b"x", "it is damaged"),
        (lambda whole: whole[:10], "it is damaged, or another version"),
        (lambda whole: b"", "it is damaged, or another version"),
        (lambda whole: whole[:HEAD_BYTES], "it is damaged"),
        (lambda whole: resealed(whole, b""), "ColumnError: 1 values do not fit in 0 bytes"),
        (lambda whole: resealed(whole[:20] + b"0" * 32 + whole[52:], whole[HEAD_BYTES:]),
         "another version of Preg"),
        (lambda whole: b"x" * 32 + whole[32:], "it is damaged, or another version"),
        (lambda whole: pickle.dumps({"moment": (1, 1, 1)}), "another version of Preg"),
    ],
)  # fmt: skip
def test_an_unusable_checkpoint_is_ignored_with_a_warning(tmp_path, caplog, change, words):
    expected, path = kept(tmp_path)
    path.write_bytes(change(path.read_bytes()))
    host, count = started(tmp_path)
    assert whole_state(host) == expected
    assert count > 10
    (sentence,) = [each.getMessage() for each in caplog.records]
    assert "checkpoint ignored, replaying the full journal: " in sentence
    assert words in sentence


def test_a_pickle_of_an_earlier_version_is_never_executed(tmp_path, monkeypatch):
    expected, path = kept(tmp_path)
    done = []
    monkeypatch.setattr(os, "system", done.append)
    body = b"cpregao.exchange.host.journal\nos.system\n(S'true'\ntR."
    head = struct.pack("<32sQI", code_digest().encode(), 200, 0)
    for data in (head + body, resealed(path.read_bytes(), body), MAGIC + body):
        path.write_bytes(data)
        host, _ = started(tmp_path)
        assert whole_state(host) == expected
    assert done == []


SHARE = int(os.environ.get("PREGAO_FUZZ", "1")) * 60


def test_whatever_bytes_a_checkpoint_has_the_start_is_right(tmp_path):
    """Without its checksum renewed a change is seen; with it, values are wrong, never fatal."""
    expected, path = kept(tmp_path)
    whole = path.read_bytes()
    draw = random.Random(5)
    restored = 0
    for number in range(SHARE):
        data = bytearray(whole)
        for _ in range(draw.randint(1, 3)):
            data[draw.randrange(len(data))] ^= draw.randint(1, 255)
        if draw.random() < 0.3:
            del data[draw.randrange(len(data)) :]
        path.write_bytes(data)
        host, count = started(tmp_path)
        assert whole_state(host) == expected, number
        assert count > 10
    for _ in range(SHARE):
        state = bytearray(whole[HEAD_BYTES:])
        state[draw.randrange(len(state))] ^= draw.randint(1, 255)
        try:
            found = STATE.unpack(bytes(state))
        except ColumnError:
            continue
        assert isinstance(found, HostState)
        restored += 1
    assert 0 < restored < SHARE


def test_a_checkpoint_with_invalid_values_leaves_the_exchange_unchanged(tmp_path, caplog):
    expected, path = kept(tmp_path)
    whole = path.read_bytes()
    for change in (
        {"start_settings": json.dumps({"instruments": 5})},
        {"start_settings": "[" * 5000},
        {"start_settings": "5"},
        {"accepting": {99: True}},
        {"active": 77},
        {"start_settings": '{"risk": "no list", '},
    ):
        state = STATE.unpack(whole[HEAD_BYTES:])
        if change.get("start_settings", "").startswith('{"risk'):
            change["start_settings"] += state.start_settings[1:].replace('"risk"', '"other"')
        path.write_bytes(resealed(whole, STATE.pack(dataclasses.replace(state, **change))))
        host, count = started(tmp_path)
        assert whole_state(host) == expected, change
        assert count > 10
    assert caplog.text.count("checkpoint ignored") == 6


def test_a_journal_that_is_shorter_than_its_checkpoint_refuses_the_start(tmp_path):
    """The content of a checkpoint was committed: its records exist."""
    floor = Days(tmp_path)
    floor.next_day(29)
    floor.end()
    (journal,) = tmp_path.glob("journal-0*")
    os.truncate(journal, 300)
    with pytest.raises(UsageError, match=r"journal-000001: ends [\d,]+ bytes before byte"):
        started(tmp_path)


def test_a_checkpoint_of_another_journal_is_ignored(tmp_path, caplog):
    expected, path = kept(tmp_path / "one")
    _, other = kept(tmp_path / "other")
    state = STATE.unpack(path.read_bytes()[HEAD_BYTES:])
    other_state = dataclasses.replace(state, starts=9)
    path.write_bytes(resealed(other.read_bytes(), STATE.pack(other_state)))
    host, count = started(tmp_path / "one")
    assert whole_state(host) == expected
    assert count > 10
    assert "the journal before it has changed" in caplog.text


def test_the_exchange_continues_if_a_checkpoint_cannot_be_written(tmp_path, monkeypatch, caplog):
    floor = Days(tmp_path)
    before = [path.read_bytes() for path in checkpoints(tmp_path)]

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pregao.safe_io.private_files.write_new", refuse)
    floor.next_day(29)
    monkeypatch.undo()
    assert "cannot save a checkpoint: No space left on device" in caplog.text
    assert [path.read_bytes() for path in checkpoints(tmp_path)] == before
    expected = whole_state(floor.host)
    assert whole_state(floor.again()) == expected


def test_only_the_owner_reads_a_checkpoint_and_a_link_is_not_followed(tmp_path):
    floor = Days(tmp_path)
    target = tmp_path / "target"
    target.write_bytes(b"untouched")
    (tmp_path / "checkpoint-000001.begun").symlink_to(target)
    floor.next_day(29)
    floor.end()
    (path,) = checkpoints(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert target.read_bytes() == b"untouched"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert started(tmp_path)[1] > 10


# Every class and field at its extremes.

INTEGERS = (0, 1, -1, 127, 128, -129, 2**31, -(2**63), 2**63, 2**64, -(2**200), 10**18)


class Values:
    """Values of any type that the state declares; objects of a class are made a few times."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.shapes = {shape.cls: shape for shape in STATE.shapes}
        self.made = {}

    def of(self, hint):
        origin, inner = get_origin(hint), get_args(hint)
        count = self.draw.randrange(3)
        if origin in (Union, UnionType):
            return self.of(self.draw.choice(inner))
        if origin is type:
            return self.draw.choice(get_args(inner[0]))
        if origin is tuple and inner[-1] is not Ellipsis:
            return tuple(map(self.of, inner))
        if origin in (list, set, frozenset, deque, tuple):
            return origin(self.of(inner[0]) for _ in range(count))
        if origin in (dict, Counter):
            second = inner[1] if origin is dict else int
            return origin({self.of(inner[0]): self.of(second) for _ in range(count)})
        return self.plain(hint)

    def plain(self, hint):
        draw = self.draw
        if hint in self.shapes:
            return self.object(hint)
        if hint is NoneType:
            return None
        if issubclass(hint, Flag):
            return hint(draw.choice([0, *(each.value for each in hint)]))
        if issubclass(hint, Enum):
            return draw.choice(list(hint))
        if issubclass(hint, tuple):
            return hint(*map(self.of, get_type_hints(hint).values()))
        return {
            int: lambda: draw.choice(INTEGERS),
            bool: lambda: draw.random() < 0.5,
            str: lambda: draw.choice(["", "PETR4", "ação\0\U0001f600", "x" * 300]),
            bytes: lambda: draw.choice([b"", b"\0\xff", b"y" * 70_000]),
            date: lambda: draw.choice([date.min, date.max, date(2026, 5, 28)]),
        }[hint]()

    def object(self, cls):
        made = self.made.setdefault(cls, [])
        if len(made) < 3:
            found = cls.__new__(cls)
            made.append(found)
            shape = self.shapes[cls]
            if shape.begin is not None:
                shape.begin(found)
            values = {name: self.of(hint) for name, hint in shape.fields.items()}
            if shape.fill is not None:
                values["orders"] = [fresh_order(self) for _ in range(3)]
                shape.fill(found, tuple(values.values()))
            else:
                for name, value in values.items():
                    object.__setattr__(found, name, value)
        return self.draw.choice(made)


def fresh_order(values):
    """An order that is in no other queue."""
    from pregao.exchange.engine.book.order_book import EngineOrder

    found = EngineOrder.__new__(EngineOrder)
    found.level = found.next = found.previous = None
    for name, hint in values.shapes[EngineOrder].fields.items():
        setattr(found, name, values.of(hint))
    return found


def graph(value, seen):
    """A value as plain data: classes by name, objects met before by their number."""
    if isinstance(value, Enum | type) or value is None:
        return repr(value)
    if type(value) in {shape.cls for shape in STATE.shapes}:
        if id(value) in seen:
            return ("again", seen[id(value)])
        seen[id(value)] = len(seen)
        shape = next(each for each in STATE.shapes if each.cls is type(value))
        fields = shape.take(value) if shape.take else [getattr(value, n) for n in shape.fields]
        return (type(value).__name__, [graph(each, seen) for each in fields])
    if isinstance(value, dict):
        return (
            type(value).__name__,
            [(graph(k, seen), graph(v, seen)) for k, v in value.items()],
        )
    if isinstance(value, set | frozenset):
        return (type(value).__name__, sorted(map(repr, value)))
    if isinstance(value, list | tuple | deque):
        return (type(value).__name__, [graph(each, seen) for each in value])
    return (type(value).__name__, value)


@pytest.mark.parametrize("seed", range(8))
def test_every_field_of_every_class_survives_a_round_trip(seed):
    values = Values(seed)
    for shape in STATE.shapes[1:]:
        values.object(shape.cls)
    values.made.pop(HostState, None)
    state = values.object(HostState)
    again = STATE.unpack(STATE.pack(state))
    assert graph(again, {}) == graph(state, {})


def test_all_fields_of_the_classes_are_declared():
    for shape in STATE.shapes:
        slots = {name for cls in shape.cls.__mro__ for name in getattr(cls, "__slots__", ())}
        if shape.cls.__name__ == "PriceLevel":
            assert slots == {"key", "price", "quantity", "count", "head", "tail"}
        elif shape.cls.__name__ == "EngineOrder":
            assert slots - {"level", "next", "previous"} == set(shape.fields)
        elif slots:
            assert slots == set(shape.fields), shape.cls


def test_fields_of_classes_without_slots_are_declared(tmp_path):
    floor = Days(tmp_path)
    state = state_of(floor.host)
    floor.end()
    for found in (state.market.positions, next(iter(state.throttles.values()))):
        (shape,) = [each for each in STATE.shapes if each.cls is type(found)]
        assert set(vars(found)) == set(shape.fields)


class Plain:
    """Something with one field."""

    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, True), (int, 1.5), (int, "1"), (bool, 1), (str, b"x"), (bytes, "x"), (date, None),
        (list[int], (1,)), (tuple[int, int], (1,)), (dict[int, str], {1: 2}), (int | None, "x"),
        (int, 1 << 600), (set[int], frozenset()),
    ],
)  # fmt: skip
def test_a_value_of_another_type_than_declared_is_not_written(hint, value):
    with pytest.raises((ColumnError, AttributeError)):
        StateSchema([ColumnShape(Plain, {"value": hint})]).pack(Plain(value))


@pytest.mark.parametrize("hint", [object, dict, float, Plain | int, list[complex]])
def test_other_types_cannot_be_declared(hint):
    with pytest.raises(ColumnError):
        StateSchema([ColumnShape(HostState, {"value": hint})])


def test_a_few_bytes_cannot_ask_for_much_memory():
    schema = StateSchema([ColumnShape(Plain, {"value": list[int | None]})])
    data = bytearray(schema.pack(Plain([None] * 5)))
    assert schema.unpack(bytes(data)).value == [None] * 5
    for length in (2**40, 2**62, -1):
        head = bytes(data[: data.index(5)])[:-1]
        with pytest.raises(ColumnError, match=r"values do not fit in|negative length"):
            schema.unpack(head + b"\x08" + struct.pack("<q", length) + b"\x00")


def test_credentials_are_in_no_checkpoint(tmp_path):
    floor = Days(tmp_path)
    floor.next_day(29)
    floor.end()
    (path,) = checkpoints(tmp_path)
    assert b"123456789ABC" not in path.read_bytes()


def test_the_digest_of_the_code_covers_every_package_of_the_state(tmp_path, monkeypatch):
    assert Path(pregao.__file__).parent == checkpoints_module._PACKAGE
    shutil.copytree(checkpoints_module._PACKAGE, tmp_path / "pregao")
    monkeypatch.setattr(checkpoints_module, "_PACKAGE", tmp_path / "pregao")
    digest = checkpoints_module.code_digest.__wrapped__
    found = [digest(), checkpoints_module.code_digest()]
    for package in checkpoints_module._PACKAGES:
        module = max((tmp_path / "pregao" / package).rglob("*.py"))
        module.write_text(module.read_text() + "# changed")
        found.append(digest())
    assert found[0] == found[1]  # that of the copy is that of the package
    assert len(set(found)) == 1 + len(checkpoints_module._PACKAGES)
