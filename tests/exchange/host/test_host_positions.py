"""Exercise, blocking and give-ups over EntryPoint; permitted locations and accounts."""

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from pregao.errors import UsageError
from pregao.exchange.host.host import ExchangeHost
from pregao.exchange.host.journal.journal import Journal
from pregao.exchange.host.settings import parse_settings
from tests.exchange.host_desk import ORDER, parties, whole_state
from tests.exchange.host_floor import SESSIONS, SETTINGS, HostFloor

HOLDER, OTHER = SESSIONS
FIRM = 85
PETRF360 = 100_000_020_014
"""An American call on PETR4 at 36.00."""
SENDER = {"senderLocation": "BVMF", "enteringTrader": "ABC"}
WISH = {
    "securityID": PETRF360,
    "account": 7,
    "posTransType": "EXERCISE",
    "clearingBusinessDate": date(2026, 5, 28),
    "contraryInstructionIndicator": "TRUE_VALUE",
    **SENDER,
}
BLOCK = {
    "securityID": PETRF360,
    "allocTransType": "NEW",
    "allocType": "REQUEST_TO_INTERMEDIARY",
    "allocNoOrdersType": "NOT_SPECIFIED",
    "individualAllocID": 1,
    **SENDER,
}


class Options(HostFloor):
    """An exchange whose clients trade options: segment 81."""

    def send_in_segment(self, session, name, segment=81, **values):
        """Send a message in a market segment; return the replies."""
        header = {
            "sessionID": session,
            "msgSeqNum": self.numbers[session],
            "sendingTime": self.now,
            "marketSegmentID": segment,
        }
        self.numbers[session] += 1
        frame = self.peers[session].frame(name, businessHeader=header, **values)
        self.host.receive(self.lines[session], frame, self.now)
        return self.read_messages(session)

    def order(self, session, number, side, quantity, account=None):
        values = ORDER | parties(number, side, quantity, Decimal("1.20"))
        return self.send_in_segment(
            session, "SimpleNewOrder", **(values | {"securityID": PETRF360, "account": account})
        )


@pytest.fixture(params=[2, 6])
def floor(request, tmp_path):
    made = Options(tmp_path, SETTINGS, request.param)
    made.read_messages(HOLDER)
    made.read_messages(OTHER)
    made.order(OTHER, 1, "SELL", 300, 8)
    made.order(HOLDER, 2, "BUY", 300, 7)
    made.read_messages(OTHER)
    yield made
    made.end()


def test_003_15_2_an_exercise_is_reported_with_the_position(floor):
    messages = floor.send_in_segment(
        HOLDER, "PositionMaintenanceRequest", **WISH, posReqID=5, longQty=200, memo="mine"
    )
    # Both sessions belong to one firm: assignments are reported to all its sessions.
    assigned, answer = (values for _, values in messages)
    assert {name for name, _ in messages} == {"PositionMaintenanceReport"}
    assert (answer["posReqID"], answer["posMaintStatus"]) == (5, "COMPLETED")
    assert (answer["account"], answer["memo"]) == (7, "mine")
    assert answer["tradeID"] == assigned["tradeID"] == 1
    assert [
        (each["posType"], each["longQty"], each["shortQty"]) for each in answer["noPositions"]
    ] == [("TRANSACTION_QUANTITY", 300, None), ("OPTION_EXERCISE_QTY", 200, None)]
    assert (assigned["posReqID"], assigned["account"], assigned["memo"]) == (None, 8, None)
    ((name, _),) = floor.read_messages(OTHER)
    assert name == "PositionMaintenanceReport"
    expected = whole_state(floor.host)
    held = floor.host.engine.market.positions.of(FIRM, 7, PETRF360).long
    assert held == 100
    floor.host.commit()
    folder = floor.folder
    floor.journal.close()
    journal = Journal(folder)
    again = ExchangeHost(floor.settings, journal)
    again.replay()
    assert whole_state(again) == expected
    assert again.engine.market.positions.of(FIRM, 7, PETRF360).long == held
    floor.journal = journal


