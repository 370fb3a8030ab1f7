"""A gateway on a real socket with a small market, whose connection can break at any byte."""

import asyncio
import time
from datetime import date

from pregao.entrypoint import (
    CancelOrders,
    GatewayConnection,
    GatewaySessions,
    GatewaySettings,
    MessageReceived,
    SessionAccount,
    SessionStore,
)
from tests.entrypoint.raw_peer import FIRM, KEY, SESSION

DAY = date(2026, 5, 21)


class Market:
    """Orders that rest until they are changed; every third quantity trades in part immediately."""

    def __init__(self):
        self.orders = {}
        """By exchange's number: client's number, quantity, cumulative, status."""
        self.by_client = {}
        self.execs = 0

    def answers(self, name, values, now):
        """The reports that a request is answered with."""
        match name:
            case "SimpleNewOrder" | "NewOrderSingle":
                yield from self._enter(values, values["clOrdID"], values["side"], now)
            case "NewOrderCross":
                for side in values["noSides"]:
                    extra = {"crossID": values["crossID"]}
                    merged = values | {"ordType": "LIMIT", "timeInForce": "DAY"}
                    yield from self._enter(merged, side["clOrdID"], side["side"], now, extra)
            case "SimpleModifyOrder" | "OrderCancelReplaceRequest" | "OrderCancelRequest":
                yield from self._change(name, values, now)
            case "OrderMassActionRequest":
                yield "OrderMassActionReport", {
                    "massActionType": values["massActionType"], "clOrdID": values["clOrdID"],
                    "massActionReportID": self._exec(), "transactTime": now,
                    "massActionResponse": "ACCEPTED",
                }  # fmt: skip
                for number in [n for n, order in self.orders.items() if order["leaves"]]:
                    yield self._cancel(number, None, now)

    def cancel_all(self, now):
        for number in [n for n, order in self.orders.items() if order["leaves"]]:
            yield self._cancel(number, None, now)

    def _exec(self):
        self.execs += 1
        return self.execs

    def _common(self, number, now):
        order = self.orders[number]
        return {
            "side": order["side"], "clOrdID": order["client"], "secondaryOrderID": number,
            "securityID": order["security"], "orderID": number, "execID": self._exec(),
            "transactTime": now, "tradeDate": DAY, "workingIndicator": 1, "ordType": "LIMIT",
            "timeInForce": "DAY", "orderQty": order["quantity"], "price": order["price"],
        }  # fmt: skip

    def _enter(self, values, client, side, now, extra=None):
        if values["orderQty"] == 13 or client in self.by_client:
            yield "ExecutionReport_Reject", {
                "side": side, "cxlRejResponseTo": "NEW", "clOrdID": client,
                "securityID": values["securityID"], "ordRejReason": 99, "transactTime": now,
                "execID": self._exec(), "ordType": "LIMIT", "timeInForce": "DAY",
                "orderQty": values["orderQty"], "price": values.get("price"), "text": "unlucky",
            }  # fmt: skip
            return
        number = 1000 + len(self.orders)
        self.by_client[client] = number
        self.orders[number] = {
            "client": client, "quantity": values["orderQty"], "cumulative": 0,
            "leaves": values["orderQty"], "status": "NEW", "side": side,
            "security": values["securityID"], "price": values.get("price"), "chain": [client],
        }  # fmt: skip
        yield (
            "ExecutionReport_New",
            self._common(number, now) | {"ordStatus": "NEW"} | (extra or {}),
        )
        if values["orderQty"] % 3 == 0:
            yield self._trade(number, values["orderQty"] // 3, now)

    def _trade(self, number, quantity, now):
        order = self.orders[number]
        order["cumulative"] += quantity
        order["leaves"] -= quantity
        order["status"] = "PARTIALLY_FILLED" if order["leaves"] else "FILLED"
        values = self._common(number, now)
        for name in ("workingIndicator", "ordType", "timeInForce", "price"):
            del values[name]
        return "ExecutionReport_Trade", values | {
            "ordStatus": order["status"], "lastQty": quantity, "lastPx": order["price"] or 10,
            "leavesQty": order["leaves"], "cumQty": order["cumulative"],
            "aggressorIndicator": "TRUE_VALUE", "execType": "TRADE", "tradeID": number,
            "contraBroker": 7,
        }  # fmt: skip

    def _change(self, name, values, now):
        number = values.get("orderID") or self.by_client.get(values.get("origClOrdID"))
        order = self.orders.get(number)
        client = values["clOrdID"]
        cancel = name == "OrderCancelRequest"
        if order is None or not order["leaves"] or client in self.by_client:
            yield "ExecutionReport_Reject", {
                "side": values["side"], "cxlRejResponseTo": "CANCEL" if cancel else "REPLACE",
                "clOrdID": client, "origClOrdID": values.get("origClOrdID"), "orderID": number,
                "securityID": values["securityID"], "ordRejReason": 5, "transactTime": now,
                "execID": self._exec(), "ordType": "LIMIT", "timeInForce": "DAY",
                "orderQty": values.get("orderQty", 1), "price": values.get("price"),
            }  # fmt: skip
            return
        self.by_client[client] = number
        if cancel:
            yield self._cancel(number, client, now)
            return
        original = order["client"]
        order["client"] = client
        order["chain"].append(client)
        order["quantity"], order["price"] = values["orderQty"], values.get("price")
        order["leaves"] = max(0, order["quantity"] - order["cumulative"])
        order["status"] = "PARTIALLY_FILLED" if order["cumulative"] else "NEW"
        yield "ExecutionReport_Modify", self._common(number, now) | {
            "ordStatus": "REPLACED", "leavesQty": order["leaves"], "cumQty": order["cumulative"],
            "origClOrdID": original,
        }  # fmt: skip

    def _cancel(self, number, client, now):
        order = self.orders[number]
        order["leaves"], order["status"] = 0, "CANCELED"
        if client is not None:
            order["client"] = client
            order["chain"].append(client)
        return "ExecutionReport_Cancel", self._common(number, now) | {
            "ordStatus": "CANCELED", "cumQty": order["cumulative"],
        }  # fmt: skip


class TcpDesk:
    """A gateway for some sessions; ``budget`` says after how many bytes a connection breaks."""

    def __init__(self, *, store=None, rules=None, sessions=(SESSION,), market=None, budget=None):
        accounts = [SessionAccount(each, FIRM, KEY) for each in sessions]
        self.sessions = GatewaySessions(
            accounts, SessionStore() if store is None else store, rules or GatewaySettings()
        )
        self.market = Market() if market is None else market
        self.budget = budget or (lambda: None)
        self.links = set()
        self.executed = []
        self.breaks = 0
        self.connections = 0
        self.silent = False

    async def start(self, port=0):
        loop = asyncio.get_running_loop()
        self.server = await loop.create_server(lambda: _Line(self), "127.0.0.1", port)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    @property
    def address(self):
        return ("127.0.0.1", self.port)

    async def stop(self):
        self.server.close()
        for link in list(self.links):
            link.transport.abort()
        await self.server.wait_closed()

    async def __aenter__(self):
        return await self.start()

    async def __aexit__(self, *error):
        await self.stop()

    def serve(self, session_id, events, now):
        for event in events:
            if isinstance(event, MessageReceived) and not self.silent:
                self.executed.append((event.name, event.number))
                for name, values in self.market.answers(event.name, event.message.values, now):
                    self.sessions[session_id].send(name, values, now)
            if isinstance(event, CancelOrders):
                for name, values in self.market.cancel_all(now):
                    self.sessions[event.session_id].send(name, values, now)


class _Line(asyncio.Protocol):
    def __init__(self, desk):
        self.desk = desk

    def connection_made(self, transport):
        self.transport = transport
        self.machine = GatewayConnection(self.desk.sessions, time.time_ns())
        self.budget = self.desk.budget()
        self.desk.links.add(self)
        self.desk.connections += 1
        self.timer = asyncio.get_running_loop().call_later(0.02, self.tick)

    def tick(self):
        now = time.time_ns()
        self.desk.serve(SESSION, self.machine.advance(now), now)
        self.flush()
        if not self.transport.is_closing():
            self.timer = asyncio.get_running_loop().call_later(0.02, self.tick)

    def spend(self, data):
        """As much of the bytes as go over before the connection breaks."""
        if self.budget is None:
            return data
        kept = data[: self.budget]
        self.budget -= len(kept)
        return kept

    def data_received(self, data):
        now = time.time_ns()
        kept = self.spend(data)
        events = self.machine.receive(kept, now)
        session = self.machine._session
        self.desk.serve(SESSION if session is None else session.session_id, events, now)
        self.flush()
        self.check()

    def flush(self):
        now = time.time_ns()
        while True:
            data = self.spend(self.machine.take_output())
            if data:
                self.transport.write(data)
            if not self.machine.unfinished:
                break
            self.machine.continue_retransmission(now)
        if self.machine.closing:
            self.transport.close()
        self.check()

    def check(self):
        if self.budget == 0 and not self.transport.is_closing():
            self.desk.breaks += 1
            # Flush the written bytes first: the connection breaks after them.
            self.transport.close()

    def connection_lost(self, error):
        self.timer.cancel()
        self.desk.links.discard(self)
        self.machine.lost(time.time_ns())
