"""The console of ``pregao ep shell``: lines in, what happens out, as it happens."""

from __future__ import annotations

import asyncio
import sys
import threading
from contextlib import suppress

from pregao.cli.ep_desk import Desk
from pregao.cli.ep_language import parse
from pregao.errors import PregaoError

_AFTERWARDS_S = 0.5
"""How long answers are waited for when the input is over."""


async def converse(desk: Desk) -> None:
    """Carry out what is typed until there is no more, and show what comes."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    typed = sys.stdin.isatty()

    def listen() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, None)

    # A thread of its own, which does not hold the end of the program up.
    threading.Thread(target=listen, daemon=True).start()
    hearing = asyncio.create_task(_show(desk))
    try:
        if typed:
            _say("help lists the commands, quit ends.")
        while (line := await lines.get()) is not None:
            try:
                command = parse(line)
                if command is None:
                    continue
                if command.name == "quit":
                    return
                for told in await desk.do(command):
                    _say(told)
            except PregaoError as error:
                _say(str(error))
        await asyncio.sleep(_AFTERWARDS_S)
    finally:
        hearing.cancel()
        with suppress(asyncio.CancelledError):
            await hearing


async def _show(desk: Desk) -> None:
    while (line := await desk.next_line()) is not None:
        _say(line)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