def test_003_15_2_a_refusal_names_why(floor):
    ((_, report),) = floor.send_in_segment(
        HOLDER, "PositionMaintenanceRequest", **WISH, posReqID=6, longQty=301
    )
    assert (report["posMaintStatus"], report["posMaintResult"]) == ("REJECTED", 2115)
    assert report["text"] == "The account's position is too small: 301 of 300"
    ((_, report),) = floor.send_in_segment(
        HOLDER,
        "PositionMaintenanceCancelRequest",
        posReqID=7,
        securityID=PETRF360,
        origPosReqRefID=6,
        **SENDER,
    )
    assert (report["posMaintAction"], report["posMaintStatus"]) == ("CANCEL", "REJECTED")
    assert report["text"] == "The request is unknown or no longer pending"


def test_003_15_2_a_request_for_the_last_day_is_kept_and_cancelled(floor):
    wish = WISH | {"posTransType": "EXERCISE_NOT_AUTOMATIC"}
    ((_, report),) = floor.send_in_segment(
        HOLDER, "PositionMaintenanceRequest", **wish, posReqID=6, longQty=1
    )
    assert report["posMaintStatus"] == "ACCEPTED"
    ((_, report),) = floor.send_in_segment(
        HOLDER,
        "PositionMaintenanceCancelRequest",
        posReqID=7,
        securityID=PETRF360,
        posMaintRptRefID=report["posMaintRptID"],
        **SENDER,
    )
    assert (report["posReqID"], report["origPosReqRefID"]) == (7, 6)
    assert (report["posMaintAction"], report["posMaintStatus"]) == ("CANCEL", "ACCEPTED")


def test_003_15_2_a_purchase_is_allocated_to_block_what_was_written(floor):
    floor.order(HOLDER, 3, "SELL", 100, 7)
    traded = [values for name, values in floor.order(OTHER, 4, "BUY", 100) if "Trade" in name]
    number = traded[0]["tradeID"]
    ((name, report),) = floor.send_in_segment(
        OTHER, "AllocationInstruction", **BLOCK, allocID=9, quantity=100, tradeID=number,
        allocAccount=8, allocQty=100,
    )  # fmt: skip
    assert name == "AllocationReport"
    assert (report["allocID"], report["allocStatus"], report["allocRejCode"]) == (
        9,
        "ACCEPTED",
        None,
    )
    assert floor.host.engine.market.positions.of(FIRM, 8, PETRF360).blocked == 100
    ((_, report),) = floor.send_in_segment(
        OTHER, "AllocationInstruction", **BLOCK, allocID=10, quantity=100, tradeID=number,
        allocAccount=8, allocQty=1,
    )  # fmt: skip
    assert (report["allocStatus"], report["allocRejCode"]) == ("REJECTED_BY_INTERMEDIARY", 2115)
    ((_, report),) = floor.send_in_segment(
        OTHER, "AllocationInstruction", **(BLOCK | {"allocTransType": "CANCEL"}), allocID=9,
        quantity=100, tradeID=number, allocAccount=8, allocQty=100,
    )  # fmt: skip
    assert (report["allocTransType"], report["allocStatus"]) == ("CANCEL", "ACCEPTED")
    assert floor.host.engine.market.positions.of(FIRM, 8, PETRF360).blocked == 0


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("PositionMaintenanceRequest", {"posReqID": 0, "longQty": 1}, "posReqID needs a value"),
        (
            "PositionMaintenanceRequest",
            {"posReqID": 1, "longQty": 1, "thresholdAmount": -1},
            "thresholdAmount is negative",
        ),
        (
            "PositionMaintenanceRequest",
            {"posReqID": 1, "longQty": 1, "senderLocation": ""},
            "senderLocation needs a value",
        ),
        ("PositionMaintenanceCancelRequest", {"posReqID": 1}, "must name the request to cancel"),
    ],
)
def test_a_malformed_message_gets_a_business_reject(floor, name, values, words):
    usual = WISH if name == "PositionMaintenanceRequest" else SENDER | {"securityID": PETRF360}
    ((reply, reject),) = floor.send_in_segment(HOLDER, name, **(usual | values))
    assert reply == "BusinessMessageReject"
    assert words in reject["text"]


