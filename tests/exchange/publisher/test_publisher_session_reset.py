"""A new trading session clears the same in snapshots as in the incremental stream."""

import pytest

from pregao.exchange.engine.model.events import LastTradePrice, Statistic
from pregao.exchange.publisher.encoding.layouts import LAYOUTS
from pregao.exchange.publisher.published_state import PublishedInstrument
from pregao.umdf.phases import RESET_WITH_THE_SESSION
from pregao.umdf.templates import AUCTION_IMBALANCE, template_id
from tests.exchange.floor import share

KINDS = Statistic.__args__


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_000_14_3_statistics_of_the_old_session_are_removed_from_snapshots(kind):
    published = PublishedInstrument(share(), positions=False)
    shown = object()
    if kind is LastTradePrice:
        published.last_trade = shown
    else:
        published.statistics[kind] = shown
    published.start_session()
    gone = not published.statistics and published.last_trade is None
    template = template_id(LAYOUTS[kind].messages[0])
    assert gone == (template in RESET_WITH_THE_SESSION or template == AUCTION_IMBALANCE)


def test_every_statistic_that_is_reset_is_one_that_snapshots_show():
    shown = {template_id(name) for kind in KINDS for name in LAYOUTS[kind].messages}
    assert shown > RESET_WITH_THE_SESSION
