"""FAST wire format of single numbers, texts and presence maps, for the generated functions.

Error messages contain the error code of the specification.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from pregao.errors import DecodeError, EncodeError
from pregao.fast.model import MAX_ENTRIES, MAX_EXPONENT, TEXT_ALLOWANCE, TEXT_FACTOR, FieldType

MAX_TEXT = 0xFFFF
"""Maximum bytes of a text built from a previous one, which could otherwise grow forever."""
MAX_NUMBER_BYTES = 10
"""Maximum bytes of a number: 70 bits are enough for any number and any delta."""

MANY_ENTRIES = f"the sequences have more than {MAX_ENTRIES:,} entries"
MUCH_TEXT = f"repeats more text than {TEXT_FACTOR} times the message's bytes and {TEXT_ALLOWANCE:,}"

ASCII = [chr(byte & 0x7F) for byte in range(256)]
"""Text of one byte that has its stop bit set."""
_LAST = [*ASCII]
ASCII[0x80] = ""
NULLABLE_ASCII: list[str | None] = [*ASCII]
NULLABLE_ASCII[0x80] = None

_stop = re.compile(rb"[\x80-\xff]").search
_context = decimal.Context(prec=200)
scaleb = _context.scaleb
"""Exact multiplication of a decimal by a power of ten."""
_MANTISSA = (FieldType.INT64.minimum, FieldType.INT64.maximum)


class Undefined:
    """State of a previous value that was never set; its only instance is `UNDEFINED`."""

    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED = Undefined()


def unsigned_rest(buffer: bytes, position: int, first: int, maximum: int) -> tuple[int, int]:
    """Read the rest of an unsigned number after a first byte without stop bit; and its end."""
    if not first:
        raise DecodeError("an integer in more bytes than it needs (ERR R6)", position - 1)
    # A loop, unrolled up to the size of a time. Four bytes fit every kind.
    byte = buffer[position]
    if byte > 127:
        return first << 7 | byte & 127, position + 1
    value = first << 7 | byte
    byte = buffer[position + 1]
    if byte > 127:
        return value << 7 | byte & 127, position + 2
    value = value << 7 | byte
    byte = buffer[position + 2]
    if byte > 127:
        return value << 7 | byte & 127, position + 3
    value = value << 14 | byte << 7
    byte = buffer[position + 3]
    if byte > 127:
        value, position = value | byte & 127, position + 4
    else:
        value = (value | byte) << 7
        byte = buffer[position + 4]
        if byte > 127:
            value, position = value | byte & 127, position + 5
        else:
            value = (value | byte) << 14
            byte = buffer[position + 5]
            if byte > 127:
                value, position = value >> 7 | byte & 127, position + 6
            else:
                value |= byte << 7
                byte = buffer[position + 6]
                if byte > 127:
                    value, position = value | byte & 127, position + 7
                else:
                    value, position = _longer(buffer, position + 7, value | byte)
    if value > maximum:
        raise DecodeError("an integer out of its range (ERR D2)", position - 1)
    return value, position


def signed_rest(
    buffer: bytes, position: int, first: int, minimum: int, maximum: int
) -> tuple[int, int]:
    """Read the rest of a signed number after a first byte without stop bit; and its end."""
    second = buffer[position]
    if (first == 0 and not second & 0x40) or (first == 0x7F and second & 0x40):
        raise DecodeError("an integer in more bytes than it needs (ERR R6)", position - 1)
    if first & 0x40:
        first -= 0x80
    if second > 127:
        value, position = first << 7 | second & 127, position + 1
    elif (third := buffer[position + 1]) > 127:
        value, position = first << 14 | second << 7 | third & 127, position + 2
    else:
        value, position = _longer(buffer, position + 2, first << 14 | second << 7 | third)
    if not minimum <= value <= maximum:
        raise DecodeError("an integer out of its range (ERR D2)", position - 1)
    return value, position


def _longer(buffer: bytes, position: int, value: int) -> tuple[int, int]:
    """Read the rest of a number after its first bytes, none of which had the stop bit."""
    for byte in buffer[position : position + MAX_NUMBER_BYTES]:
        position += 1
        value = value << 7 | byte & 127
        if byte > 127:
            if value >> 7 * MAX_NUMBER_BYTES - 1 in (0, -1) or value >> 7 * MAX_NUMBER_BYTES == 0:
                return value, position
            break
    else:
        if position >= len(buffer):
            raise IndexError
    raise DecodeError("an integer out of its range (ERR D2)", position - 1)


def ascii_rest(buffer: bytes, position: int, nullable: bool) -> tuple[str, int]:
    """Read an ASCII string of more than one byte; return it and its end."""
    found = _stop(buffer, position)
    if found is None:
        raise IndexError
    end = found.end()
    text = buffer[position : end - 1].decode("ascii") + _LAST[buffer[end - 1]]
    if text[0] == "\0":
        # Leading zeros distinguish null, the empty string and the character 0.
        known = ("", "\0") if nullable else ("\0",)
        if text.strip("\0") or len(text) - 2 >= len(known):
            raise DecodeError("a string in more bytes than it needs (ERR R9)", position)
        text = known[len(text) - 2]
    return text, end


def bytes_of(buffer: bytes, position: int, length: int) -> bytes:
    """Return ``length`` bytes from a position on."""
    if length > len(buffer) - position:
        raise DecodeError(f"{length} bytes run past the end of the message", position)
    return buffer[position : position + length]


def text_of(raw: bytes) -> str:
    """Decode UTF-8 bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise DecodeError("a Unicode string that is not UTF-8 (ERR R2)") from None


