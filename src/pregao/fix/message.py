"""FIX messages as tag=value fields: parsing from a byte stream, and encoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pregao.errors import DecodeError, EncodeError

SOH = b"\x01"
BEGIN_STRING = b"FIX.4.4"
MAX_BYTES = 16 * 1024 * 1024
"""Maximum body length that is accepted."""
_DATA = {95: 96, 90: 91, 212: 213, 348: 349, 350: 351, 352: 353, 354: 355, 356: 357, 358: 359}
"""Length fields, and the data field that follows each: it may contain any bytes."""
_HEAD = b"8=" + BEGIN_STRING + SOH + b"9="
_MAX_LENGTH = 9
_MAX_DIGITS = 18
_TRAILER = 7
"""Bytes of ``10=123`` and the SOH after it."""

Field = tuple[int, bytes]
Value = bytes | str | int


@dataclass(frozen=True, slots=True)
class FixMessage:
    """Fields of a message in order, without begin string, length and checksum."""

    fields: tuple[Field, ...]

    def get(self, tag: int) -> bytes | None:
        """Return the first value of a tag, or None."""
        return next((value for key, value in self.fields if key == tag), None)

    def text(self, tag: int) -> str:
        """Return the first value of a tag as text; empty if the tag is missing.

        Every byte is one Latin-1 character, so that `encode` returns the same bytes.
        """
        return (self.get(tag) or b"").decode("latin-1")

    def number(self, tag: int) -> int | None:
        """Return the first value of a tag as an integer, or None.

        Raises `DecodeError` if the value is not an integer of up to 18 digits.
        """
        value = self.get(tag)
        if value is None:
            return None
        if not value.isdigit() or len(value) > _MAX_DIGITS:
            raise DecodeError(f"tag {tag}: value is not a number of up to {_MAX_DIGITS} digits")
        return int(value)

    @property
    def type(self) -> str:
        """Tag 35."""
        return self.text(35)

    def groups(self, count_tag: int, first_tag: int) -> Iterator[FixMessage]:
        """Yield the entries of a repeating group, each starting with `first_tag`.

        The last entry also contains the fields that follow the group, so read only the first
        value of a tag from it.
        """
        start = next(
            (index for index, (tag, _) in enumerate(self.fields) if tag == count_tag), None
        )
        if start is None:
            return
        digits = self.fields[start][1]
        count = int(digits) if digits.isdigit() and len(digits) <= _MAX_DIGITS else 0
        begins = [
            index
            for index, (tag, _) in enumerate(self.fields)
            if index > start and tag == first_tag
        ][:count]
        for index, begin in enumerate(begins):
            end = begins[index + 1] if index + 1 < len(begins) else len(self.fields)
            yield FixMessage(self.fields[begin:end])


def encode(fields: Iterable[tuple[int, Value]]) -> bytes:
    """Return the bytes of a message; the first field must be tag 35."""
    body = bytearray()
    pairs = list(fields)
    if not pairs or pairs[0][0] != 35:
        raise EncodeError("the first field of a FIX message must be its type, tag 35")
    last_length: tuple[int, int] | None = None
    for tag, value in pairs:
        try:
            data = value if isinstance(value, bytes) else str(value).encode("latin-1")
        except UnicodeEncodeError:
            raise EncodeError(
                f"tag {tag}: {value!r:.80} must have only Latin-1 characters"
            ) from None
        if SOH in data and last_length != (tag, len(data)):
            raise EncodeError(
                f"tag {tag}: value contains the separator (SOH), and no length field precedes it"
            )
        body += b"%d=" % tag + data + SOH
        last_length = (_DATA[tag], int(data)) if tag in _DATA and data.isdigit() else None
    head = _HEAD + str(len(body)).encode() + SOH
    message = head + bytes(body)
    return message + b"10=%03d" % (sum(message) % 256) + SOH


class Parser:
    """Extracts messages from a byte stream that arrives in pieces of any size."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._held = bytearray()

    @property
    def pending(self) -> int:
        """Buffered bytes of an incomplete message."""
        return len(self._held)

    def feed(self, data: bytes) -> Iterator[FixMessage]:
        """Yield the messages that these bytes complete; DecodeError if the stream is not FIX."""
        self._held += data
        while True:
            message = self._next()
            if message is None:
                return
            yield message

    def _next(self) -> FixMessage | None:
        buffer = self._held
        available = min(len(buffer), len(_HEAD))
        if buffer[:available] != _HEAD[:available]:
            raise DecodeError("not a FIX 4.4 message", 0)
        end_of_length = buffer.find(SOH, len(_HEAD), len(_HEAD) + _MAX_LENGTH + 1)
        if end_of_length < 0:
            if len(buffer) > len(_HEAD) + _MAX_LENGTH:
                raise DecodeError("body length (tag 9) is not a number", len(_HEAD))
            return None
        digits = bytes(buffer[len(_HEAD) : end_of_length])
        if not digits.isdigit() or int(digits) > self._max_bytes:
            raise DecodeError(
                f"body length (tag 9) is not a number up to {self._max_bytes}", len(_HEAD)
            )
        start = end_of_length + 1
        end = start + int(digits)
        if len(buffer) < end + _TRAILER:
            return None
        trailer = b"10=%03d" % (sum(buffer[:end]) % 256) + SOH
        if bytes(buffer[end : end + _TRAILER]) != trailer:
            raise DecodeError("wrong checksum (tag 10)", end)
        body = bytes(buffer[start:end])
        del buffer[: end + _TRAILER]
        return FixMessage(tuple(_fields(body)))


def _fields(body: bytes) -> Iterator[Field]:
    position = 0
    expected: tuple[int, int] | None = None
    """The data field announced by a length field: its tag and number of bytes."""
    while position < len(body):
        equals = body.find(b"=", position)
        if equals < 0 or not body[position:equals].isdigit() or equals - position > 9:
            raise DecodeError("field without a tag", position)
        tag = int(body[position:equals])
        if expected is not None and expected[0] == tag:
            end = equals + 1 + expected[1]
        else:
            end = body.find(SOH, equals)
        if end < 0 or body[end : end + 1] != SOH:
            raise DecodeError("field without a terminating SOH", position)
        value = body[equals + 1 : end]
        yield tag, value
        expected = None
        if tag in _DATA and value.isdigit() and len(value) < 10:
            expected = _DATA[tag], int(value)
        position = end + 1
