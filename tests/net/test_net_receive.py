"""Datagrams over loopback: reception, order, times and losses."""

import logging
import socket
import threading
import time

import numpy as np
import pytest

from pregao.errors import NetworkError, UsageError
from pregao.net.addresses import Address, find_interface, parse_address
from pregao.net.receiver import open_receiver
from pregao.net.sender import Sender
from pregao.net.sockets import buffer_warning, dropped, receive_socket
from tests.net.net_support import LO, free_group, free_port, received
from tests.waiting import until

BOTH = pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])


@pytest.fixture
def receiver(compiled):
    made = open_receiver(compiled=compiled)
    yield made
    made.close()


def block(payloads, targets):
    """Payloads as the flat arrays that a sender takes."""
    length = np.array([len(each) for each in payloads], np.int32)
    offset = np.concatenate(([0], np.cumsum(length[:-1]))).astype(np.int64)
    buffer = np.frombuffer(b"".join(payloads), np.uint8)
    return buffer, offset, length, np.array(targets, np.int32)


def until_stamped(sender, receiver):
    """Send single bytes until they are stamped when they come; gives how many that took.

    The kernel begins with it some time after it was asked to, which on a busy machine may be long:
    what comes before is stamped when it is read.
    """
    count = 0

    def stamped():
        nonlocal count
        sender.send_all(*block([b"?"], [0]))
        sent = time.time_ns()
        time.sleep(0.002)
        count += 1
        ((_, _, stamp),) = received(receiver, 1)
        return stamp <= sent

    until(stamped)
    return count


@BOTH
@pytest.mark.parametrize("many", [True, False], ids=["many", "one by one"])
@pytest.mark.usefixtures("one_core")
def test_everything_sent_arrives_in_order_with_the_kernels_time(receiver, many):
    groups = [free_group(), free_group()]
    lines = [receiver.add(receive_socket(each, interface=LO)) for each in groups]
    payloads = [b"%d" % number * (1 + number % 40) for number in range(1500)]
    found = []
    with Sender(groups, interface=LO, compiled=many) as sender:
        sent_before = until_stamped(sender, receiver)
        before = time.time_ns()
        # A kernel that is busy elsewhere keeps some hundred packets and drops the others.
        for at in range(0, 1500, 150):
            sender.send_all(*block(payloads[at : at + 150], [number % 2 for number in range(150)]))
            found += received(receiver, 150)
    after = time.time_ns()
    for each, line in enumerate(lines):
        assert [payload for at, payload, _ in found if at == line] == payloads[each::2]
        # Each line is in order; nothing says which of two lines the kernel looks at first.
        times = [when for at, _, when in found if at == line]
        assert times == sorted(times)
        assert before <= times[0]
        assert times[-1] <= after
    counts = [receiver.counts(line) for line in lines]
    assert [each.packets for each in counts] == [750 + sent_before, 750]
    assert sum(each.bytes for each in counts) == sum(map(len, payloads)) + sent_before
    assert not any(each.dropped or each.truncated for each in counts)


@BOTH
def test_groups_that_were_not_joined_are_not_received(receiver):
    joined = free_group()
    other = Address(free_group().host, joined.port)
    receiver.add(receive_socket(joined, interface=LO))
    # Another process on this machine listens to the other group at the same port.
    with receive_socket(other, interface=LO), Sender([other, joined], interface=LO) as sender:
        sender.send(0, b"not for us")
        sender.send(1, b"for us")
        assert [payload for _, payload, _ in received(receiver, 1)] == [b"for us"]
        assert len(receiver.receive(0.05)) == 0


@BOTH
def test_a_group_is_received_from_the_selected_source_only(receiver):
    wanted, refused = (Address("232." + free_group().host[4:], free_port()) for _ in range(2))
    receiver.add(receive_socket(wanted, interface=LO, source="127.0.0.1"))
    receiver.add(receive_socket(refused, interface=LO, source="127.0.0.9"))
    with Sender([refused, wanted], interface=LO) as sender:
        sender.send(0, b"of another sender")
        sender.send(1, b"of the sender")
        assert [payload for _, payload, _ in received(receiver, 1)] == [b"of the sender"]
        assert len(receiver.receive(0.05)) == 0


