"""``pregao ep``: orders typed in a shell or played from a script, over a real socket."""

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pregao.cli.ep.console_commands import ConsoleCommand, parse, quantity, security
from pregao.errors import UsageError
from tests.entrypoint.tcp_desk import TcpDesk
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


class Served:
    """A gateway on a thread, for as long as a test needs it."""

    def __enter__(self):
        ready = threading.Event()

        def serve():
            async def work():
                self._loop = asyncio.get_running_loop()
                self._stop = asyncio.Event()
                async with TcpDesk() as desk:
                    self.desk = desk
                    self.address = f"127.0.0.1:{desk.port}"
                    ready.set()
                    await self._stop.wait()

            asyncio.run(work())

        self._thread = threading.Thread(target=serve)
        self._thread.start()
        assert ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *error):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE_S)

    def ep(self, *arguments, typed=""):
        """Run the command; give its exit code, output and complaints."""
        done = subprocess.run(
            [sys.executable, "-m", "pregao", "ep", *arguments, "--gateway", self.address],
            input=typed, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


SCENARIO = """
# A third of what is divisible by three trades at once.
new BUY 5 90 10.5 as first
expect new first orderQty=90 price=10.50
expect trade first lastQty=30 leavesQty=60
modify first 120 11
expect modify first leavesQty=90
cancel first
expect cancel first ordStatus=CANCELED
new SELL 5 13 1
expect reject text=unlucky
expect nothing within 50ms
"""


def test_a_shell_takes_its_lines_from_a_pipe():
    lines = [
        "new BUY 5 100 10.5 as first", "modify first 120 11", "new SELL 5 10 12", "cancel 2",
        "cancel nine", "new BUY PETR4 1", "buy", "cross 5 40 10", "mass-cancel", "wait 300ms",
        "status", "help",
    ]  # fmt: skip
    with Served() as served:
        code, out, err = served.ep("shell", typed="\n".join(lines))
    assert (code, err) == (0, "")
    for line in (
        "session 100000001 established",
        "> 1 SimpleNewOrder of order first",
        "ExecutionReport_Modify of order first: ordStatus=REPLACED orderQty=120 price=11.0000",
        "No order 'nine'; known orders: first, 2.",
        "was 'PETR4'",
        "Unknown command 'buy'",
        "OrderMassActionReport: massActionResponse=ACCEPTED",
        "order first: BUY 120 of 5 at 11.0000: CANCELED, traded 0, left 0",
        "mass-cancel [side=BUY]",
    ):
        assert line in out


def test_scripts_end_with_their_result(tmp_path):
    script = tmp_path / "a.txt"
    script.write_text(SCENARIO)
    with Served() as served:
        code, out, err = served.ep("run", str(script))
        assert (code, err) == (0, "")
        assert "10 steps, 6 expectations, all met" in out
        # A second run forgot the first one's session: it is sent that again, and passes it over.
        assert served.ep("run", str(script))[0] == 0
        code, _, err = served.ep("run", "-", typed="new BUY 5 100 10\nexpect trade within 2s\n")
        assert code == 1
        assert "-:2: ExecutionReport_Trade did not arrive within 2 s; received: Exec" in err
        code, _, err = served.ep("run", "-", typed="new BUY 5 100 10\nexpect new colour=red\n")
        assert code == 2
        assert "-:2: ExecutionReport_New has no field 'colour'" in err
        code, _, err = served.ep("run", str(script), "--access-key", "wrong")
        assert code == 2
        assert "refused session 100000001: CREDENTIALS" in err


def test_a_session_is_kept_in_a_file(tmp_path):
    store = str(tmp_path / "session")
    with Served() as served:
        served.ep("run", "-", "--store", store, typed="new BUY 5 100 10\nexpect new\n")
        code, out, _ = served.ep("run", "-", "--store", store, typed="cancel 1\nexpect cancel 1\n")
    assert code == 0
    assert "> 2 OrderCancelRequest of order 1" in out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("buy 5", "Unknown command 'buy'"),
        ("new BUY 5", "Usage: new BUY"),
        ("cancel", "Usage: cancel ORDER"),
        ("new BUY 5 1 as", "Missing value after 'as'"),
        ("expect new within soon", "within must be a duration"),
        ('new "BUY', "Invalid line"),
    ],
)
def test_invalid_lines_are_refused(line, complaint):
    with pytest.raises(UsageError, match=complaint):
        parse(line)


def test_lines_are_words_fields_and_names():
    assert parse("  # nothing") is None
    assert parse("new BUY 5 100 10.5 timeInForce=DAY as a") == ConsoleCommand(
        "new", ("BUY", "5", "100", "10.5"), (("timeInForce", "DAY"),), "a"
    )
    assert parse("expect trade a lastQty=3 within 2s") == ConsoleCommand(
        "expect", ("ExecutionReport_Trade", "a"), (("lastQty", "3"),), "", 2_000_000_000
    )


def test_a_script_is_read_before_anything_is_sent(tmp_path):
    script = tmp_path / "a.txt"
    script.write_text("new BUY 5 1 1\nexpet new\n")
    with Served() as served:
        code, out, err = served.ep("run", str(script))
    assert (code, out) == (2, "")
    assert f"{script}:2: Unknown command 'expet'" in err


def test_the_example_of_the_documents():
    with Served() as served:
        done = subprocess.run(
            [sys.executable, "examples/entrypoint_client.py", served.address, "5"],
            capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "entered: NEW, 200 left", "modified: 300 at 10.4000", "ended: CANCELED, 0 traded",
    ]  # fmt: skip
    assert "  report 2: ExecutionReport_Modify" in lines


def test_the_example_reports_the_same_at_an_exchange_that_it_used_before():
    ids = []
    with Served() as served:
        for first in (1, 4):
            done = subprocess.run(
                [sys.executable, "examples/entrypoint_client.py", served.address, "5"],
                capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd=ROOT,
            )  # fmt: skip
            lines = done.stdout.splitlines()
            assert [line for line in lines if not line.startswith(" ")] == [
                "entered: NEW, 200 left", "modified: 300 at 10.4000", "ended: CANCELED, 0 traded",
            ]  # fmt: skip
            assert f"  report {first + 2}: ExecutionReport_Cancel" in lines
            orders = served.desk.market.orders.values()
            assert [each["status"] for each in orders] == ["CANCELED"] * (len(ids) + 1)
            ids.append(served.desk.market.orders[1000 + len(ids)]["client"])
    assert ids == sorted(set(ids))


@pytest.mark.parametrize("read", [quantity, security])
def test_numbers_of_commands_have_64_bits(read):
    assert read("18446744073709551615") == (1 << 64) - 1
    for text in ("18446744073709551616", "9" * 4301, "9" * 10_000, "-1", "\u00b2", ""):
        with pytest.raises(UsageError, match=r"^(QUANTITY|SECURITY) must be"):
            read(text)
