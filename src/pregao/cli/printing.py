"""The one way of text to the terminal: control characters from files and the wire are escaped.

A symbol, a headline or the name of a file can hold escape codes that move the cursor, retitle the
window or reverse the direction of a line. `guard` puts a stream in the place of standard output and
standard error through which all text of a command passes; the consoles of `pregao.cli.terminal`
escape what they are given and add their own colours after that.
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
    """Return text with its control characters as ``\\u001b``, which JSON reads back as well."""
    return _CONTROL.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class GuardedStream:
    """A text stream that escapes control characters; its ``buffer`` takes bytes as they are."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # Consoles of rich, that of the help texts too, write their colours to this one.
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        """Write text, escaped."""
        return self._stream.write(plain(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, escaped."""
        self._stream.writelines(map(plain, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def guard() -> None:
    """Let all text of this process to standard output and error pass through `plain`."""
    if not isinstance(sys.stdout, GuardedStream):
        sys.stdout = cast(TextIO, GuardedStream(sys.stdout))
    if not isinstance(sys.stderr, GuardedStream):
        sys.stderr = cast(TextIO, GuardedStream(sys.stderr))