@BOTH
def test_lines_come_and_go_while_others_are_received(receiver):
    groups = [free_group() for _ in range(3)]
    with Sender(groups, interface=LO) as sender:
        first = receiver.add(receive_socket(groups[0], interface=LO))
        second = receiver.add(receive_socket(groups[1], interface=LO))
        sender.send(1, b"b")
        assert received(receiver, 1)[0][:2] == (second, b"b")
        receiver.remove(second)
        third = receiver.add(receive_socket(groups[2], interface=LO))
        for target in range(3):
            sender.send(target, b"%d" % target)
        found = {(line, payload) for line, payload, _ in received(receiver, 2)}
        assert found == {(first, b"0"), (third, b"2")}
        assert receiver.counts(first).packets == receiver.counts(third).packets == 1


@BOTH
def test_unicast_short_and_long_datagrams(receiver):
    address = Address("127.0.0.1", free_port())
    line = receiver.add(receive_socket(address))
    payloads = [b"", b"x", bytes(range(256)) * 8, b"y" * 5000, b"z"]
    with Sender([address]) as sender:
        for payload in payloads:
            sender.send(0, payload)
        batch = receiver.receive(1)
    assert [each[:2048] for each in payloads] == batch.payloads()
    assert {number >> 16 for number in batch.source.tolist()} == {0x7F000001}
    assert len({number & 0xFFFF for number in batch.source.tolist()}) == 1
    assert not batch.more
    assert receiver.counts(line).truncated == 1


@BOTH
def test_what_does_not_fit_into_a_batch_is_reported_and_comes_next(receiver):
    group = free_group()
    receiver.add(receive_socket(group, interface=LO))
    with Sender([group], interface=LO) as sender:
        for number in range(1500):
            sender.send(0, b"%d" % number)
    batches = [receiver.receive(1), receiver.receive(1)]
    assert [len(batch) for batch in batches] == [1024, 476]
    assert [batch.more for batch in batches] == [True, False]


@BOTH
def test_what_the_kernel_drops_is_counted_though_nothing_follows(receiver):
    group = free_group()
    small = receive_socket(group, interface=LO, buffer_bytes=8192)
    line = receiver.add(small)
    with Sender([group], interface=LO) as sender:
        for _ in range(200):
            sender.send(0, b"x" * 100)
        found = received(receiver, 200, tries=3)
        counts = receiver.counts(line)
    assert counts.packets == len(found)
    assert counts.dropped == dropped(small) == 200 - len(found) > 0


@BOTH
def test_a_waiting_receiver_can_be_woken_up(receiver):
    receiver.add(receive_socket(free_group(), interface=LO))
    waiting = threading.Thread(target=receiver.receive, args=(30,))
    waiting.start()
    receiver.wake()
    waiting.join(60)
    assert not waiting.is_alive()


@BOTH
def test_a_receiver_without_sockets_waits_and_one_that_spins_receives(compiled):
    group = free_group()
    receiver = open_receiver(compiled=compiled, spin=True)
    assert len(receiver.receive(0.01)) == 0
    receiver.add(receive_socket(group, interface=LO))
    with Sender([group], interface=LO) as sender:
        sender.send(0, b"a")
    assert [payload for _, payload, _ in received(receiver, 1, tries=1000)] == [b"a"]
    receiver.close()


@BOTH
@pytest.mark.parametrize("spin", [True, False], ids=["spinning", "waiting"])
@pytest.mark.parametrize("sockets", [1, 3])
def test_the_error_of_a_socket_names_it(compiled, spin, sockets):
    receiver = open_receiver(compiled=compiled, spin=spin)
    for _ in range(sockets - 1):
        receiver.add(receive_socket(Address("127.0.0.1", free_port())))
    refused = receive_socket(Address("127.0.0.1", free_port()))
    receiver.add(refused)
    assert len(receiver.receive(0.01)) == 0
    refused.connect(("127.0.0.1", free_port()))
    refused.send(b"to nowhere")  # the host answers that the port is closed
    host, port = refused.getsockname()

    def received_the_error():
        try:
            return len(receiver.receive(0.1)) > 0
        except NetworkError as error:
            return str(error)

    assert until(received_the_error) == f"Receiving on {host}:{port} failed: Connection refused."
    assert len(receiver.receive(0.01)) == 0  # reported once
    receiver.close()


