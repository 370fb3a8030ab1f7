"""Client and gateway over a link that breaks anywhere: nothing lost, nothing twice."""

import random

import pytest

from pregao.entrypoint import (
    ClientSession,
    ClientSettings,
    ConnectionStage,
    GatewayConnection,
    GatewaySessions,
    GatewaySettings,
    SessionAccount,
    SessionStore,
)
from tests.entrypoint.raw_peer import FIRM, KEY, MS, SESSION, START
from tests.entrypoint.scripted_gateway import ORDER

REPORT = {"refMsgType": "SimpleNewOrder", "businessRejectReason": 0}


class Link:
    """Both ends, and a connection that may end at any byte of either direction.

    With ``failures`` either end may be started again meanwhile, and a backup take over. With
    ``forgetting`` the client may lose all that it knew (§5.4).
    """

    def __init__(self, seed, version, *, failures=False, forgetting=False):
        self.rng = random.Random(seed)
        self.now = START
        self.failures = failures
        self.forgetting = forgetting
        self.gateway_store, self.client_store = SessionStore(), SessionStore()
        self.settings = ClientSettings(SESSION, FIRM, KEY, version=version)
        self.gateway = 1
        self.start_gateway()
        self.start_client()
        self.line = None
        self.executed, self.reported, self.not_applied = [], [], []
        self.breaks = 0

    def start_gateway(self):
        part = self.rng.choice([1, 3, 100])
        rules = GatewaySettings(retransmission_part=part, gateway=self.gateway)
        account = SessionAccount(SESSION, FIRM, KEY)
        self.gateways = GatewaySessions([account], self.gateway_store, rules)

    def start_client(self):
        self.client = ClientSession(self.settings, self.client_store)

    def step(self, *, breaking):
        self.now += self.rng.randrange(1, 200) * MS
        if self.line is None:
            self.client.connect(self.now, self.gateway)
            self.line = GatewayConnection(self.gateways, self.now)
        self.record_events(self.client.advance(self.now))
        self.served(self.line.advance(self.now))
        if self.client.stage is ConnectionStage.ESTABLISHED:
            for _ in range(self.rng.randrange(4)):
                self.client.send("SimpleNewOrder", ORDER, self.now)
        to_gateway = self.client.take_output()
        if breaking and self.rng.random() < 0.3:
            cut = self.rng.randrange(len(to_gateway) + 1)
            self.served(self.line.receive(to_gateway[:cut], self.now))
            output = self.line.take_output()
            cut = self.rng.randrange(len(output) + 1)
            self.record_events(self.client.receive(output[:cut], self.now))
            self.break_off()
            return
        self.exchange(to_gateway)
        if self.line is not None and (self.client.closing or self.line.closing):
            self.break_off()

    def exchange(self, to_gateway):
        """Both directions, until neither has more to say."""
        while True:
            self.served(self.line.receive(to_gateway, self.now))
            output = self.line.take_output()
            while self.line.unfinished:
                self.line.continue_retransmission(self.now)
                output += self.line.take_output()
            self.record_events(self.client.receive(output, self.now))
            to_gateway = self.client.take_output()
            if not output and not to_gateway:
                return

    def break_off(self):
        self.served(self.line.lost(self.now))
        self.record_events(self.client.lost())
        self.line = None
        self.breaks += 1
        if self.forgetting and self.rng.random() < 0.2:
            self.client_store = SessionStore()
            self.start_client()
            self.reported = []
        if self.failures:
            what = self.rng.randrange(4)
            if what == 0:
                self.start_client()
            elif what == 1:
                self.start_gateway()
            elif what == 2 and self.rng.random() < 0.2:
                self.gateway = 2  # the primary does not come back
                self.start_gateway()

    def served(self, events):
        for event in events:
            if type(event).__name__ == "MessageReceived":
                self.executed.append(event.number)
                values = {**REPORT, "refSeqNum": event.number}
                self.gateways[SESSION].send("BusinessMessageReject", values, self.now)

    def record_events(self, events):
        for event in events:
            if type(event).__name__ == "MessageReceived":
                self.reported.append(event.message["refSeqNum"])
            elif type(event).__name__ == "NotAppliedGap":
                self.not_applied += range(event.first, event.first + event.count)


def run(link):
    """Many broken connections, then a working one."""
    for _ in range(120):
        link.step(breaking=True)
    link.failures = link.forgetting = False
    for _ in range(6):
        link.step(breaking=False)
    link.client.send("SimpleNewOrder", ORDER, link.now)
    link.exchange(link.client.take_output())


@pytest.mark.parametrize("failures", [False, True])
@pytest.mark.parametrize("version", [2, 6])
@pytest.mark.parametrize("seed", [*range(10), 188])
def test_every_order_is_executed_and_reported_once_or_not_applied(seed, version, failures):
    link = Link(seed, version, failures=failures)
    run(link)
    assert link.breaks > 10
    assert len(link.executed) > 40
    assert len(link.not_applied) > 0
    sent = link.client.state.next_outgoing - 1
    assert link.executed == sorted(set(link.executed))
    assert link.reported == link.executed
    assert sorted(link.executed + link.not_applied) == list(range(1, sent + 1))
    theirs = link.gateways[SESSION].state
    assert theirs.next_incoming == link.client.state.next_outgoing
    assert theirs.next_outgoing == link.client.state.next_incoming


@pytest.mark.parametrize("seed", range(10))
def test_003_5_4_a_client_that_forgets_everything_gets_all_reports_again(seed):
    link = Link(seed, 2, failures=True, forgetting=True)
    run(link)
    assert link.breaks > 10
    assert len(link.executed) > 20
    assert link.executed == sorted(set(link.executed))
    assert link.reported == link.executed
    theirs = link.gateways[SESSION].state
    assert theirs.next_incoming == link.client.state.next_outgoing
    assert theirs.next_outgoing == link.client.state.next_incoming
