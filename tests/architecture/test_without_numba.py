"""Without numba, and without Arrow too, everything gives the same, and takes longer."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import pregao
from pregao import extras
from pregao.cli.main import app
from tests.architecture.blocked_packages import command, without

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

BLOCKED = ("numba", "llvmlite")
BARE = tuple(extras.EXTRAS)
"""Everything that comes with an extra."""

LOOK = """
import hashlib
import json
import sys
import pregao


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def looked(folder, tables):
    read = pregao.read(folder)
    books, messages = {}, []
    for message in pregao.read(folder, template=["EmptyBook_9", "Order_MBO_50"]).messages():
        books.setdefault(message.security_id, pregao.Book()).apply(message)
    for message in read.messages():
        messages.append((message.template, message.capture_time_ns, str(message.values)))
    rows = {name: json.dumps(read.table(name).to_pylist(), default=str) for name in tables}
    events = [str(event) for event in pregao.follow(folder, from_the_start=True)]
    return {
        "info": digest(json.dumps(read.info(), default=str)),
        "messages": (len(messages), digest(str(messages))),
        "tables": {name: (len(text), digest(text)) for name, text in rows.items()},
        "books": (len(books), digest(str([str(each) for each in books.values()]))),
        "events": (len(events), digest(str(events))),
    }
"""


@pytest.fixture(scope="module")
def day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plainly") / "day"
    pregao.simulate(folder, instruments=2, messages=300, duration="1m", loss="A=0.02")
    return folder


@pytest.fixture(scope="module")
def legacy_day(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plainly") / "legacy"
    pregao.simulate(folder, instruments=2, messages=200, duration="1m", legacy="orders")
    return folder


def answer(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


TABLES = ("Trade_53", "SecurityDefinition_12", "SnapshotFullRefresh_Orders_MBO_71")


@pytest.mark.parametrize(("blocked", "tables"), [(BLOCKED, TABLES), (BARE, ())])
def test_reading_without_numba_gives_the_same(day, blocked, tables):
    names = {}
    exec(LOOK, names)
    code = f"{LOOK}\nprint(json.dumps(looked({str(day)!r}, {tables!r})))"
    found = answer(without(blocked, code, day.parent))
    assert found["messages"][0] > 300
    assert found["events"][0] > 100
    assert found == json.loads(json.dumps(names["looked"](str(day), tables)))


def outputs(folder):
    return {
        str(each.relative_to(folder)): each.read_bytes()
        for each in sorted(folder.rglob("*"))
        if each.is_file()
    }


LINES = [
    ["decode", "{day}", "-o", "{out}/lines.jsonl"],
    ["decode", "{day}", "-o", "{out}/one.jsonl", "--symbol", "PETR4", "-n", "20"],
    ["decode", "{legacy}", "-o", "{out}/legacy.jsonl"],
    ["simulate", "--instruments", "2", "--messages", "50", "--output", "{out}/day"],
]
FILES = [
    *LINES,
    ["decode", "{day}", "-o", "{out}/csv", "--format", "csv"],
    ["decode", "{day}", "-o", "{out}/parquet", "--format", "parquet"],
    ["decode", "{legacy}", "-o", "{out}/legacy", "--format", "parquet"],
]


@pytest.mark.parametrize(("blocked", "commands"), [(BLOCKED, FILES), (BARE, LINES)])
def test_decoding_without_numba_gives_the_same(day, legacy_day, tmp_path, blocked, commands):
    """JSON, CSV and Parquet of both feeds, and a simulated day."""
    legacy = sorted(str(each) for each in legacy_day.glob("*Legacy_Incremental*"))[0]

    def into(folder):
        folder.mkdir()
        names = {"day": day, "legacy": legacy, "out": folder}
        return [[word.format(**names) for word in words] for words in commands]

    for words in into(tmp_path / "compiled"):
        app(words, standalone_mode=False)
    code = (
        "from pregao.cli.main import app\n"
        f"for words in {into(tmp_path / 'plain')!r}:\n"
        "    app(words, standalone_mode=False)"
    )
    done = without(blocked, code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert outputs(tmp_path / "plain") == outputs(tmp_path / "compiled")


EXCHANGE = """
import asyncio, json
from decimal import Decimal
from pregao.entrypoint import Client, ClientSettings
from pregao.exchange.host.server import ExchangeServer
from pregao.exchange.host.settings import ExchangeSettings
from pregao.net.addresses import Address

async def main():
    anywhere = Address("127.0.0.1", 0)
    settings = ExchangeSettings(primary=anywhere, backup=anywhere, control_port=0, feed="none")
    server = ExchangeServer(settings)
    await server.start()
    serving = asyncio.create_task(server.serve())
    own = ClientSettings(session_id=100_000_001, firm=85, access_key="123456789ABC")
    async with Client(own, [("127.0.0.1", server.addresses[1].port)]) as client:
        requests = client.request_builder()
        name, values = requests.new("BUY", 100_000_010_014, 200, Decimal("30.50"))
        await client.request(name, values)
        order = client.orders.get(values["clOrdID"])
        print(json.dumps([str(order.status), order.leaves]))
    server.stop()
    await serving
    await server.close()

asyncio.run(main())
"""


def test_an_order_is_entered(tmp_path):
    plain = answer(without(BARE, EXCHANGE, tmp_path))
    compiled = subprocess.run(
        [sys.executable, "-c", EXCHANGE], capture_output=True, text=True, check=False
    )
    assert plain == answer(compiled)
    assert plain[1] == 200


LIVE = """
import json, sys
from pathlib import Path
sys.path.insert(0, {root!r})
from pregao.net.receiver import PlainReceiver
from tests.live.live_support import followed_at, replayer, running, settled

config, targets = followed_at()
with running(config) as handler:
    assert isinstance(handler._receiver, PlainReceiver)
    replayer(Path({day!r}), targets, speed=60.0).run()
    made = settled(handler, 100)
    print(json.dumps(sum(feed["packets"] for feed in made.channels[0].feeds.values())))
"""


def test_the_live_feed_is_followed_by_the_plain_machine(day, tmp_path):
    done = without(BARE, LIVE.format(root=str(ROOT), day=str(day)), tmp_path)
    assert answer(done) >= 100
    assert done.stderr.count("pip install 'pregao[fast]'") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["ingest", "day", "--lake", "lake", "--engine", "local"],
        ["stream", "day", "--lake", "lake", "--engine", "local", "--once"],
    ],
)
def test_a_lake_is_refused_in_one_line(day, words):
    done = command(BLOCKED, words, day.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1, done.stderr
    assert "pip install 'pregao[fast]'" in done.stderr
    assert not (day.parent / "lake").exists()


def test_the_doctor_reports_it(tmp_path):
    done = command(BLOCKED, ["doctor", "--json"], tmp_path)
    (found,) = [each for each in json.loads(done.stdout) if each["subject"] == "kernels"]
    assert "numba is not installed" in found["found"]
    assert "pip install 'pregao[fast]'" in found["remedy"]