def map_rest(buffer: bytes, position: int, first: int, bits: int) -> tuple[int, int]:
    """Read the rest of a presence map after a first byte without stop bit; return it and its end.

    The result has ``bits`` bits: missing bits are zero, excess bits are ignored.
    """
    # A loop, unrolled for the maps of entries, which are the longest.
    byte = buffer[position]
    if byte > 127:
        value, lacking = first << 7 | byte & 127, bits - 14
        return (value << lacking if lacking > 0 else value >> -lacking), position + 1
    value = first << 7 | byte
    byte = buffer[position + 1]
    if byte > 127:
        value, lacking = value << 7 | byte & 127, bits - 21
        return (value << lacking if lacking > 0 else value >> -lacking), position + 2
    value = value << 7 | byte
    byte = buffer[position + 2]
    if byte > 127:
        value, lacking = value << 7 | byte & 127, bits - 28
        return (value << lacking if lacking > 0 else value >> -lacking), position + 3
    value = value << 7 | byte
    lacking, position = bits - 28, position + 3
    while lacking > -7:
        byte = buffer[position]
        position += 1
        value = value << 7 | byte & 127
        lacking -= 7
        if byte > 127:
            return (value << lacking if lacking > 0 else value >> -lacking), position
    found = _stop(buffer, position)
    if found is None:
        raise IndexError
    return value >> -lacking, found.end()


@lru_cache(8192)  # the prices of a market repeat
def decimal_of(mantissa: int, exponent: int) -> decimal.Decimal:
    """Return the decimal of a mantissa and an exponent; it keeps the exponent."""
    return _context.scaleb(decimal.Decimal(mantissa), exponent)


def exponent_error() -> DecodeError:
    """Return the error for an exponent out of range."""
    return DecodeError(f"a decimal's exponent beyond {MAX_EXPONENT} (ERR R1)")


def same_kind(kept: tuple[FieldType, Any], kind: FieldType) -> Any:
    """Return the previous value of a slot shared by fields of different kinds."""
    if kept[0] is not kind:
        raise DecodeError(f"the previous value is of {kept[0].value}, not {kind.value} (ERR D4)")
    return kept[1]


def changed(base: Any, subtracted: int, added: Any) -> Any:
    """Apply a delta to a text: remove characters at one end, and add others there."""
    taken = subtracted if subtracted >= 0 else -subtracted - 1
    if taken > len(base):
        raise DecodeError(f"{taken} characters to take off a text of {len(base)} (ERR D7)")
    text = base[: len(base) - taken] + added if subtracted >= 0 else added + base[taken:]
    if len(text) > MAX_TEXT:
        raise DecodeError(f"a text that has grown beyond {MAX_TEXT} bytes")
    return text


