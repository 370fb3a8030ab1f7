"""Parse a packet pasted in hexadecimal: plain digits, or a dump with offsets and a text column."""

from __future__ import annotations

import re

from pregao.capture.layers import ETHERNET, Datagram, PacketDissector, Segment
from pregao.capture.reader import Packet
from pregao.errors import DecodeError, UsageError
from pregao.umdf.packets import decode_header, frames

_MAX_BYTES = 1 << 16
_OFFSET = re.compile(r"^\s*(?:0x)?([0-9a-fA-F]{3,16})(:?)\s+(?=\S)")
_DIGITS = re.compile(r"[0-9a-fA-F]+")
_BETWEEN = re.compile(r"0x|\\x|[\s,;:.\-|\"'\[\](){}]", re.IGNORECASE)


def packet_bytes(text: str) -> bytes:
    """Return the bytes of a packet as printed by xxd, hexdump, tcpdump or Wireshark."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = bytearray()
    dump = len(lines) > 0 and all(_offset(line) is not None for line in lines)
    first = (_offset(lines[0]) or ("", 0))[1] if dump else 0
    for line in lines:
        offset = _offset(line) if dump else None
        if offset is not None and offset[1] - first == len(found):
            found += _dump_line(offset[0])
        elif dump:
            raise UsageError(
                f"Offset {offset[1] if offset else 0:#x} of the hex dump does not match the "
                f"{len(found)} bytes before it. Paste all lines."
            )
        else:
            found += _plain(line)
    if not found:
        raise UsageError("--hex: no hexadecimal digits to decode.")
    if len(found) > _MAX_BYTES:
        raise UsageError(f"--hex: a packet has at most {_MAX_BYTES} bytes, was {len(found)}.")
    return market_data(bytes(found))


def _offset(line: str) -> tuple[str, int] | None:
    """Split a line into the text after its offset and the offset; None if it has no offset."""
    match = _OFFSET.match(line)
    if match is None:
        return None
    digits, colon = match.groups()
    rest = line[match.end() :]
    first = rest.split(maxsplit=1)[0]
    # Without a colon, an offset is recognized by being longer than the byte after it.
    if colon or (len(digits) >= 4 and len(first) == 2):
        return rest, int(digits, 16)
    return None


def _dump_line(rest: str) -> bytes:
    """Return the bytes of one line of a dump, without its text column."""
    rest = rest.partition("|")[0]
    found = bytearray()
    for segment in re.split(r"\s{2,}|\t", rest.strip()):
        tokens = segment.split()
        if segment == _as_text(bytes(found)) or not all(_is_bytes(token) for token in tokens):
            break
        found += bytes.fromhex("".join(tokens))
        if len(found) >= 32:
            break
    return bytes(found)


def _is_bytes(token: str) -> bool:
    return len(token) % 2 == 0 and len(token) <= 8 and _DIGITS.fullmatch(token) is not None


def _as_text(data: bytes) -> str:
    """Return bytes as the text column of a dump shows them."""
    return "".join(chr(byte) if 32 <= byte < 127 else "." for byte in data)


def _plain(line: str) -> bytes:
    digits = _BETWEEN.sub("", line)
    if len(digits) % 2 or not _DIGITS.fullmatch(digits or "0"):
        wrong = next((c for c in digits if c not in "0123456789abcdefABCDEF"), None)
        reason = f"{wrong!r} is not a hexadecimal digit" if wrong else "a digit is missing"
        raise UsageError(f"--hex must be hexadecimal: {reason} in {line.strip()[:60]!r}.")
    return bytes.fromhex(digits)


def market_data(data: bytes) -> bytes:
    """Return the payload if the bytes are a complete Ethernet frame, else the bytes."""
    try:
        decode_header(data)
        next(frames(data))
    except DecodeError:
        item = PacketDissector().item(Packet(0, data, len(data), ETHERNET, 0, 1, 0))
        if isinstance(item, Datagram | Segment):
            return item.payload
    return data
