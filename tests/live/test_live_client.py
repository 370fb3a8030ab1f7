"""Following from a program: events of some symbols, fresh books, and an end that leaves nothing."""

import asyncio
import threading

import pytest

import pregao
from pregao.errors import NetworkError, PregaoError, UsageError
from pregao.events import BookChanged, TradeDone
from pregao.live import BookRefresh, ItemsMissed, Live, LiveEvent
from pregao.net.sockets import receive_socket
from tests.live.config_text import config_text
from tests.live.live_support import followed_at, replayer, simulated, unicast
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("day")
    return folder, simulated(folder, seconds=10)


def feed_threads():
    return [each.name for each in threading.enumerate() if each.name.startswith("pregao-feed")]


async def received_events(live, sending, enough):
    """Events while a replay runs, until there are enough."""
    found = []
    async with live:
        running = asyncio.create_task(asyncio.to_thread(sending.run))
        async with asyncio.timeout(PATIENCE_S):
            async for item in live:
                found.append(item)
                if enough(item):
                    break
        await running
    return found


def test_events_of_a_symbol_come_with_its_book(day, tmp_path):
    folder, _ = day
    config, targets = followed_at()
    path = tmp_path / "live.toml"
    path.write_text(config_text(config))
    assert pregao.Live is Live
    live = pregao.Live(path, symbols=["PETR4"], kinds=(BookChanged, TradeDone), depth=2)
    count = iter(range(60))

    def enough(item):
        return isinstance(item, LiveEvent) and next(count) == 50

    found = asyncio.run(received_events(live, replayer(folder, targets), enough))
    events = [item for item in found if isinstance(item, LiveEvent)]
    assert len(events) == 51
    assert {item.symbol for item in events} == {"PETR4"}
    assert {type(item.event) for item in events} <= {BookChanged, TradeDone}
    changed = [item for item in events if isinstance(item.event, BookChanged)]
    assert all(len(item.book.bids) <= 2 for item in changed)
    assert all(item.book.packet_key == item.event.packet_key for item in changed[1:])
    numbers = [item.event.packet_key.sequence_number for item in changed]
    assert numbers == sorted(numbers)
    assert feed_threads() == []


def test_a_slow_program_is_notified_and_continues_with_fresh_books(day):
    folder, summary = day
    config, targets = followed_at()

    total = summary.messages

    async def slow():
        live = Live(config, max_pending=20)
        found = []
        async with live:
            following = aiter(live)
            first = asyncio.create_task(anext(following))
            await asyncio.sleep(0.05)
            await asyncio.to_thread(replayer(folder, targets, speed=40.0).run)
            found.append(await first)
            async with asyncio.timeout(PATIENCE_S):
                while not any(isinstance(item, BookRefresh) for item in found):
                    found.append(await anext(following))
            async with asyncio.timeout(PATIENCE_S):
                while (made := await live.report()).channels[0].counters["messages"] < total:
                    await asyncio.sleep(0.02)
            await following.aclose()
        return found, made

    found, made = asyncio.run(slow())
    missed = [item for item in found if isinstance(item, ItemsMissed)]
    assert missed
    assert missed[0].count > 0
    # The feed itself missed nothing.
    assert made.channels[0].counters["messages"] == summary.messages
    assert made.channels[0].counters["gaps"] == 0
    assert feed_threads() == []


def test_errors_are_reported_immediately(tmp_path):
    with pytest.raises(UsageError, match="there is no such file"):
        Live(tmp_path / "nothing.toml")
    config, _ = followed_at()
    config = unicast(config)

    async def follow():
        async for _ in Live(config):
            pass

    with (
        receive_socket(config.lines[0].address),
        pytest.raises(NetworkError, match="another program listens there"),
    ):
        asyncio.run(follow())
    with pytest.raises(PregaoError, match="The feed is not running"):
        asyncio.run(Live(config).report())
    assert feed_threads() == []