def tailed(base: Any, tail: Any) -> Any:
    """Apply a tail to a text: replace its end."""
    return base[: len(base) - len(tail)] + tail if len(tail) < len(base) else tail


# Encoding.

_SHORT = [bytes((seven | 0x80,)) for seven in range(128)]
"""Seven bits and the stop bit."""
TWO_BYTES = 1 << 14
"""Lowest unsigned number of more than two bytes; for signed numbers half of it."""


class _Table(dict[int, bytes]):
    """Encoded numbers of up to 14 bits, each computed on first use."""

    def __init__(self, made: Callable[[int], bytes]) -> None:
        super().__init__()
        self._made = made

    def __missing__(self, value: int) -> bytes:
        found = self[value] = self._made(value)
        return found


_LOW = _Table(lambda value: bytes((value >> 7 & 0x7F,)) + _SHORT[value & 0x7F])
"""Last two bytes of a number, with the stop bit."""
UNSIGNED = _Table(lambda value: (bytes((value >> 7,)) if value > 127 else b"") + _LOW[value][1:])
"""Encoded unsigned numbers of 14 bits."""
SIGNED = _Table(
    lambda value: _LOW[value & 0x3FFF][-64 <= value < 64 :]  # one byte has six bits and a sign
)
"""Encoded signed numbers of 14 bits."""
_MIDDLE = _Table(lambda value: bytes((value >> 7, value & 0x7F)))
"""Two bytes in the middle of a number."""
_FIRST = _Table(lambda value: bytes((value >> 7, value & 0x7F)) if value > 127 else bytes((value,)))
"""First bytes of an unsigned number."""
_FIRST_SIGNED = _Table(
    lambda value: (
        bytes((value & 0x7F,)) if -64 <= value < 64 else bytes((value >> 7 & 0x7F, value & 0x7F))
    )
)
"""First bytes of a signed number."""


def unsigned(value: int) -> bytes:
    """Encode an unsigned number."""
    low = _LOW[value & 0x3FFF]
    rest = value >> 14
    if not rest:
        return UNSIGNED[value]
    while rest >= TWO_BYTES:
        low = _MIDDLE[rest & 0x3FFF] + low
        rest >>= 14
    return _FIRST[rest] + low


def signed(value: int) -> bytes:
    """Encode a signed number."""
    if -0x2000 <= value < 0x2000:
        return SIGNED[value]
    low = _LOW[value & 0x3FFF]
    rest = value >> 14
    while not -0x2000 <= rest < 0x2000:
        low = _MIDDLE[rest & 0x3FFF] + low
        rest >>= 14
    return _FIRST_SIGNED[rest] + low


def nullable_signed(value: int) -> bytes:
    """Encode a nullable signed number, in which 0 is the null."""
    return signed(value + 1 if value >= 0 else value)


def ascii_bytes(text: str, nullable: bool) -> bytes:
    """Encode an ASCII string, with the stop bit in its last byte."""
    raw = text.encode("ascii")
    if not raw or raw == b"\0":
        return bytes(len(raw) + nullable) + b"\x80"
    return raw[:-1] + _SHORT[raw[-1]]


