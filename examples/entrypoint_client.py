"""An order's life over EntryPoint: python examples/entrypoint_client.py GATEWAY SECURITY_ID

GATEWAY is such as 127.0.0.1:9610, where `pregao exchange` listens.
"""

import asyncio
import sys
from decimal import Decimal

from pregao.entrypoint import Client, ClientSettings, MessageReceived


async def main(gateway, security_id):
    """Enter an order, change it, cancel it, and show what the exchange says."""
    host, port = gateway.rsplit(":", 1)
    settings = ClientSettings(session_id=100_000_001, firm=85, access_key="123456789ABC")
    async with Client(settings, [(host, int(port))]) as client:
        showing = asyncio.create_task(show(client.events()))
        requests = client.request_builder()
        name, values = requests.new("BUY", security_id, 200, Decimal("10.50"))
        await client.request(name, values)
        order = client.orders.get(values["clOrdID"])
        print(f"entered: {order.status}, {order.leaves} left", flush=True)
        if order.working:
            await client.request(*requests.modify(order, 300, Decimal("10.40")))
            print(f"modified: {order.quantity} at {order.price}", flush=True)
            await client.request(*requests.cancel(order))
        print(f"ended: {order.status}, {order.cumulative} traded", flush=True)
    await showing


async def show(events):
    """Print reports as they arrive."""
    async for event in events:
        if isinstance(event, MessageReceived):
            print(f"  report {event.number}: {event.name}", flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
