"""Trades that set the last price (000 §13.3): one rule, as data, for single trades and columns."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from pregao.umdf.templates import OUT_OF_SEQUENCE

NOT_LAST_CONDITIONS: Final = OUT_OF_SEQUENCE
"""Bits of ``tradeCondition``; a trade with any of them does not set the last price."""
NOT_LAST_SUB_TYPES: Final = frozenset({"LEG_TRADE"})
"""Values of ``trdSubType`` that do not set it: legs of a spread trade."""


def sets_last_price(trade_condition: int, trd_sub_type: str | int | None) -> bool:
    """Whether a trade sets the last price."""
    return not trade_condition & NOT_LAST_CONDITIONS and trd_sub_type not in NOT_LAST_SUB_TYPES


def set_last_price(
    trade_condition: npt.NDArray[np.int64], excluded: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return the columnar form of `sets_last_price`; ``excluded`` masks the excluded sub types."""
    found: npt.NDArray[np.bool_] = ((trade_condition & NOT_LAST_CONDITIONS) == 0) & ~excluded
    return found
