"""Console of ``pregao ep shell``: reads commands and prints events as they arrive."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress

from pregao.cli.ep_desk import OrderConsole
from pregao.cli.ep_language import parse
from pregao.errors import PregaoError

_AFTERWARDS_S = 0.5
"""Time to wait for replies after the end of the input."""


async def run_shell(desk: OrderConsole) -> None:
    """Run commands from standard input until it ends, and print what arrives."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    typed = sys.stdin.isatty()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    # A daemon thread: a blocking read of standard input must not delay the exit of the process.
    threading.Thread(target=listen, daemon=True).start()
    printing = asyncio.create_task(_show(desk))
    try:
        if typed:
            _print_line('Type "help" for the commands, "quit" to end.')
        while (line := await lines.get()) is not None:
            try:
                command = parse(line)
                if command is None:
                    continue
                if command.name == "quit":
                    return
                for text in await desk.do(command):
                    _print_line(text)
            except PregaoError as error:
                _print_line(str(error))
        await asyncio.sleep(_AFTERWARDS_S)
    finally:
        printing.cancel()
        with suppress(asyncio.CancelledError):
            await printing


async def _show(desk: OrderConsole) -> None:
    while (line := await desk.next_line()) is not None:
        _print_line(line)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