@lru_cache(8192)
def presence_map(value: int, bits: int) -> bytes:
    """Encode a presence map of ``bits`` bits, without trailing zero bytes."""
    count = -(-bits // 7)
    value <<= 7 * count - bits
    while count > 1 and not value & 0x7F:
        value >>= 7
        count -= 1
    out = bytearray(value >> 7 * group & 0x7F for group in range(count - 1, -1, -1))
    out[-1] |= 0x80
    return bytes(out)


def number(value: Any, name: str, minimum: int, maximum: int) -> int:
    """Return an integer; raise `EncodeError` if it is none or out of range."""
    if value is None:
        raise EncodeError(f"{name}: mandatory, and no value was given")
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise EncodeError(f"{name}: {value!r} is not an integer")
    whole = int(value)
    if not minimum <= whole <= maximum:
        raise EncodeError(f"{name}: {whole} is not between {minimum} and {maximum} (ERR D2)")
    return whole


def ascii_text(value: Any, name: str) -> str:
    """Return an ASCII string; raise `EncodeError` if it cannot be encoded."""
    if value is None:
        raise EncodeError(f"{name}: mandatory, and no value was given")
    if not isinstance(value, str) or not value.isascii():
        raise EncodeError(f"{name}: {value!r} is not a text of ASCII characters (ERR R3)")
    if value[:1] == "\0" and len(value) > 1:
        raise EncodeError(f"{name}: a text that begins with the character 0 cannot be written")
    return value


def raw_bytes(value: Any, name: str, unicode: bool) -> bytes:
    """Return the bytes of a Unicode string or byte vector; raise `EncodeError` if invalid."""
    if value is None:
        raise EncodeError(f"{name}: mandatory, and no value was given")
    if unicode:
        if not isinstance(value, str):
            raise EncodeError(f"{name}: {value!r} is not a text")
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise EncodeError(f"{name}: {value!r} cannot be written as UTF-8 (ERR R2)") from None
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise EncodeError(f"{name}: {value!r} is not bytes")
    return bytes(value)


def scaled(value: Any, name: str) -> tuple[int, int]:
    """Return the exponent and mantissa of a decimal; raise `EncodeError` if invalid."""
    if value is None:
        raise EncodeError(f"{name}: mandatory, and no value was given")
    if isinstance(value, bool) or not isinstance(value, (decimal.Decimal, int)):
        raise EncodeError(f"{name}: {value!r} is not a decimal")
    if isinstance(value, int):
        exponent, mantissa = 0, value
    elif (text := str(value)).replace(".", "", 1).lstrip("-").isdigit():
        # The usual case; as_tuple() takes twice as long.
        exponent = text.find(".") - len(text) + 1 if "." in text else 0
        mantissa = int(text.replace(".", "", 1))
    else:
        sign, digits, power = value.as_tuple()
        if not isinstance(power, int):
            raise EncodeError(f"{name}: {value} is not a number")
        exponent, mantissa = power, int("".join(map(str, digits)) or "0")
        mantissa = -mantissa if sign else mantissa
    if not -MAX_EXPONENT <= exponent <= MAX_EXPONENT or not _fits(mantissa):
        raise EncodeError(f"{name}: {value} does not fit exponent and mantissa (ERR R1)")
    return exponent, mantissa


def _fits(mantissa: int) -> bool:
    return _MANTISSA[0] <= mantissa <= _MANTISSA[1]


def rescaled(name: str, exponent: int, mantissa: int, wanted: int) -> int:
    """Return the mantissa of the decimal at another exponent."""
    power: int = 10 ** abs(exponent - wanted)
    result, rest = (mantissa * power, 0) if exponent >= wanted else divmod(mantissa, power)
    if rest or not _fits(result):
        raise EncodeError(f"{name}: cannot be written with the exponent {wanted} (ERR D3)")
    return result


def difference(base: Any, text: Any) -> tuple[int, Any]:
    """Return the delta between two texts: subtraction length and added characters."""
    shorter = min(len(base), len(text))
    prefix = 0
    while prefix < shorter and base[prefix] == text[prefix]:
        prefix += 1
    suffix = 0
    while suffix < shorter and base[-1 - suffix] == text[-1 - suffix]:
        suffix += 1
    if suffix > prefix:
        return -(len(base) - suffix) - 1, text[: len(text) - suffix]
    prefix = _writable_from(text, prefix)
    return len(base) - prefix, text[prefix:]


def _writable_from(text: Any, start: int) -> int:
    """Return the start of an encodable end of a text, which must not begin with character 0."""
    while start and text[start : start + 1] == "\0" and start + 1 < len(text):
        start -= 1
    return start


def tail_of(name: str, base: Any, text: Any) -> Any:
    """Return the tail that turns ``base`` into a text."""
    if len(text) > len(base):
        return text
    if len(text) < len(base):
        raise EncodeError(f"{name}: {text!r} is shorter than its previous value {base!r}")
    prefix = 0
    while prefix < len(text) and base[prefix] == text[prefix]:
        prefix += 1
    return text[_writable_from(text, prefix) :]