@BOTH
@pytest.mark.parametrize("spin", [True, False], ids=["spinning", "waiting"])
def test_an_error_that_arrives_during_a_wait_is_reported(compiled, spin):
    receiver = open_receiver(compiled=compiled, spin=spin)
    refused = receive_socket(Address("127.0.0.1", free_port()))
    refused.connect(("127.0.0.1", free_port()))
    receiver.add(refused)
    sending = threading.Timer(0.2, refused.send, [b"to nowhere"])
    sending.start()
    with pytest.raises(
        NetworkError, match=r"Receiving on 127.0.0.1:\d+ failed: Connection refused"
    ):
        until(lambda: len(receiver.receive(2)), seconds=20)
    sending.join()
    receiver.close()


def test_an_address_in_use_is_a_one_line_error():
    address = Address("127.0.0.1", free_port())
    with (
        receive_socket(address),
        pytest.raises(NetworkError, match=f"Cannot listen on {address}: another program"),
    ):
        receive_socket(address)
    group = free_group()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as alone:
        alone.bind(group)
        with pytest.raises(NetworkError, match="another program listens there"):
            receive_socket(group, interface=LO)
    with pytest.raises(NetworkError, match="neither a local address"):
        receive_socket(Address("192.0.2.77", free_port()))


def test_interfaces_by_name_and_address():
    assert find_interface("127.0.0.1") == find_interface("lo") == LO
    assert find_interface("127.0.0.3") == LO
    with pytest.raises(NetworkError, match=r"no interface 'eth77' .* available: lo \(127.0.0.1\)"):
        find_interface("eth77")


@pytest.mark.parametrize("name", ["127.0.0.1", "127.0.0.3", "lo"])
def test_a_host_without_addresses_has_no_interface(monkeypatch, name):
    monkeypatch.setattr("pregao.net.addresses.interfaces", list)
    with pytest.raises(NetworkError, match=f"no interface '{name}' .* available: none"):
        find_interface(name)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("233.252.14.1", "takes ADDRESS:PORT"),
        ("233.252.14.1:", "takes ADDRESS:PORT"),
        ("233.252.14.1:x", "takes ADDRESS:PORT"),
        ("233.252.14:30001", "'233.252.14' is not an IPv4 address"),
        ("233.252.14.1:0", "0 is not a port"),
        ("233.252.14.1:65536", "65536 is not a port"),
    ],
)
def test_an_invalid_address_is_reported(text, reason):
    with pytest.raises(UsageError, match=f"--to.*{reason}"):
        parse_address(text, "--to")


def test_groups_move_with_their_ports_and_machines_do_not():
    assert parse_address(" 239.1.1.255:31000 ", "--to").moved(2) == ("239.1.2.1", 31002)
    assert parse_address("127.0.0.1:31000", "--to").moved(2) == ("127.0.0.1", 31002)
    with pytest.raises(UsageError, match="65536 is not a port"):
        Address("127.0.0.1", 65535).moved(1)


def test_a_small_buffer_is_reported_with_a_remedy(caplog):
    assert buffer_warning(1000, 1000) is None
    warning = buffer_warning(1 << 25, 1 << 22)
    assert "4,194,304 bytes instead of 33,554,432" in warning
    assert "sysctl -w net.core.rmem_max=33554432" in warning
    with caplog.at_level(logging.WARNING):
        receive_socket(free_group(), interface=LO, buffer_bytes=1 << 16).close()
    assert caplog.messages == []


def test_what_cannot_be_sent_is_a_one_line_error():
    address = Address("127.0.0.1", free_port())
    with (
        Sender([address]) as sender,
        pytest.raises(NetworkError, match=f"Cannot send to {address}: Message too long"),
    ):
        sender.send_all(*block([b"x" * 70_000], [0]))
