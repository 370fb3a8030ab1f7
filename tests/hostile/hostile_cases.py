"""Inputs that attack each surface: a case is a line, its name, its content and the answer to it.

The content is what the surface takes: bytes of a file or connection, or a change of a folder. The
answer is a regular expression that the sentence for the user, or the reply to the peer, must match.
"""

import gzip
import json
import struct
import zlib

PCAP = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65_535, 1)
DEEP = 100_000
CANARY = "canary"
"""A file that an attack would make; it must not be there afterwards."""


def record(captured, data=b"", original=None):
    return struct.pack("<IIII", 1, 0, captured, captured if original is None else original) + data


def block(kind, body, length=None):
    """A block of pcapng."""
    size = 12 + len(body) if length is None else length
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


PCAPNG = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))

CAPTURES = {
    "nothing": (b"", "empty"),
    "a text": (b"#!/bin/sh\ntouch canary\n" * 9, "not a .*capture"),
    "zeros": (bytes(10_000), "not a .*capture"),
    "a header alone, cut": (PCAP[:23], "ends inside the pcap header"),
    "a record of 4 GB": (PCAP + record(0xFFFFFFFF), "above the limit of 262144"),
    "a record larger than its packet": (PCAP + record(60, bytes(60), 10), "."),
    "a packet cut off": (PCAP + record(100, bytes(99)), "ends early, 115 bytes into the record"),
    "a pcapng block of 4 GB": (PCAPNG + block(1, b"", 0xFFFFFFF0), "from 12 to 67108864"),
    "a pcapng block of 0 bytes": (PCAPNG + block(1, b"", 0), "from 12 to 67108864"),
    "65,536 pcapng interfaces": (
        PCAPNG + block(1, struct.pack("<HHI", 1, 0, 0)) * 65_537, "more than 65536 interfaces",
    ),
    "gzip without end": (gzip.compress(PCAP)[:-9], "compressed data ends early"),
    "gzip of zeros, 1,000 : 1": (gzip.compress(bytes(64 << 20)), "not a .*capture"),
    "gzip in gzip": (gzip.compress(gzip.compress(PCAP)), "not a .*capture"),
    "a wrong checksum in gzip": (
        gzip.compress(PCAP + record(60, bytes(60)))[:-8] + bytes(8), "incorrect data check",
    ),
    "zlib": (zlib.compress(PCAP), "not a .*capture"),
}  # fmt: skip


def sbe(types="", messages=""):
    """A schema file with these types and messages."""
    return (
        '<?xml version="1.0"?><sbe:messageSchema xmlns:sbe="http://fixprotocol.io/2016/sbe" '
        'package="p" id="2" version="16" semanticVersion="1" byteOrder="littleEndian"><types>'
        '<composite name="messageHeader"><type name="blockLength" primitiveType="uint16"/>'
        '<type name="templateId" primitiveType="uint16"/>'
        '<type name="schemaId" primitiveType="uint16"/>'
        '<type name="version" primitiveType="uint16"/></composite>'
        f"{types}</types>{messages}</sbe:messageSchema>"
    ).encode()


def doubling(levels):
    """Composites, each of which contains the previous one twice."""
    first = '<composite name="c0"><type name="a" primitiveType="uint8"/></composite>'
    return first + "".join(
        f'<composite name="c{n}"><ref name="a" type="c{n - 1}"/><ref name="b" type="c{n - 1}"/>'
        "</composite>"
        for n in range(1, levels)
    )


CODE = f"x=__import__('os').system('touch {CANARY}')"
ENTITY = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>'
LAUGHS = b'<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><a>&b;</a>'

