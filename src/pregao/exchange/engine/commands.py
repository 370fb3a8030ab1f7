"""Commands that members and market operations give to the engine.

The engine receives each command together with the time at which it is functionally processed.
"""

from __future__ import annotations

from pregao.exchange.engine.member_commands import (
    AcceptForward,
    AllocateTrade,
    CancelForward,
    CancelMaintenance,
    CancelOrder,
    DeclareForward,
    DefineSpread,
    MaintainPosition,
    MassCancel,
    ModifyOrder,
    NewCross,
    NewOrder,
    RefuseForward,
    RestateOrders,
)
from pregao.exchange.engine.operations_commands import (
    AddInstrument,
    AdjustLastTrade,
    AdvanceTime,
    AmendTrade,
    AnswerGiveUp,
    BustTrade,
    ChangeInstrument,
    DeleteSide,
    EndDay,
    EnterImplied,
    EnterTrade,
    ExpelOrder,
    LinkAccounts,
    PairAuctions,
    PublishNews,
    RejoinGroup,
    RemoveInstrument,
    RemoveProtection,
    ResetBook,
    ResetChannel,
    ResetStream,
    SetClosingPrice,
    SetDelta,
    SetGroupPhase,
    SetOpenInterest,
    SetPosition,
    SetPriceBand,
    SetProtection,
    SetQuantityBand,
    SetSecurityStatus,
    SetSettlementPrice,
    StartDay,
)

Command = (
    NewOrder
    | ModifyOrder
    | CancelOrder
    | MassCancel
    | RestateOrders
    | NewCross
    | DefineSpread
    | DeclareForward
    | AcceptForward
    | RefuseForward
    | CancelForward
    | MaintainPosition
    | CancelMaintenance
    | AllocateTrade
    | SetPosition
    | LinkAccounts
    | AnswerGiveUp
    | SetProtection
    | RemoveProtection
    | SetDelta
    | SetGroupPhase
    | SetSecurityStatus
    | RejoinGroup
    | PairAuctions
    | AdvanceTime
    | EndDay
    | StartDay
    | AddInstrument
    | ChangeInstrument
    | RemoveInstrument
    | BustTrade
    | EnterTrade
    | AmendTrade
    | ExpelOrder
    | DeleteSide
    | EnterImplied
    | PublishNews
    | ResetBook
    | ResetChannel
    | ResetStream
    | SetClosingPrice
    | SetSettlementPrice
    | SetOpenInterest
    | SetPriceBand
    | SetQuantityBand
    | AdjustLastTrade
)
"""Any command of the engine."""
