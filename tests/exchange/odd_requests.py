"""Odd control requests: every command with every field absent, of a wrong type, or at extremes."""

from dataclasses import fields

from pregao.exchange.host.admin.control_requests import REQUESTS

BASE = {
    "phase": {"phase": "OPEN", "group": "all"},
    "halt": {"symbol": "PETR4"},
    "auction": {"symbol": "PETR4"},
    "resume": {"symbol": "PETR4"},
    "bust": {"symbol": "PETR4", "trade": 10},
    "cancel": {"order": 1},
    "news": {"headline": "News"},
    "add": {"text": "x = 1"},
    "change": {"text": "x = 1"},
    "remove": {"symbol": "VALE3"},
    "band": {"symbol": "PETR4", "low": "1", "high": "90"},
    "protect": {"id": 1, "firm": 85, "account": 7, "watch": ["PETR4"], "interval_ms": 1000,
                "executions": 5},
    "unprotect": {"id": 1},
    "pair": {"symbol": "PETR3", "other": "PETR4"},
    "position": {"firm": 85, "account": 7, "symbol": "PETRF360", "long": 5},
    "give-up": {"firm": 85, "account": 7, "to_firm": 127, "to_account": 9},
    "take-up": {"id": 1},
    "reset": {"channel": 51},
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
    float("inf"), "1e400", "1.00001", True, [], ["x"], {}, {"extension_ns": "x"}, DEEP,
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