SCHEMAS = {
    "nothing": (b"", "XML|empty|element"),
    "an entity of a file": (ENTITY, "entit|DOCTYPE"),
    "entities of entities": (LAUGHS, "entit|DOCTYPE"),
    "another root": (b"<a/>", "messageSchema"),
    "deep XML": (b"<a>" * DEEP + b"</a>" * DEEP, "deep|nested"),
    "composites that double": (sbe(doubling(40)), "20,000|too many|more than"),
    "a composite of itself": (sbe('<composite name="c"><ref name="c" type="c"/></composite>'), "."),
    "an encoding that runs code": (
        sbe('<type name="t" primitiveType="char" length="4" characterEncoding="unicode_escape"/>'),
        "character encoding 'unicode_escape'",
    ),
    "a length of 2^40": (
        sbe(f'<type name="t" primitiveType="char" length="{1 << 40}"/>'), "length",
    ),
    "code as a field's name": (
        sbe("", f'<sbe:message name="m" id="1"><field name="{CODE}" id="1" type="uint8"/>'
                "</sbe:message>"), "name",
    ),
    "code as a message's name": (
        sbe("", f'<sbe:message name="{CODE}" id="1"><field name="f" id="1" type="uint8"/>'
                "</sbe:message>"), "name",
    ),
}  # fmt: skip


def fast(fields, more=""):
    namespace = "http://www.fixprotocol.org/ns/fast/td/1.1"
    return (
        f'<templates xmlns="{namespace}"><template name="t" id="1">{fields}</template>{more}'
        "</templates>"
    ).encode()


def referring(levels):
    """Templates, each of which refers to the next one twice."""
    return "".join(
        f'<template name="r{n}" id="{n + 10}">'
        + "".join(
            f'<group name="{side}"><templateRef name="r{n + 1}"/></group>'
            for side in ("ab" if n + 1 < levels else "")
        )
        + f'<uInt32 name="f{n}"/></template>'
        for n in range(levels)
    )


TEMPLATES = {
    "an entity of a file": (ENTITY, "entit|DOCTYPE"),
    "deep XML": (b"<a>" * DEEP + b"</a>" * DEEP, "deep|nested"),
    "groups within groups": (fast('<group name="g">' * 99 + "</group>" * 99), "deep|64"),
    "references that double": (fast('<templateRef name="r0"/>', referring(25)), "20,?000"),
    "a template within itself": (fast('<templateRef name="t"/>'), "itself|deep|refers"),
    "an unknown operator": (fast('<uInt32 name="a"><eval/></uInt32>'), "eval"),
    "a default of 5,000 digits": (
        fast(f'<uInt32 name="a"><default value="{"9" * 5_000}"/></uInt32>'), "value|number|9",
    ),
}  # fmt: skip

SETTINGS = {
    "deep lists": ("a = " + "[" * DEEP + "]" * DEEP, "nested|deep"),
    "a key of 100,000 parts": (".".join("a" * DEEP) + " = 1", "parts|nested"),
    "an integer of 5,000 digits": ("a = " + "9" * 5_000, "digits|integer|bits"),
    "not TOML": ("{", "TOML|Invalid|Expected"),
    "not UTF-8": (b"\xff\xfe", "UTF-8"),
    "a NUL": ("a = '\0'", "character|TOML|Illegal"),
    "another key": ("__class__ = 1", "__class__|is missing"),
    "control characters in a key": ('"\\u001b[31m" = 1', r"\\u001b|\\x1b|is missing"),
}

CONTROL = {
    "nothing": (b"\n", "error"),
    "not JSON": (b"GET / HTTP/1.1\r\n", "error"),
    "deep lists": (b"[" * DEEP + b"]" * DEEP + b"\n", "error"),
    "a number": (b"7\n", "error"),
    "no command": (b"{}\n", "error"),
    "an unknown command": (b'{"command":"__import__"}\n', "error"),
    "a command that is a list": (b'{"command":["phase"]}\n', "error"),
    "a session that is a text": (b'{"command":"disconnect","session":"x"}\n', "session"),
    "a session with a phase": (b'{"command":"phase","phase":"OPEN","session":"x"}\n', "session"),
    "a time in words": (b'{"command":"phase","phase":"OPEN","until_ns":"soon"}\n', "until_ns"),
    "the last day": (b'{"command":"day","date":"9999-12-31"}\n', "date|day"),
    "a band of 10^18": (
        b'{"command":"band","symbol":"PETR4","low":0,"high":1000000000000000000}\n',
        "error",
    ),
    "a headline of 1,401 bytes": (
        json.dumps({"command": "news", "headline": "x" * 1_401}).encode() + b"\n", "headline",
    ),
    "an integer of 5,000 digits": (
        b'{"command":"phase","phase":"OPEN","until_ns":' + b"9" * 5_000 + b"}\n", "error",
    ),
    "a surrogate": (b'{"command":"news","headline":"\\ud800"}\n', "error"),
}  # fmt: skip


