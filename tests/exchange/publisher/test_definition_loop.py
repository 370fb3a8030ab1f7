"""The instrument definition stream: the complete current list, repeatedly."""

from __future__ import annotations

from typing import Any

import pytest

from pregao.clock import SECOND
from pregao.exchange.engine.model.enums import SecurityUpdateAction
from pregao.exchange.engine.model.events import MarketEvent, SecurityDefinition
from pregao.exchange.engine.model.instrument_loader import bundled_catalogue
from pregao.exchange.publisher.channels import ChannelEndpoints
from pregao.exchange.publisher.encoding.encoder import FeedEncoder
from pregao.exchange.publisher.loops import LoopPace
from pregao.exchange.publisher.publisher import ChannelPublisher
from pregao.umdf.streams import Stream
from tests.exchange.feed_reader import RESET, VERSIONS, loops
from tests.exchange.floor import OTHER, SHARE, share

START = 1_780_000_000 * SECOND
THIRD = 100_000_000_003


class Definitions:
    """A channel of which only the definition stream is read."""

    def __init__(self, *instruments: Any, version: int = 16) -> None:
        self.version = version
        self.publisher = ChannelPublisher(
            ChannelEndpoints.numbered(1),
            instruments,
            START,
            encoder=FeedEncoder(version),
            snapshot_pace=LoopPace(1, 3600 * SECOND),
            definition_pace=LoopPace(1000, 0),
        )
        self.now = START
        self.payloads: list[bytes] = []

    def take(self, datagrams: Any) -> None:
        self.payloads += [x.payload for x in datagrams if x.stream is Stream.DEFINITION]

    def publish_definition(self, action: SecurityUpdateAction, instrument: Any) -> None:
        definition = SecurityDefinition(action, instrument, self.now)
        self.take(self.publisher.publish([MarketEvent([definition], False)], self.now))

    def loop(self, later: int = 1) -> list[Any]:
        """The messages of a later loop; by default of the next one."""
        count = self.publisher.definitions.loops + later + 1
        while self.publisher.definitions.loops < count:
            self.now += SECOND // 1000
            self.take(self.publisher.advance(self.now))
        found = loops(self.payloads, self.version)[count - 1]
        messages = [message for packet in found for message in packet.messages]
        assert messages.pop().message.id == RESET
        return messages


@pytest.mark.parametrize("version", VERSIONS)
def test_000_6_5_8_a_loop_defines_every_instrument_once(version):
    catalogue = bundled_catalogue()
    definitions = Definitions(*catalogue, version=version)
    for later in (0, 1):
        messages = definitions.loop(later)
        assert [x["securityID"] for x in messages] == [x.security_id for x in catalogue]
        assert {x["totNoRelatedSym"] for x in messages} == {len(catalogue)}
        last = [x["lastFragment"] for x in messages]
        assert last == ["FALSE_VALUE"] * (len(catalogue) - 1) + ["TRUE_VALUE"]
        assert {x.message.id for x in messages} == {4 if version == 7 else 12}
        assert {x["securityUpdateAction"] for x in messages} == {"ADD"}
    first = loops(definitions.payloads, version)[0]
    assert [packet.number for packet in first] == list(range(1, len(first) + 1))
    # Packets are full: the next definition would not have fitted.
    assert all(packet.size > 1000 for packet in first[:-2])


def test_additions_changes_and_deletions_show_in_the_next_loop():
    definitions = Definitions(share(), share(OTHER))
    definitions.loop(0)
    definitions.publish_definition(SecurityUpdateAction.ADD, share(THIRD))
    messages = definitions.loop()
    assert [x["securityID"] for x in messages] == [SHARE, OTHER, THIRD]
    assert {x["totNoRelatedSym"] for x in messages} == {3}
    definitions.publish_definition(SecurityUpdateAction.MODIFY, share(SHARE, asset="NEWER"))
    definitions.publish_definition(SecurityUpdateAction.DELETE, share(THIRD))
    messages = definitions.loop()
    assert [(x["securityID"], x["asset"]) for x in messages] == [(SHARE, "NEWER"), (OTHER, "ACME")]
    assert [x["lastFragment"] for x in messages] == ["FALSE_VALUE", "TRUE_VALUE"]
    assert {x["totNoRelatedSym"] for x in messages} == {2}


def test_the_last_fragment_is_marked_again_when_the_list_changes():
    definitions = Definitions(share(), share(OTHER))
    definitions.loop(0)
    definitions.publish_definition(SecurityUpdateAction.DELETE, share(SHARE))
    definitions.publish_definition(SecurityUpdateAction.ADD, share(THIRD))
    messages = definitions.loop()
    assert [(x["securityID"], x["lastFragment"]) for x in messages] == [
        (OTHER, "FALSE_VALUE"),
        (THIRD, "TRUE_VALUE"),
    ]


def test_a_running_loop_keeps_to_the_list_it_began_with():
    instruments = [share(number) for number in range(1, 31)]
    definitions = Definitions(*instruments)
    definitions.take(definitions.publisher.advance(START))
    definitions.publish_definition(SecurityUpdateAction.DELETE, instruments[-1])
    definitions.publish_definition(SecurityUpdateAction.ADD, share(99))
    messages = definitions.loop(0)
    assert [x["securityID"] for x in messages] == list(range(1, 31))
    assert {x["totNoRelatedSym"] for x in messages} == {30}
    assert [x["securityID"] for x in definitions.loop()] == [*range(1, 30), 99]


def test_expired_instruments_are_left_out():
    ending = share(OTHER, security_validity_s=START // SECOND + 1)
    definitions = Definitions(share(), ending)
    assert len(definitions.loop(0)) == 2
    definitions.now = START + 2 * SECOND
    definitions.take(definitions.publisher.advance(definitions.now))
    (message,) = definitions.loop()
    assert (message["securityID"], message["totNoRelatedSym"]) == (SHARE, 1)
    assert message["lastFragment"] == "TRUE_VALUE"
