"""Template ids, flag bits and enumeration values of Binary UMDF, from the bundled schema.

No other module states such a number. Decoded messages and message tables show the names that the
wire's version gives to enumeration values, and versions rename them: a rule is stated over numbers,
and `by_name` and `value_names` apply it to the names of all versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from pregao.errors import SchemaError
from pregao.sbe.model import Choice, SetType
from pregao.schemas.bundle import bundled, bundled_message_ids, bundled_values

T = TypeVar("T")

_IDS = bundled_message_ids("umdf")


def template_id(name: str) -> int:
    """Return the id of the template with this name in any version (``Order_MBO_50``)."""
    found = _IDS.get(name)
    if found is None:
        raise SchemaError(f"no bundled UMDF schema has a message {name}")
    return found


SEQUENCE_RESET: Final = template_id("SequenceReset_1")
SEQUENCE: Final = template_id("Sequence_2")
SECURITY_STATUS: Final = template_id("SecurityStatus_3")
NEWS: Final = template_id("News_5")
EMPTY_BOOK: Final = template_id("EmptyBook_9")
SECURITY_GROUP_PHASE: Final = template_id("SecurityGroupPhase_10")
CHANNEL_RESET: Final = template_id("ChannelReset_11")
OPENING_PRICE: Final = template_id("OpeningPrice_15")
THEORETICAL_OPENING_PRICE: Final = template_id("TheoreticalOpeningPrice_16")
CLOSING_PRICE: Final = template_id("ClosingPrice_17")
AUCTION_IMBALANCE: Final = template_id("AuctionImbalance_19")
QUANTITY_BAND: Final = template_id("QuantityBand_21")
HIGH_PRICE: Final = template_id("HighPrice_24")
LOW_PRICE: Final = template_id("LowPrice_25")
LAST_TRADE_PRICE: Final = template_id("LastTradePrice_27")
SETTLEMENT_PRICE: Final = template_id("SettlementPrice_28")
OPEN_INTEREST: Final = template_id("OpenInterest_29")
SNAPSHOT_HEADER: Final = template_id("SnapshotFullRefresh_Header_30")
ORDER: Final = template_id("Order_MBO_50")
DELETE_ORDER: Final = template_id("DeleteOrder_MBO_51")
MASS_DELETE_ORDERS: Final = template_id("MassDeleteOrders_MBO_52")
TRADE: Final = template_id("Trade_53")
FORWARD_TRADE: Final = template_id("ForwardTrade_54")
EXECUTION_SUMMARY: Final = template_id("ExecutionSummary_55")
EXECUTION_STATISTICS: Final = template_id("ExecutionStatistics_56")
TRADE_BUST: Final = template_id("TradeBust_57")
SNAPSHOT_ORDERS: Final = template_id("SnapshotFullRefresh_Orders_MBO_71")

SECURITY_DEFINITIONS: Final = frozenset(
    {template_id("SecurityDefinition_4"), template_id("SecurityDefinition_12")}
)
"""The security definition, as sent by versions below 10 and from 8 on."""
PRICE_BANDS: Final = frozenset({template_id("PriceBand_20"), template_id("PriceBand_22")})
"""The price band, as sent by older and newer versions."""


def flag(set_name: str, name: str) -> int:
    """Return the bit of a choice of a set, as a mask (``TradeCondition``, ``RegularTrade``)."""
    return 1 << _choice(set_name, name).bit


def _choice(set_name: str, name: str) -> Choice:
    found = bundled("umdf").types.get(set_name)
    for choice in found.choices if isinstance(found, SetType) else ():
        if choice.name == name:
            return choice
    raise SchemaError(f"the bundled UMDF schema has no {set_name}.{name}")


def by_name(enumeration: str, rule: Mapping[int, T]) -> dict[str, T]:
    """Return a rule over the values of an enumeration, by their names in all versions."""
    values = bundled_values("umdf", enumeration)
    unknown = rule.keys() - values.values()
    if unknown:
        raise SchemaError(f"no bundled UMDF schema has {enumeration} {min(unknown)}")
    return {name: rule[value] for name, value in values.items() if value in rule}


def value_names(enumeration: str, *values: int) -> frozenset[str]:
    """Return all names that versions give to these values of an enumeration."""
    return frozenset(by_name(enumeration, dict.fromkeys(values, True)))


def current_names(enumeration: str) -> dict[str, str]:
    """Return the current name of each value of an enumeration, by its names in all versions."""
    values = bundled_values("umdf", enumeration)
    newest = {value: name for name, value in values.items()}  # older names come first
    return {name: newest[value] for name, value in values.items()}


END_OF_EVENT: Final = flag("MatchEventIndicator", "EndOfEvent")
"""The message is the last of its event."""
RECOVERY: Final = flag("MatchEventIndicator", "RecoveryMsg")
"""The message was sent to rebuild a book, not because of a new event."""
IMPLIED: Final = flag("MatchEventIndicator", "Implied")
"""The message is about an implied order; the bit had another meaning in earlier versions."""
IMPLIED_SINCE: Final = _choice("MatchEventIndicator", "Implied").since_version
"""The first schema version in which the bit has this meaning."""
NOT_OPTIONS: Final = frozenset({90, 140, 141})
"""Security sub types of strategies and rollovers that are listed among options but are none: they
have no strike price (000 §16.1, 002 §13.4)."""
OUT_OF_SEQUENCE: Final = flag("TradeCondition", "OutOfSequence")
"""The trade does not set the last price."""


class UpdateAction(IntEnum):
    """Update action of an entry (mDUpdateAction)."""

    NEW = 0
    CHANGE = 1
    DELETE = 2
    DELETE_THRU = 3
    DELETE_FROM = 4
    OVERLAY = 5


BID: Final = ord("0")
"""Value of mDEntryType: an order to buy."""
OFFER: Final = ord("1")
"""Value of mDEntryType: an order to sell."""
DELETED: Final = value_names("MDUpdateAction", UpdateAction.DELETE)
"""Names of mDUpdateAction: the statistic is withdrawn."""
LISTED: Final = value_names("SecurityUpdateAction", ord("A"))
"""Names of securityUpdateAction: the instrument is new."""
DELISTED: Final = value_names("SecurityUpdateAction", ord("D"))
"""Names of securityUpdateAction: the instrument is removed."""


def implied_mask(version: int) -> int:
    """Return the bit that marks implied orders in a schema version; 0 if none does."""
    return IMPLIED if version >= IMPLIED_SINCE else 0


def implied_masks(versions: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """Return `implied_mask` of a column of versions."""
    return np.where(versions >= IMPLIED_SINCE, np.int64(IMPLIED), np.int64(0))
