"""Single key presses from a terminal, without waiting for the end of a line."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

_NAMES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b": "escape",
    b"\r": "enter",
    b"\n": "enter",
    b"\t": "tab",
    b"\x7f": "backspace",
    b"\x08": "backspace",
}


def key_names(pressed: bytes) -> list[str]:
    """Return the names of the keys in a terminal's input; unknown keys are omitted."""
    found = []
    while pressed:
        for size in (4, 3, 1):
            name = _NAMES.get(pressed[:size])
            if name is not None:
                break
        else:
            size, name = 1, chr(pressed[0]) if 32 <= pressed[0] < 127 else ""
        if name:
            found.append(name)
        pressed = pressed[size:]
    return found


class KeyReader:
    """Reads keys from standard input, if that is a terminal."""

    def __init__(self) -> None:
        self._open = sys.stdin.isatty()

    def wait(self, seconds: float) -> list[str]:
        """Return the keys pressed, waiting up to `seconds` for the first one."""
        if not self._open:
            select.select([], [], [], seconds)
            return []
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        if not ready:
            return []
        pressed = os.read(sys.stdin.fileno(), 64)
        if not pressed:  # end of file: the terminal was closed
            self._open = False
            return ["q"]
        return key_names(pressed)


@contextmanager
def keys() -> Iterator[KeyReader]:
    """Switch the terminal to single key presses inside the `with` block."""
    if not sys.stdin.isatty():
        yield KeyReader()
        return
    settings = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield KeyReader()
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, settings)
