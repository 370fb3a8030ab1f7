"""The asyncio client over real sockets: it holds its session, follows its orders, comes back."""

import asyncio
import random
import socket
import time
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal

import pytest

from pregao.entrypoint import (
    Client,
    ClientSettings,
    ClientTimeoutError,
    ConnectionFailed,
    GatewaySettings,
    MessageReceived,
    NotAppliedError,
    NotAppliedGap,
    ReconnectPolicy,
    RequestBuilder,
    RequestDefaults,
    SessionEstablished,
    SessionFile,
    SessionRefusedError,
    SessionStore,
)
from pregao.errors import UsageError
from tests.entrypoint.raw_peer import FIRM, KEY, SESSION
from tests.entrypoint.tcp_desk import Market, TcpDesk
from tests.waiting import PATIENCE_S

SETTINGS = ClientSettings(SESSION, FIRM, KEY, keep_alive_ms=30_000)
QUICK = ReconnectPolicy(first_s=0.001, max_delay_s=0.01)


def order(client_id, **changes):
    values = {
        "clOrdID": client_id, "mmProtectionReset": "FALSE_VALUE", "senderLocation": "SP",
        "enteringTrader": "ABC", "selfTradePreventionInstruction": "NONE", "securityID": 5,
        "side": "BUY", "ordType": "LIMIT", "timeInForce": "DAY", "orderQty": 100,
        "price": Decimal("10.5"), "marketSegmentID": 80,
    }  # fmt: skip
    return values | changes


def change(client_id, original, **changes):
    return order(client_id, origClOrdID=original, **changes)


def cancel(client_id, original):
    return {
        "clOrdID": client_id, "origClOrdID": original, "securityID": 5, "side": "BUY",
        "senderLocation": "SP", "enteringTrader": "ABC", "marketSegmentID": 80,
    }  # fmt: skip


def run(work):
    asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def same(client, market):
    """The orders that client and market have, side by side."""
    known = {
        each.order_id: (each.cl_ord_id, each.quantity, each.cumulative, each.leaves, each.status,
                        each.chain)
        for each in client.orders if each.order_id is not None
    }  # fmt: skip
    there = {
        number: (each["client"], each["quantity"], each["cumulative"], each["leaves"],
                 each["status"], each["chain"])
        for number, each in market.orders.items()
    }  # fmt: skip
    return known, there


def test_an_order_from_its_entry_to_its_end():
    async def work():
        async with TcpDesk() as desk, Client(SETTINGS, [desk.address]) as client:
            entered = await client.request("SimpleNewOrder", order(1))
            assert entered.name == "ExecutionReport_New"
            mine = client.orders.get(1)
            assert (mine.status, mine.leaves, mine.working) == ("NEW", 100, True)
            modified = await client.request("SimpleModifyOrder", change(2, 1, orderQty=150))
            assert modified.name == "ExecutionReport_Modify"
            assert client.orders.get(2) is mine
            assert (mine.chain, mine.leaves, mine.pending) == ([1, 2], 150, {})
            refused = await client.request("SimpleModifyOrder", change(3, 77))
            assert refused.name == "ExecutionReport_Reject"
            gone = await client.request("OrderCancelRequest", cancel(4, 2))
            assert gone.name == "ExecutionReport_Cancel"
            assert (mine.status, mine.leaves, mine.chain) == ("CANCELED", 0, [1, 2, 4])
            traded = await client.request("SimpleNewOrder", order(5, orderQty=30))
            assert traded.name == "ExecutionReport_New"
            known, there = same(client, desk.market)
            assert known == there
            bad = await client.request("SimpleNewOrder", order(6, orderQty=13))
            assert bad.message["text"] == "unlucky"
            assert client.orders.get(6).status == "REJECTED"
            assert client.orders.unanswered == []

    run(work())


def test_cross_and_mass_cancel():
    async def work():
        async with TcpDesk() as desk, Client(SETTINGS, [desk.address]) as client:
            sides = [
                {"side": side, "account": None, "enteringFirm": FIRM, "clOrdID": number}
                for side, number in (("BUY", 10), ("SELL", 11))
            ]
            crossed = await client.request("NewOrderCross", {
                "crossID": 9, "senderLocation": "SP", "enteringTrader": "ABC", "securityID": 5,
                "orderQty": 40, "price": 10, "noSides": sides, "marketSegmentID": 80,
            })  # fmt: skip
            assert crossed.message["crossID"] == 9
            await client.request("SimpleNewOrder", order(12))
            assert [each.cl_ord_id for each in client.orders.working()] == [10, 11, 12]
            values = {"massActionType": "CANCEL_ORDERS", "clOrdID": 13, "marketSegmentID": 80}
            done = await client.request("OrderMassActionRequest", values)
            assert done.message["massActionResponse"] == "ACCEPTED"
            await client.request("SimpleNewOrder", order(14))
            assert [each.cl_ord_id for each in client.orders.working()] == [14]
            assert client.orders.unanswered == []

    run(work())


