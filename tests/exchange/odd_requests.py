"""Odd control requests: every command with every field absent, of a wrong type, or at extremes."""

from dataclasses import fields

from pregao.exchange.host.admin.control_requests import REQUESTS

BASE = {
    "phase": {"phase": "OPEN", "group": "all"},
    "halt": {"symbol": "PETR4"},
    "forbid": {"symbol": "PETR4"},
    "auction": {"symbol": "PETR4"},
    "resume": {"symbol": "PETR4"},
    "bust": {"symbol": "PETR4", "trade": 10},
    "trade": {"symbol": "PETR4", "price": "36.5", "quantity": 100},
    "amend-trade": {"symbol": "PETR4", "trade": 10, "price": "36.6"},
    "cancel": {"order": 1},
    "delete-side": {"symbol": "PETR4", "side": "BUY"},
    "news": {"headline": "News"},
    "add": {"text": "x = 1"},
    "change": {"text": "x = 1"},
    "remove": {"symbol": "VALE3"},
    "band": {"symbol": "PETR4", "low": "1", "high": "90"},
    "reference": {"symbol": "PETR4", "price": "36.5"},
    "quantity-band": {"symbol": "PETR4", "maximum": 10**6, "average": 10**7},
    "settlement": {"symbol": "DOLM26", "price": "5012.5"},
    "closing": {"symbol": "PETR4", "price": "36.5"},
    "open-interest": {"symbol": "DOLM26", "quantity": 1000},
    "protect": {"id": 1, "firm": 85, "account": 7, "watch": ["PETR4"], "interval_ms": 1000,
                "executions": 5},
    "unprotect": {"id": 1},
    "delta": {"symbol": "PETRF360", "delta": "0.5"},
    "blacklist": {"symbol": "PETR4"},
    "pair": {"symbol": "PETR3", "other": "PETR4"},
    "position": {"firm": 85, "account": 7, "symbol": "PETRF360", "long": 5},
    "give-up": {"firm": 85, "account": 7, "to_firm": 127, "to_account": 9},
    "take-up": {"id": 1},
    "reset": {"channel": 51},
    "reset-book": {"symbol": "PETR4"},
    "reset-stream": {"channel": 51},
    "end-day": {},
    "day": {"date": "2026-05-29"},
    "disconnect": {"session": 100_000_002},
    "failover": {},
}  # fmt: skip
ABSENT = object()
DEEP = [[[[[[[[[[1]]]]]]]]]]
VALUES = (
    ABSENT, None, "", "x", "soon", "9999-12-31", "0001-01-01", "\ud800", "é" * 40, "A" * 1401,
    "A" * 70_000, 0, -1, 1, 2**31, 2**32 - 1, 2**32, 2**63, 10**18, -(2**63), 1.5, float("nan"),
    float("inf"), "1e400", "1.00001", "9999999999.99999999", True, [], ["x"], {},
    {"extension_ns": "x"}, [{}], [{"watch": "PETR4", "counts": "OPTIONS", "cancels": "NOTHING"}],
    [{"watch": "PETR4", "counts": "OPTIONS"}], 10**12, DEEP,
)  # fmt: skip


def odd_requests():
    """Every command × every field × every odd value, and requests that are none."""
    for name, kind in REQUESTS.items():
        base = {"command": name, **BASE[name]}
        yield base | {"unknown": 1}
        for field in fields(kind):
            for value in VALUES:
                request = {**base, field.name: value}
                if value is ABSENT:
                    del request[field.name]
                yield request
    for name in (None, 1, "", "dance", [], {}, "PHASE", "status"):
        yield {"command": name, "x": 1}
    yield {}
