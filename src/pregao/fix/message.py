"""Messages of FIX as tag=value fields: out of a stream of bytes, and into bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pregao.errors import DecodeError, EncodeError

SOH = b"\x01"
BEGIN_STRING = b"FIX.4.4"
MOST_BYTES = 16 * 1024 * 1024
"""The longest body that is read."""
_DATA = {95: 96, 90: 91, 212: 213, 348: 349, 350: 351, 352: 353, 354: 355, 356: 357, 358: 359}
"""Fields that give the length of the field behind them, which may hold any bytes."""
_HEAD = b"8=" + BEGIN_STRING + SOH + b"9="
_LONGEST_LENGTH = 9
_TRAILER = 7
"""Bytes of ``10=123`` and the SOH behind it."""

Field = tuple[int, bytes]
Value = bytes | str | int


@dataclass(frozen=True, slots=True)
class FixMessage:
    """A message: its fields in order, without begin string, length and checksum."""

    fields: tuple[Field, ...]

    def get(self, tag: int) -> bytes | None:
        """The first value of a tag, or None."""
        return next((value for own, value in self.fields if own == tag), None)

    def text(self, tag: int) -> str:
        """The first value of a tag as text; empty without one."""
        return (self.get(tag) or b"").decode("ascii", "replace")

    def number(self, tag: int) -> int | None:
        """The first value of a tag as a number, or None; what is no number is an error."""
        value = self.get(tag)
        if value is None:
            return None
        if not value.isdigit() or len(value) > 18:
            raise DecodeError(f"tag {tag} is not a number")
        return int(value)

    @property
    def type(self) -> str:
        """Tag 35."""
        return self.text(35)

    def groups(self, count_tag: int, first_tag: int) -> Iterator[FixMessage]:
        """The entries of a repeating group, each beginning with its first tag.

        What follows the last entry is in that one too: who reads it takes the first of a tag.
        """
        start = next((at for at, (tag, _) in enumerate(self.fields) if tag == count_tag), None)
        if start is None:
            return
        count = int(self.fields[start][1] or b"0") if self.fields[start][1].isdigit() else 0
        begins = [at for at, (tag, _) in enumerate(self.fields) if at > start and tag == first_tag][
            :count
        ]
        for at, begin in enumerate(begins):
            end = begins[at + 1] if at + 1 < len(begins) else len(self.fields)
            yield FixMessage(self.fields[begin:end])


def encode(fields: Iterable[tuple[int, Value]]) -> bytes:
    """The bytes of a message; its fields begin with tag 35."""
    body = bytearray()
    own = list(fields)
    if not own or own[0][0] != 35:
        raise EncodeError("a message begins with its type, tag 35")
    last_length: tuple[int, int] | None = None
    for tag, value in own:
        data = value if isinstance(value, bytes) else str(value).encode("ascii")
        if SOH in data and last_length != (tag, len(data)):
            raise EncodeError(f"tag {tag} holds the separator, and no length stands before it")
        body += b"%d=" % tag + data + SOH
        last_length = (_DATA[tag], int(data)) if tag in _DATA and data.isdigit() else None
    head = _HEAD + str(len(body)).encode() + SOH
    whole = head + bytes(body)
    return whole + b"10=%03d" % (sum(whole) % 256) + SOH


class Parser:
    """Takes messages out of a stream of bytes, in whatever pieces it comes."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._held = bytearray()

    @property
    def pending(self) -> int:
        """Bytes of a message that is not whole yet."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[FixMessage]:
        """The messages that are whole with these bytes; DecodeError if the stream is none."""
        self._held += data
        while True:
            message = self._next()
            if message is None:
                return
            yield message

    def _next(self) -> FixMessage | None:
        held = self._held
        known = min(len(held), len(_HEAD))
        if held[:known] != _HEAD[:known]:
            raise DecodeError("not a message of FIX 4.4", 0)
        end_of_length = held.find(SOH, len(_HEAD), len(_HEAD) + _LONGEST_LENGTH + 1)
        if end_of_length < 0:
            if len(held) > len(_HEAD) + _LONGEST_LENGTH:
                raise DecodeError("the length of the body is not a number", len(_HEAD))
            return None
        digits = bytes(held[len(_HEAD) : end_of_length])
        if not digits.isdigit() or int(digits) > self._most:
            raise DecodeError("the length of the body is not a number up to its limit", len(_HEAD))
        start = end_of_length + 1
        end = start + int(digits)
        if len(held) < end + _TRAILER:
            return None
        trailer = b"10=%03d" % (sum(held[:end]) % 256) + SOH
        if bytes(held[end : end + _TRAILER]) != trailer:
            raise DecodeError("the checksum is wrong", end)
        body = bytes(held[start:end])
        del held[: end + _TRAILER]
        return FixMessage(tuple(_fields(body)))


def _fields(body: bytes) -> Iterator[Field]:
    position = 0
    expected: tuple[int, int] | None = None
    """The tag behind a length, and how many bytes it has."""
    while position < len(body):
        equals = body.find(b"=", position)
        if equals < 0 or not body[position:equals].isdigit() or equals - position > 9:
            raise DecodeError("a field without a tag", position)
        tag = int(body[position:equals])
        if expected is not None and expected[0] == tag:
            end = equals + 1 + expected[1]
        else:
            end = body.find(SOH, equals)
        if end < 0 or body[end : end + 1] != SOH:
            raise DecodeError("a field without an end", position)
        value = body[equals + 1 : end]
        yield tag, value
        expected = None
        if tag in _DATA and value.isdigit() and len(value) < 10:
            expected = _DATA[tag], int(value)
        position = end + 1