def test_business_rejects_answer_requests():
    async def work():
        async with TcpDesk() as desk, Client(SETTINGS, [desk.address]) as client:
            refused = await client.request("SimpleNewOrder", order(1, side=64))
            assert refused.name == "BusinessMessageReject"
            assert client.orders.get(1).status == "REJECTED"

    run(work())


def test_events_report_everything_in_order():
    async def work():
        async with TcpDesk() as desk:
            client = Client(SETTINGS, [desk.address], reconnecting=QUICK)
            events = client.events()
            client.start()
            await client.ready()
            for number in range(1, 6):
                await client.send("SimpleNewOrder", order(number))
            received = []
            while sum(isinstance(each, MessageReceived) for each in received) < 5:
                received.append(await anext(events))
            await client.close()
            received += [each async for each in events]
            names = [type(each).__name__ for each in received]
            assert names[:2] == ["SessionNegotiated", "SessionEstablished"]
            assert names[-1] == "ConnectionEnded"
            assert received[-1].graceful
            assert [each.number for each in received if isinstance(each, MessageReceived)] == [
                1,
                2,
                3,
                4,
                5,
            ]

    run(work())


def test_003_5_5_the_backup_takes_over_when_the_primary_fails():
    async def work():
        store, market = SessionStore(), Market()
        primary = await TcpDesk(store=store, market=market).start()
        backup = TcpDesk(store=store, market=market, rules=GatewaySettings(gateway=2))
        await backup.start()
        gateways = [primary.address, backup.address]
        client = Client(SETTINGS, gateways, reconnecting=QUICK)
        events = client.events()
        client.start()
        await client.request("SimpleNewOrder", order(1))
        await primary.stop()
        while client.established:
            await asyncio.sleep(0.001)
        await client.request("SimpleNewOrder", order(2))
        await client.close()
        received = [each async for each in events]
        assert any(isinstance(each, ConnectionFailed) for each in received)
        held = [each for each in received if isinstance(each, SessionEstablished)]
        assert len(held) == 2
        assert held[0].session_ver_id == held[1].session_ver_id
        assert held[1].next_outgoing == 2
        known, there = same(client, market)
        assert known == there
        await backup.stop()

    run(work())


@pytest.mark.parametrize(
    ("key", "firm", "code"), [("wrong", FIRM, "CREDENTIALS"), (KEY, 1, "INVALID_FIRM")]
)
def test_a_refusal_for_good_is_an_error_and_not_tried_again(key, firm, code):
    async def work():
        async with TcpDesk() as desk:
            with pytest.raises(SessionRefusedError, match=code):
                async with Client(ClientSettings(SESSION, firm, key), [desk.address]):
                    raise AssertionError
            assert desk.connections == 1

    run(work())


def test_a_client_without_gateway_or_start_reports_it():
    async def work():
        with pytest.raises(UsageError, match="at least one gateway"):
            Client(SETTINGS, [])
        client = Client(SETTINGS, [("127.0.0.1", 9)])
        with pytest.raises(UsageError, match="not started"):
            await client.ready()
        with pytest.raises(UsageError, match="not established"):
            client.send_now("SimpleNewOrder", order(1))

    run(work())


def test_a_request_that_the_exchange_did_not_receive_fails():
    """The connection breaks before the order arrives; the exchange continues without it."""

    async def work():
        budgets = iter([420])
        async with TcpDesk(budget=lambda: next(budgets, None)) as desk:
            client = Client(SETTINGS, [desk.address], reconnecting=QUICK)
            events = client.events()
            client.start()
            with pytest.raises(NotAppliedError, match="send it again"):
                await client.request("SimpleNewOrder", order(1))
            assert client.orders.get(1).status == "NOT_APPLIED"
            again = await client.request("SimpleNewOrder", order(2))
            assert again.name == "ExecutionReport_New"
            await client.close()
            gaps = [each async for each in events if isinstance(each, NotAppliedGap)]
            assert [gap.count for gap in gaps] == [1]

    run(work())


