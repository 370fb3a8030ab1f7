"""EntryPoint messages by tables of offsets: `struct` and the files in `layouts`, nothing else.

A file has a line for each enumeration, message, repeating group and list of variable data:

    enum Side BUY='1' SELL='2'
    message NegotiateResponse 2 24 sessionID=0:u32 sessionVerID=4:u64 …
    group noSides 18 side=0:c!Side?0 account=2:u32?0 …
    data deskID memo

A message has its template and its block length, a field its offset and its kind: ``u32`` and so
on, ``c10`` (a text), ``d16`` (days since 1970), ``p4`` (a price with four decimals), ``!`` and an
enumeration, ``?`` and the number that stands for null.
"""

import struct
from datetime import date, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path

CODES = {
    "u8": "B", "u16": "H", "u32": "I", "u64": "Q", "i8": "b", "i32": "i", "i64": "q", "c": "B",
    "d16": "H", "p4": "q", "p7": "q", "p8": "q",
}  # fmt: skip
EPOCH = date(1970, 1, 1)
FOLDER = Path(__file__).parent / "layouts"


class Field:
    """A field of a block, or a member of a composite in it (``header.member``)."""

    def __init__(self, text, enumerations):
        self.name, _, rest = text.partition("=")
        offset, _, kind = rest.partition(":")
        self.offset = int(offset)
        kind, _, null = kind.partition("?")
        self.kind, _, enumeration = kind.partition("!")
        self.null = int(null) if null else None
        self.members = enumerations[enumeration] if enumeration else {}
        self.names = {value: name for name, value in self.members.items()}
        self.text = self.kind[0] == "c" and not enumeration
        self.struct = struct.Struct(f"<{self.kind[1:]}s" if self.text else f"<{CODES[self.kind]}")
        self.end = self.offset + self.struct.size

    def to_wire(self, value):
        """The number or the bytes of a value; of None the null, or zero where there is none."""
        if self.text:
            return b"" if value is None else value.encode("latin-1")
        if value is None:
            return self.null or 0
        if isinstance(value, str):
            return self.members[value]
        if self.kind[0] == "p":
            return int(Decimal(value).scaleb(int(self.kind[1:])))
        return (value - EPOCH).days if isinstance(value, date) else int(value)

    def from_wire(self, value):
        if self.text:
            return value.rstrip(b"\0").decode("latin-1") or None
        if value == self.null:
            return None
        if self.names:
            return self.names.get(value, value)
        if self.kind[0] == "p":
            return Decimal(value).scaleb(-int(self.kind[1:]))
        return EPOCH + timedelta(days=value) if self.kind == "d16" else value


class Block:
    """The fixed part of a message, or of an entry of a group."""

    def __init__(self, name, size, fields):
        self.name, self.size, self.fields = name, size, fields

    def pack(self, values):
        block = bytearray(self.size)
        for field in self.fields:
            name, _, member = field.name.partition(".")
            value = values.get(name)
            if member and value is not None:
                value = value.get(member)
            field.struct.pack_into(block, field.offset, field.to_wire(value))
        return bytes(block)

    def unpack(self, data):
        """The values; a field that a shorter block does not reach is None."""
        values = {}
        for field in self.fields:
            value = None
            if field.end <= len(data):
                value = field.from_wire(*field.struct.unpack_from(data, field.offset))
            name, _, member = field.name.partition(".")
            if member:
                values.setdefault(name, {})[member] = value
            else:
                values[name] = value
        for name, members in values.items():
            if isinstance(members, dict) and not any(v is not None for v in members.values()):
                values[name] = None
        return values

    def field(self, name):
        return next(each for each in self.fields if each.name == name)


class Layout(Block):
    """A message: its template, its block, its groups and its variable data."""

    def __init__(self, name, template, size, fields):
        super().__init__(name, size, fields)
        self.template = template
        self.groups = []
        self.data = []


class Layouts:
    """The messages of one version, written and read."""

    def __init__(self, version):
        self.version = version
        self.by_name, self.by_template, enumerations = {}, {}, {}
        layout = None
        for line in (FOLDER / f"version_{version}.txt").read_text().splitlines():
            kind, *words = line.split()
            if kind == "enum":
                enumerations[words[0]] = dict(map(_member, words[1:]))
            elif kind == "message":
                fields = [Field(each, enumerations) for each in words[3:]]
                layout = Layout(words[0], int(words[1]), int(words[2]), fields)
                self.by_name[layout.name] = self.by_template[layout.template] = layout
            elif kind == "group":
                fields = [Field(each, enumerations) for each in words[2:]]
                layout.groups.append(Block(words[0], int(words[1]), fields))
            elif kind == "data":
                layout.data = words

    def frame(self, name, values):
        """A message as it goes over the wire."""
        layout = self.by_name[name]
        body = layout.pack(values)
        for group in layout.groups:
            entries = values.get(group.name) or []
            body += struct.pack("<HB", group.size, len(entries))
            body += b"".join(group.pack(each) for each in entries)
        for each in layout.data:
            text = (values.get(each) or "").encode("latin-1")
            body += bytes([len(text)]) + text
        return frame(layout.template, layout.size, body, self.version)

    def read(self, data):
        """The name and the values of one complete frame, without trailing bytes."""
        length, encoding, size, template, schema, version = struct.unpack_from("<6H", data)
        assert (length, encoding, schema) == (len(data), 0xEB50, 1), data[:12].hex(" ")
        assert version == self.version, version
        layout = self.by_template[template]
        values = layout.unpack(data[12 : 12 + size])
        at = 12 + size
        for group in layout.groups:
            size, count = struct.unpack_from("<HB", data, at)
            at += 3
            values[group.name] = []
            for _ in range(count):
                values[group.name].append(group.unpack(data[at : at + size]))
                at += size
        for each in layout.data:
            end = at + 1 + data[at]
            assert end <= length, (layout.name, each)
            values[each] = data[at + 1 : end].decode("latin-1") or None
            at = end
        assert at == length, (layout.name, at, length)
        return layout.name, values


def _member(text):
    name, _, value = text.partition("=")
    return name, ord(value[1]) if value[0] == "'" else int(value)


def frame(template, size, body, version=2, schema=1):
    """Any frame: headers, then whatever body."""
    return struct.pack("<6H", 12 + len(body), 0xEB50, size, template, schema, version) + body


@cache
def layouts(version):
    """The messages of a version."""
    return Layouts(version)
