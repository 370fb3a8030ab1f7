"""Every field of every EntryPoint message at its extremes: an answer, and nothing worse."""

import pytest

from pregao.exchange.host.host import PRIMARY
from tests.entrypoint.raw_peer import MS, SESSION
from tests.exchange.extreme_frames import changed, samples, session_samples
from tests.exchange.host.test_host_odd_requests import replayed, served, with_feed
from tests.exchange.host_desk import whole_state
from tests.exchange.host_floor import HostFloor


def header_of(floor):
    def header():
        return {
            "sessionID": SESSION,
            "msgSeqNum": floor.numbers[SESSION],
            "sendingTime": floor.now,
            "marketSegmentID": 80,
        }

    return header


@pytest.mark.parametrize("version", [2, 6])
def test_extremes_of_a_session_are_answered_and_survive_a_restart(tmp_path, version):
    floor = HostFloor(tmp_path, version=version)
    data = with_feed(floor)
    peer = floor.peers[SESSION]
    too_long = 0
    count, ended = 0, set()
    for name, frame in samples(peer, header_of(floor)):
        for field, part in changed(name, frame, version):
            floor.now += MS
            (alive,) = served(floor, 1000 + count)
            assert alive.startswith("ExecutionReport_"), (name, field)
            number = floor.numbers[SESSION].to_bytes(4, "little")
            floor.host.receive(floor.lines[SESSION], part[:16] + number + part[20:], floor.now)
            answers = floor.read_messages(SESSION)
            assert answers, (name, field)
            assert floor.host.faults.count == 0, (name, field, answers)
            if answers[-1][0] == "Terminate":
                ended.add((name, field))
            elif "mantissa" in str(answers[-1][1].get("text")):
                assert answers[-1][0] == "BusinessMessageReject"
                too_long += 1
            floor.numbers[SESSION] = floor.host.store.state(SESSION).next_incoming
            count += 1
        data.flush(floor.now)
    assert count > 1500
    assert too_long > 40
    # Other sessions in the header; and lengths of texts that run past the end.
    assert {field for name, field in ended if name != "QuoteRequestReject"} == {"sessionID"}
    again = replayed(floor)
    assert whole_state(again) == whole_state(floor.host)
    assert not again.faults.skipped_records


@pytest.mark.parametrize("version", [2, 6])
@pytest.mark.parametrize("established", [False, True])
def test_extremes_of_the_session_layer_end_a_connection_at_worst(tmp_path, version, established):
    floor = HostFloor(tmp_path, version=version)
    peer, host = floor.peers[SESSION], floor.host
    for name, _ in session_samples(peer, floor.now, 2, 1):
        sample = dict(session_samples(peer, floor.now, 2, 1))[name]
        for field, part in changed(name, sample, version):
            floor.now += MS
            if host.store.state(SESSION).next_incoming >= 2**31:  # a client may skip that many
                host.control({"command": "day", "date": "2026-05-28", "week": True}, floor.now)
            if established:
                (alive,) = served(floor, floor.now // MS % 10**9)
                line = floor.lines[SESSION]
            else:
                alive, line = "", host.connect(PRIMARY, floor.now)
            host.receive(line, part, floor.now)
            host.advance(floor.now)
            assert host.faults.count == 0, (name, field, alive)
    assert whole_state(replayed(floor)) == whole_state(host)