class LateReports(Client):
    """A client that gets what the gateway retransmits only after its first request."""

    late = None

    def on_data(self, data):
        if not self.established:
            super().on_data(data)
        elif self.late is None:
            self.late = [data]
        else:
            self.late.append(data)

    def send_now(self, name, values):
        number = super().send_now(name, values)
        asyncio.get_running_loop().call_later(0.02, self.catch_up)
        return number

    def catch_up(self):
        late, self.late = self.late or [], []
        for data in late:
            super().on_data(data)
        asyncio.get_running_loop().call_later(0.001, self.catch_up)


@pytest.mark.parametrize("ended", [True, False])
def test_a_retransmitted_report_does_not_answer_a_later_request(ended):
    """A client that lost its state repeats the numbers of an order that ended, or is active."""

    async def work():
        async with TcpDesk() as desk:
            async with Client(SETTINGS, [desk.address]) as client:
                await client.request("SimpleNewOrder", order(1))
                if ended:
                    await client.request("OrderCancelRequest", cancel(2, 1))
                    desk.market.by_client.clear()  # the numbers are free again
            async with LateReports(SETTINGS, [desk.address]) as client:
                entered = await client.request("SimpleNewOrder", order(1, orderQty=200))
                mine = client.orders.get(1)
                assert (entered.again, entered.message["orderQty"]) == (False, 200)
                assert (mine.leaves, mine.chain, mine.pending) == (200 if ended else 0, [1], {})
                assert mine.status == ("NEW" if ended else "REJECTED")
                known, there = same(client, desk.market)
                assert known == there
                if ended:
                    gone = await client.request("OrderCancelRequest", cancel(2, 1))
                    assert (gone.again, gone.message["orderQty"]) == (False, 200)
                    assert (mine.status, mine.chain) == ("CANCELED", [1, 2])
                    assert client.orders.get(2) is mine
                assert client.orders.unanswered == []

    run(work())


def test_an_answer_that_was_lost_with_its_connection_is_retransmitted():
    async def work():
        retransmitted = 0
        for budget in range(380, 780, 20):
            budgets = iter([budget])
            async with TcpDesk(budget=lambda budgets=budgets: next(budgets, None)) as desk:
                client = Client(SETTINGS, [desk.address], reconnecting=QUICK)
                client.start()
                with suppress(NotAppliedError):
                    answer = await client.request("SimpleNewOrder", order(1))
                    assert answer.message["clOrdID"] == 1
                    assert client.orders.get(1).status == "NEW"
                    retransmitted += answer.again
                await client.close()
        assert retransmitted

    run(work())


def test_the_number_of_an_active_order_or_an_unanswered_request_is_refused_before_sending():
    async def work():
        async with TcpDesk() as desk, Client(SETTINGS, [desk.address]) as client:
            await client.request("SimpleNewOrder", order(1))
            await client.request("SimpleModifyOrder", change(2, 1, orderQty=150))
            for number in (1, 2):
                with pytest.raises(UsageError, match=f"{number} belongs to the active order 1000"):
                    await client.request("SimpleNewOrder", order(number))
                with pytest.raises(UsageError, match="active order"):
                    client.send_now("SimpleModifyOrder", change(number, 2))
            desk.silent = True
            await client.send("SimpleNewOrder", order(3))
            with pytest.raises(UsageError, match="3 belongs to an unanswered request"):
                await client.send("OrderCancelRequest", cancel(3, 2))
            sides = [
                {"side": side, "clOrdID": number} for side, number in (("BUY", 9), ("SELL", 3))
            ]
            with pytest.raises(UsageError, match="3 belongs to an unanswered request"):
                await client.send("NewOrderCross", {"crossID": 1, "noSides": sides})
            assert client.next_number == 4
            desk.silent = False
            await client.request("OrderCancelRequest", cancel(4, 2))
            # The order has ended: its numbers can be used again.
            await client.send("SimpleNewOrder", order(1))
            assert client.next_number == 6

    run(work())


def test_numbers_follow_the_last_one_of_the_session_file(tmp_path):
    async def work():
        async with TcpDesk() as desk:
            store = SessionFile(tmp_path / "session")
            async with Client(SETTINGS, [desk.address], store) as client:
                await client.request("SimpleNewOrder", order(41))
                await client.request("OrderCancelRequest", cancel(77, 41))
            store.close()
            store = SessionFile(tmp_path / "session")
            async with Client(SETTINGS, [desk.address], store) as client:
                requests = client.request_builder(RequestDefaults(location="SP", trader="ABC"))
                name, values = requests.new("BUY", 5, 100, Decimal("10.5"))
                assert values["clOrdID"] == 78
                await client.request(name, values)
                name, values = requests.cancel(client.orders.get(78))
                assert (values["clOrdID"], values["origClOrdID"]) == (79, 78)
                cross = requests.cross(5, 100, Decimal(10), FIRM)[1]
                assert [side["clOrdID"] for side in cross["noSides"]] == [80, 81]
                assert requests.mass_cancel()[1]["clOrdID"] == 83
            store.close()

    run(work())