def http(line, *headers, host=b"{host}", body=b""):
    """A request; {host} becomes the address of the server."""
    head = [line + b" HTTP/1.1", b"Connection: close", *headers]
    return b"\r\n".join([*head, b"Host: " + host, b"", body])


REQUESTS = {
    "nothing but a line end": (b"\r\n\r\n", "400|^$"),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00", "400|^$"),
    "another host": (http(b"GET /", host=b"evil.example"), "421|403|400"),
    "no host": (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "4.."),
    "a path outside": (http(b"GET /static/../../../etc/passwd"), "4.."),
    "a coded path outside": (http(b"GET /static/%2e%2e/%2e%2e/%2e%2e/etc/passwd"), "4.."),
    "a path with a NUL": (http(b"GET /static/%00"), "4.."),
    "a line of a megabyte": (b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n", "4..|^$"),
    "10,000 headers": (http(b"GET /", *[b"a: b"] * 10_000), "4..|^$"),
    "two lengths": (
        http(b"POST /", b"Content-Length: 1", b"Content-Length: 2", body=b"ab"), "4..",
    ),
    "a negative length": (http(b"POST /", b"Content-Length: -1"), "4.."),
}  # fmt: skip

FRAMES = {
    "zeros": bytes(64),
    "a frame of 65,535 bytes": b"\xff\xff\x50\xeb" + bytes(65_531),
    "a frame of 0 bytes": b"\x00\x00\x50\xeb",
    "a frame of another encoding": struct.pack("<HHHHHH", 12, 0x5BE0, 0, 1, 1, 2),
    "an unknown template": struct.pack("<HHHHHH", 12, 0xEB50, 0, 65_535, 1, 2),
    "an unknown schema": struct.pack("<HHHHHH", 12, 0xEB50, 0, 1, 65_535, 2),
    "an unknown version": struct.pack("<HHHHHH", 12, 0xEB50, 0, 1, 1, 65_535),
    "Negotiate without a body": struct.pack("<HHHHHH", 12, 0xEB50, 0, 1, 1, 2),
    "Negotiate of zeros": struct.pack("<HHHHHH", 60, 0xEB50, 28, 1, 1, 2) + bytes(48),
    "Negotiate of ones": struct.pack("<HHHHHH", 60, 0xEB50, 28, 1, 1, 2) + b"\xff" * 48,
    "an order before Negotiate": struct.pack("<HHHHHH", 96, 0xEB50, 84, 100, 1, 2) + bytes(84),
    "HTTP": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
}
"""First bytes on a gateway's port: the connection ends, and the next session is served."""

DATAGRAMS = {
    "nothing": b"",
    "one byte": b"\x48",
    "a header cut": bytes(15),
    "zeros": bytes(1_400),
    "ones": b"\xff" * 1_400,
    "Sequence of 0 bytes": bytes.fromhex(
        "0700010000000000000064a7b3b6e00d0c0050eb0000020002001000"
    ),
    "a message longer than its packet": bytes.fromhex("4800010001000000" + "00" * 8 + "ffff50eb"),
    "a message of 0 bytes": bytes.fromhex("4800010001000000" + "00" * 8 + "000050eb" + "00" * 8),
    "version 0": struct.pack("<BBHIQ", 72, 0, 0, 1, 1),
    "version 65535": struct.pack("<BBHIQ", 72, 0, 65_535, 1, 1),
    "the last number": struct.pack("<BBHIQ", 72, 0, 1, 0xFFFFFFFF, 1),
    "the last time": struct.pack("<BBHIQ", 72, 0, 1, 1, (1 << 64) - 1),
}  # fmt: skip


def newest_commit(lake, table):
    return max((lake / table / "_delta_log").glob("*.json"))


def with_added_path(path):
    """A lake whose log names another file as part of the trades."""

    def change(lake):
        commit = newest_commit(lake, "packets")
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            if "add" in line:
                line["add"]["path"] = path.format(lake=lake)
        commit.write_text("\n".join(map(json.dumps, lines)))

    return change


def with_commit(content):
    """A lake in which the newest commit of the packets is this."""
    return lambda lake: newest_commit(lake, "packets").write_bytes(content)


def with_linked_data(lake):
    """A lake in which a data file is a link to a file outside."""
    file = next((lake / "packets").rglob("*.parquet"))
    outside = lake.parent / "outside.parquet"
    file.rename(outside)
    outside.write_bytes(b"PAR1 not Parquet PAR1")
    file.symlink_to(outside)


def with_damaged_data(change):
    """A lake in which the bytes of the data files are changed."""

    def damage(lake):
        for file in (lake / "packets").rglob("*.parquet"):
            file.write_bytes(change(file.read_bytes()))

    return damage


LAKES = {
    "a path outside": (with_added_path("../../outside.parquet"), "outside.parquet"),
    "a coded path outside": (with_added_path("%2e%2e/%2e%2e/outside.parquet"), "outside.parquet"),
    "an absolute path": (with_added_path("/etc/passwd"), "/etc/passwd"),
    "a scheme": (with_added_path("file:///etc/passwd"), "/etc/passwd"),
    "a bucket": (with_added_path("s3://bucket/key.parquet"), "s3|bucket"),
    "wildcards": (with_added_path("date=*/*.parquet"), r"\*"),
    "a commit that is no JSON": (with_commit(b"{"), "packets"),
    "a deep commit": (with_commit(b'{"add":' + b"[" * DEEP + b"]" * DEEP + b"}"), "packets"),
    "a commit of zeros": (with_commit(bytes(4_096)), "packets"),
    "a link to a file outside": (with_linked_data, "parquet|Parquet|packets"),
    "data cut off": (with_damaged_data(lambda data: data[: len(data) // 2]), "parquet|Parquet"),
    "a footer of 2 GB": (
        with_damaged_data(lambda data: data[:-8] + b"\xff\xff\xff\x7fPAR1"), "arquet|footer",
    ),
    "random bytes in a footer": (
        with_damaged_data(lambda data: data[:-60] + b"\x9a" * 52 + data[-8:]), "query failed",
    ),
}  # fmt: skip


def journal_file(folder):
    return max(folder.glob("journal-*"))


def with_bytes(change):
    """A journal whose last file is changed, without the checkpoint that would replace it."""

    def damage(folder):
        for checkpoint in folder.glob("checkpoint-*"):
            checkpoint.unlink()
        file = journal_file(folder)
        data = bytearray(file.read_bytes())
        file.write_bytes(bytes(change(data)))

    return damage


def flipped(share):
    def change(data):
        data[int(len(data) * share)] ^= 0x40
        return data

    return change


def with_file(name, content):
    return lambda folder: (folder / name).write_bytes(content)


PICKLE = b"cos\nsystem\n(S'touch canary'\ntR."
"""A pickle that runs a command where it is read."""

JOURNALS = {
    "a byte flipped in the middle": (with_bytes(flipped(0.5)), "journal-"),
    "a byte flipped near the start": (with_bytes(flipped(0.1)), "journal-"),
    "another magic": (with_bytes(lambda data: b"x" * 17 + data[17:]), None),
    "a run of ones in the middle": (
        with_bytes(lambda data: data[:1_000] + b"\xff" * 40 + data[1_040:]), "journal-",
    ),
    "zeros at the end": (with_bytes(lambda data: data + bytes(5_000)), None),
    "half a record at the end": (with_bytes(lambda data: data + data[17:30]), None),
    "a checkpoint that is a pickle": (with_file("checkpoint-000001", PICKLE), None),
    "a checkpoint of zeros": (with_file("checkpoint-000001", bytes(10_000)), None),
    "an empty checkpoint": (with_file("checkpoint-000001", b""), None),
}  # fmt: skip
"""None where the exchange starts, with every order that it acknowledged."""
