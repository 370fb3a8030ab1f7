"""An exchange that ends at any time and restarts: the same books, sessions and numbers."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pregao.errors import UsageError
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from tests.entrypoint.raw_peer import SESSION
from tests.exchange.host_desk import (
    Client,
    Exchange,
    quiet_settings,
    whole_state,
)
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor
from tests.waiting import PATIENCE_S

STEP = st.tuples(
    st.sampled_from(
        ["new"] * 6
        + ["single", "modify", "cancel", "cancel", "mass", "bad", "leave", "wait", "halt"]
    ),
    st.sampled_from(SESSIONS),
    st.integers(1, 40),
    st.sampled_from(["BUY", "SELL"]),
    st.integers(30, 34),
    st.integers(1, 10).map(lambda lots: lots * 100),
    st.integers(1, 40),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_the_same_journal_makes_the_same_exchange(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("journal")
    floor = HostFloor(folder)
    for step in steps:
        floor.do(step)
    expected = whole_state(floor.host)
    floor.end()
    journal = Journal(folder)
    again = ExchangeHost(SETTINGS, journal)
    again.replay()
    journal.close()
    assert whole_state(again) == expected


@settings(max_examples=15, deadline=None)
@given(st.lists(STEP, min_size=5, max_size=25), st.data())
def test_a_journal_cut_anywhere_makes_the_exchange_of_some_moment(tmp_path_factory, steps, data):
    """Nothing of a turn that was not committed is there; all that was is."""
    folder = tmp_path_factory.mktemp("journal")
    floor = HostFloor(folder)
    floor.host.commit()
    sizes = [(floor.journal.bytes, whole_state(floor.host))]
    for step in steps:
        floor.do(step)
        floor.host.commit()
        sizes.append((floor.journal.bytes, whole_state(floor.host)))
    floor.end()
    (path,) = folder.glob("journal-0*")
    header = path.stat().st_size - sizes[-1][0]
    index = data.draw(st.integers(0, len(sizes) - 1))
    torn = data.draw(st.integers(0, 5))
    os.truncate(path, min(header + sizes[index][0] + torn, path.stat().st_size))
    journal = Journal(folder)
    again = ExchangeHost(SETTINGS, journal)
    again.replay()
    journal.close()
    if len({size for size, _ in sizes}) == len(sizes):
        assert whole_state(again) == sizes[index][1]


def test_no_credentials_are_in_the_journal(tmp_path):
    with Exchange(quiet_settings(), journal=tmp_path) as exchange:
        exchange.trader().new(1)
    for path in tmp_path.iterdir():
        assert b"123456789ABC" not in path.read_bytes()


def test_another_list_of_instruments_is_refused(tmp_path):
    with Exchange(quiet_settings(), journal=tmp_path):
        pass
    fewer = quiet_settings(instruments=quiet_settings().instruments[:5])
    with pytest.raises(UsageError, match="of an exchange with other instruments"):
        Exchange(fewer, journal=tmp_path).__enter__()


def test_the_digest_of_instruments_is_that_of_journals_of_version_0_1():
    spread = next(each for each in quiet_settings().instruments if each.symbol == "DIIF27N27")
    assert quiet_settings(instruments=(spread,)).instruments_digest == "aaa3d6f37bf03032"


def test_a_journal_with_implied_orders_is_not_replayed_without_them(tmp_path):
    with Exchange(quiet_settings(implied_orders=True), journal=tmp_path):
        pass
    with pytest.raises(UsageError, match="with implied orders; set implied_orders to true"):
        Exchange(quiet_settings(), journal=tmp_path).__enter__()
    with Exchange(quiet_settings(implied_orders=True), journal=tmp_path) as exchange:
        assert exchange.host.starts == 2


def test_a_session_removed_from_the_settings_is_reported(tmp_path):
    with Exchange(quiet_settings(), journal=tmp_path) as exchange:
        client = exchange.trader()
        client.new(1)
        client.one("ExecutionReport_New")
    others = quiet_settings(sessions=quiet_settings().sessions[1:])
    with pytest.raises(UsageError, match=f"requests of session {SESSION}"):
        Exchange(others, journal=tmp_path).__enter__()


def test_a_new_day_begins_with_the_next_start(tmp_path):
    first = quiet_settings(first_date=date(2026, 5, 28))
    with Exchange(first, journal=tmp_path) as exchange:
        client = exchange.trader(ver=5)
        client.new(1)
        client.single(2, timeInForce="GOOD_TILL_CANCEL", price=11)
        client.read_messages(2)
    following = replace(first, first_date=date(2026, 5, 29))
    with Exchange(following, journal=tmp_path) as exchange:
        status = exchange.control(command="status")
        assert status["trade_date"] == "2026-05-29"
        assert status["orders"] == 1  # the good-till-cancel one
        assert set(status["phases"].values()) == {"OPEN"}
        client = exchange.connect()
        client.send_data(client.peer.negotiate(5, now=time.time_ns()))
        assert client.one("NegotiateReject")["negotiationRejectCode"] == "INVALID_SESSIONVERID"
        client = exchange.connect()
        assert client.log_on(6)["nextSeqNo"] == 1


# Real processes, killed.

CONFIG = """
control = 0
[gateway]
primary = "127.0.0.1:{primary}"
backup = "127.0.0.1:{backup}"
[feed]
mode = "none"
"""


class Process:
    """`pregao exchange` as a separate process."""

    def __init__(self, folder, ports, max_bytes=None):
        """``max_bytes`` limits the size of files, as on a full disk."""
        config = folder / "exchange.toml"
        primary, backup = ports
        config.write_text(CONFIG.format(primary=primary, backup=backup))
        code = "from pregao.cli.main import run; run()"
        if max_bytes is not None:
            limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({max_bytes}, {max_bytes}))"
            code = f"import resource; {limit}; {code}"
        options = ("--config", config, "--journal", folder / "journal")
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, "exchange", *map(str, options)],
            stderr=subprocess.PIPE,
            text=True,
        )
        self.output = []
        for line in self.process.stderr:
            self.output.append(line)
            if "ready" in line:
                break

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stderr.close()


def free_ports(count):
    import socket

    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def test_after_kill_9_no_report_is_lost_and_no_order_done_twice(tmp_path):
    """The process is killed repeatedly while orders flow; numbers show which were accepted."""
    rng = random.Random(7)
    ports = free_ports(2)
    reports = {}
    sent = 0
    for round_number in range(4):
        running = Process(tmp_path, ports)
        client = Client(ports[0])
        if round_number == 0:
            client.log_on()
        else:
            assert any("records of the journal replayed" in line for line in running.output)
            ack = client.establish(1, sent + 1)
            taken, following = ack["lastIncomingSeqNo"], ack["nextSeqNo"]
            assert taken <= sent
            # The restarted exchange knows everything it had reported.
            assert max(reports, default=0) < following
            assert max((each["clOrdID"] for each in reports.values()), default=0) <= taken
            if taken < sent:
                client.one("NotApplied")
            for start in range(1, following, 1000):
                count = min(1000, following - start)
                client.send_data(client.peer.retransmit(start, count, now=time.time_ns()))
                client.one("Retransmission")
                for name, values in client.read_messages(count):
                    number = values["businessHeader"]["msgSeqNum"]
                    assert name == "ExecutionReport_New"
                    assert reports.setdefault(number, values) == values
                client.one("Sequence")
            assert sorted(reports) == list(range(1, following))
        patience = time.monotonic() + 0.15 + rng.random() * 0.2
        client.socket.settimeout(0.02)
        while time.monotonic() < patience or len(reports) < 30 * (round_number + 1):
            for _ in range(20):
                sent += 1
                client.new(sent, quantity=100, price=10)
            with contextlib.suppress(TimeoutError):
                for _, values in client.read_messages(20):
                    reports[values["businessHeader"]["msgSeqNum"]] = values
        running.kill()
        client.close()
    assert len(reports) > 100
    numbers = [values["clOrdID"] for _, values in sorted(reports.items())]
    assert numbers == sorted(set(numbers))
    # In the last round, which has no retransmission, some may not have been received.
    assert {number: values["execID"] for number, values in reports.items()} == {
        number: number for number in reports
    }


def test_the_command_prints_its_address_and_ends_on_request(tmp_path):
    running = Process(tmp_path, free_ports(2))
    assert re.search(r"gateways at 127\.0\.0\.1:\d+ \(primary\)", "".join(running.output))
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(PATIENCE_S) == 0
    running.process.stderr.close()
    shutil.rmtree(tmp_path / "journal")