def test_numbers_without_a_session_file_follow_the_time():
    client = Client(SETTINGS, [("127.0.0.1", 9)], clock=lambda: 1_700_000_000_000_000_999)
    assert client.request_builder().next_id() == 1_700_000_000_000_001
    first, second = RequestBuilder(2).next_id(), RequestBuilder(6).next_id()
    assert 0 < second - first < 10**9
    assert abs(first - time.time_ns() // 1_000) < 10**9


def test_a_closed_port_is_an_error_with_one_sentence_within_the_timeout():
    async def work():
        with socket.create_server(("127.0.0.1", 0)) as listening:
            closed = listening.getsockname()
        waits = ReconnectPolicy(first_s=0.001, max_delay_s=0.01, start_s=0.2)
        sentence = rf"cannot connect to 127\.0\.0\.1:{closed[1]}: Connection refused\.$"
        with pytest.raises(ClientTimeoutError, match=rf"^No session within 0\.2 s: {sentence}"):
            async with Client(SETTINGS, [closed], reconnecting=waits):
                raise AssertionError
        client = Client(SETTINGS, [closed], reconnecting=waits)
        client.start()
        with pytest.raises(ClientTimeoutError, match=rf"^No session within 0\.1 s: {sentence}"):
            await client.request("SimpleNewOrder", order(1), timeout_s=0.1)
        await client.close()

    run(work())


def test_an_answer_that_does_not_arrive_is_an_error_that_names_the_request():
    async def work():
        async with TcpDesk() as desk, Client(SETTINGS, [desk.address]) as client:
            desk.silent = True
            with pytest.raises(ClientTimeoutError, match=r"^No answer to SimpleNewOrder with clOr"):
                await client.request("SimpleNewOrder", order(1), timeout_s=0.05)

    run(work())


def test_the_session_resumes_in_another_process(tmp_path):
    """A session file is enough to recover every order, and no number is used twice."""

    async def work():
        async with TcpDesk() as desk:
            path = tmp_path / "session"
            store = SessionFile(path)
            async with Client(SETTINGS, [desk.address], store) as client:
                await client.request("SimpleNewOrder", order(1, orderQty=90))
                await client.request("SimpleModifyOrder", change(2, 1, orderQty=120))
                await client.request("SimpleNewOrder", order(3, orderQty=13))
                before = list(client.orders)
            store.close()
            store = SessionFile(path)
            async with Client(SETTINGS, [desk.address], store) as client:
                assert list(client.orders) == before
                assert client.next_number == 4
                await client.request("OrderCancelRequest", cancel(4, 2))
                known, there = same(client, desk.market)
                assert known == there
            store.close()
            assert KEY.encode() not in path.read_bytes()

    run(work())


@pytest.mark.parametrize("version", [2, 6])
def test_003_4_6_3_2_republished_messages_count_once_also_after_a_restart(version, tmp_path):
    async def work():
        settings = replace(SETTINGS, version=version)
        async with TcpDesk() as desk:
            store = SessionFile(tmp_path / "session")
            async with Client(settings, [desk.address], store) as client:
                events = client.events()
                await client.request("SimpleNewOrder", order(1, orderQty=90))
                while not (isinstance(last := await anext(events), MessageReceived)
                           and last.name == "ExecutionReport_Trade"):  # fmt: skip
                    pass
            store.close()
            again = last.message.values | {"businessHeader": None}
            del again["businessHeader"]
            store = SessionFile(tmp_path / "session")
            async with Client(settings, [desk.address], store) as client:
                events = client.events()
                session = desk.sessions[SESSION]
                for exec_id, lots in ((again["execID"], 60), (9_999, 30)):
                    report = again | {"execID": exec_id, "cumQty": 90 - lots, "leavesQty": lots}
                    session.send("ExecutionReport_Trade", report, time.time_ns(), resend=True)
                names = []
                while "MessageReceived" not in names:
                    names.append(type(await anext(events)).__name__)
                assert names[-2:] == ["DuplicateIgnored", "MessageReceived"]
                assert client.orders.get(1).cumulative == 60
            store.close()

    run(work())


def test_003_4_5_1_another_day_begins_with_new_numbers():
    async def work():
        async with (
            TcpDesk() as desk,
            Client(SETTINGS, [desk.address], reconnecting=QUICK) as client,
        ):
            await client.request("SimpleNewOrder", order(1))
            await client.request("SimpleNewOrder", order(2))
            desk.silent = True
            await client.send("SimpleNewOrder", order(3))
            while desk.sessions[SESSION].state.next_incoming < 4:
                await asyncio.sleep(0.001)
            desk.silent = False
            desk.sessions.reset_day(time.time_ns())
            while client.established:
                await asyncio.sleep(0.001)
            report = await client.request("SimpleNewOrder", order(4))
            assert report.number == 1
            assert client.orders.unanswered == []
            assert [each.cl_ord_id for each in client.orders.working()] == [1, 2, 4]
            assert client.orders.get(3).status == "PENDING_NEW"

    run(work())


def test_a_slow_consumer_makes_the_client_read_no_more_and_loses_nothing():
    async def work():
        async with TcpDesk() as desk:
            client = Client(replace(SETTINGS, keep_alive_ms=500), [desk.address])
            events = client.events(max_events=10)
            client.start()
            await client.ready()
            for number in range(1, 301):
                await client.send("SimpleNewOrder", order(number))
            await asyncio.sleep(1.2)  # a gateway that was silent for so long would be given up
            assert client.established
            got = []
            while len(got) < 300:
                event = await anext(events)
                if isinstance(event, MessageReceived) and event.name == "ExecutionReport_New":
                    got.append(event.message["clOrdID"])
            assert got == list(range(1, 301))
            await client.close()

    run(work())


def test_a_gateway_that_does_not_read_makes_senders_wait():
    async def work():
        async with TcpDesk() as desk, Client(SETTINGS, [desk.address]) as client:
            (link,) = desk.links
            link.transport.pause_reading()
            sent = 0

            async def send_on():
                nonlocal sent
                while True:
                    await client.send("SimpleNewOrder", order(sent + 1))
                    sent += 1
                    if sent % 100 == 0:
                        await asyncio.sleep(0)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(send_on(), 0.4)
            link.transport.resume_reading()
            await client.request("SimpleNewOrder", order(10_000_000))
            assert len(desk.executed) == sent + 1
            assert client.orders.unanswered == []

    run(work())


@pytest.mark.parametrize("seed", range(6))
def test_client_and_exchange_agree_over_a_link_that_breaks_anywhere(seed, tmp_path):
    """Orders, changes and cancels while connections break at random bytes: both know the same."""
    rng = random.Random(seed)

    async def work():
        def budget():
            return None if calm else rng.choice([30, 200, 700, 1500, 4000])

        calm = False
        async with TcpDesk(budget=budget) as desk:
            store = SessionFile(tmp_path / "session")
            client = Client(SETTINGS, [desk.address], store, reconnecting=QUICK)
            client.start()
            sent = []
            for number in range(1, 120):
                known = [each for each in client.orders.working() if not each.pending]
                roll = rng.random()
                if known and roll < 0.3:
                    chosen = rng.choice(known)
                    values = change(number, chosen.cl_ord_id, orderQty=rng.randrange(1, 400))
                    await client.send("SimpleModifyOrder", values)
                elif known and roll < 0.5:
                    values = cancel(number, rng.choice(known).cl_ord_id)
                    await client.send("OrderCancelRequest", values)
                else:
                    quantity = rng.choice([13, rng.randrange(1, 300)])
                    await client.send("SimpleNewOrder", order(number, orderQty=quantity))
                sent.append(number)
                if rng.random() < 0.3:
                    await asyncio.sleep(0.001)
                if rng.random() < 0.05 and seed % 2:
                    await client.close()
                    store.close()
                    store = SessionFile(tmp_path / "session")
                    client = Client(SETTINGS, [desk.address], store, reconnecting=QUICK)
                    client.start()
            calm = True
            while True:
                sent.append(0)
                with suppress(NotAppliedError):  # the last connection may still break
                    await client.request("SimpleNewOrder", order(1_000_000 + len(sent)))
                if not client.orders.unanswered:
                    break
            known, there = same(client, desk.market)
            assert known == there
            assert desk.breaks > 3
            assert len({number for _, number in desk.executed}) == len(desk.executed)
            await client.close()
            store.close()

    run(work())