def test_003_14_2_2_operations_link_accounts_and_answer_give_ups(floor):
    link = {"command": "give-up", "firm": FIRM, "account": 1234, "to_firm": 127, "to_account": 9898}
    floor.host.control(link, floor.now)
    floor.order(OTHER, 5, "SELL", 100, 8)
    ((_, _), (_, trade)) = floor.order(HOLDER, 6, "BUY", 100, 1234)
    assert trade["account"] == 1234
    (number,) = floor.host.engine.market.give_ups
    floor.host.control({"command": "take-up", "id": number}, floor.now)
    positions = floor.host.engine.market.positions
    assert positions.of(127, 9898, PETRF360).long == 100
    with pytest.raises(UsageError, match="is pending"):
        floor.host.control({"command": "take-up", "id": number, "refuse": True}, floor.now)
    start = {"command": "position", "firm": 127, "account": 3, "symbol": "PETRF360", "long": 900}
    floor.host.control(start, floor.now)
    assert positions.of(127, 3, PETRF360).start_long == 900


# Rights (003 §9, §11, §13).

RIGHTS = {"locations": frozenset({"BVMF"}), "traders": frozenset({"ABC"}),
          "accounts": frozenset({7, 8})}  # fmt: skip


def with_rights(**rights):
    first, *others = SETTINGS.sessions
    return replace(SETTINGS, sessions=(replace(first, **rights), *others))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"senderLocation": "DMA1"}, "senderLocation DMA1 is not allowed for this session"),
        ({"enteringTrader": "XYZ"}, "trader XYZ is not allowed for this session"),
        ({"account": 9}, "account 9 is not allowed for this session"),
    ],
)
def test_003_9_what_a_session_may_not_use_is_refused(tmp_path, changes, words):
    floor = HostFloor(tmp_path, with_rights(**RIGHTS))
    floor.read_messages(HOLDER)
    floor.read_messages(OTHER)
    order = ORDER | parties(1, "BUY", 100, 32) | {"account": 7}
    ((name, reply),) = floor.send(HOLDER, "SimpleNewOrder", **(order | changes))
    assert (name, reply["businessRejectReason"]) == ("BusinessMessageReject", 6)
    assert reply["text"] == words
    ((name, _),) = floor.send(HOLDER, "SimpleNewOrder", **order)
    assert name == "ExecutionReport_New"
    # Another session may use anything: that is the default.
    ((name, _),) = floor.send(OTHER, "SimpleNewOrder", **(order | changes))
    assert name == "ExecutionReport_New"
    floor.end()


def test_003_11_the_access_category_is_checked_in_every_message(tmp_path):
    floor = HostFloor(tmp_path, with_rights(**RIGHTS))
    floor.read_messages(HOLDER)
    sides = [{"side": "BUY", "clOrdID": 7, "account": 9}, {"side": "SELL", "clOrdID": 8}]
    cross = {"crossID": 5, "securityID": 100_000_010_014, "orderQty": 100, "price": 32}
    replies = [
        floor.send(HOLDER, "NewOrderCross", **cross, noSides=sides, **SENDER),
        floor.send(
            HOLDER, "OrderCancelRequest", clOrdID=2, origClOrdID=1, securityID=5, side="BUY",
            senderLocation="DMA3", enteringTrader="ABC",
        ),
    ]  # fmt: skip
    assert [values["text"] for ((_, values),) in replies] == [
        "account 9 is not allowed for this session",
        "senderLocation DMA3 is not allowed for this session",
    ]
    floor.end()


def test_a_journal_keeps_the_rights_that_held(tmp_path):
    floor = HostFloor(tmp_path, with_rights())
    floor.read_messages(HOLDER)
    floor.send(HOLDER, "SimpleNewOrder", **(ORDER | parties(1, "BUY", 100, 32)))
    expected = whole_state(floor.host)
    floor.settings = with_rights(locations=frozenset({"DMA1"}))
    again = floor.again()
    assert whole_state(again) == expected
    assert len(again.engine.market.orders) == 1


def test_rights_are_configured():
    row = {"id": 5, "firm": 85, "access_key": "k", "locations": ["BVMF"], "accounts": [1]}
    (account,) = parse_settings({"session": [row]}).sessions
    assert (account.locations, account.traders) == (frozenset({"BVMF"}), None)
    assert account.accounts == frozenset({1})
    for wrong in ({"locations": "BVMF"}, {"accounts": ["1"]}, {"traders": []}):
        with pytest.raises(UsageError, match="must be a list such as"):
            parse_settings({"session": [row | wrong]})
