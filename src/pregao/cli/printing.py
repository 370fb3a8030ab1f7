"""Escape control characters from files and the wire in everything printed to the terminal.

A symbol, a headline or a file name can contain escape codes that move the cursor, retitle the
window or reverse the direction of a line. `guard` replaces standard output and standard error with
streams that escape all text of a command; the consoles of `pregao.cli.terminal` escape their input
and add their own colors afterwards.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any, TextIO, cast

# C0 except tab and line feed, DEL, C1, marks and overrides of direction, line and paragraph
# separators, and lone surrogates, which are bytes of file names that are not UTF-8.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


def plain(text: str) -> str:
    """Return text with control characters written as ``\\u001b``, which JSON parsers decode."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class GuardedStream:
    """A text stream that escapes control characters; its ``buffer`` writes bytes unchanged."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Rich consoles, including the one for help texts, write their colors to this stream.
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text with control characters escaped."""
        return self._stream.write(plain(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines with control characters escaped."""
        self._stream.writelines(map(plain, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard() -> None:
    """Pass all text that this process writes to standard output and error through `plain`."""
    if not isinstance(sys.stdout, GuardedStream):
        sys.stdout = cast(TextIO, GuardedStream(sys.stdout))
    if not isinstance(sys.stderr, GuardedStream):
        sys.stderr = cast(TextIO, GuardedStream(sys.stderr))
