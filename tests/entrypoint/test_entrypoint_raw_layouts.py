"""The raw client's tables against the bundled schemas, which were written apart from them."""

import ast
import random
import struct
from pathlib import Path

import pytest

from pregao.entrypoint import VERSIONS
from pregao.sbe.codec import SchemaCodec
from pregao.schemas.bundle import bundled
from tests import waiting
from tests.entrypoint import raw_client, raw_layouts, raw_peer
from tests.entrypoint.raw_layouts import frame, layouts

MESSAGES = [(version, name) for version in VERSIONS for name in layouts(version).by_name]


@pytest.mark.parametrize("module", [raw_client, raw_layouts, raw_peer, waiting])
def test_the_raw_client_imports_nothing_of_the_package(module):
    tree = ast.parse(Path(module.__file__).read_text())
    imported = {alias.name for each in ast.walk(tree) if isinstance(each, ast.Import)
                for alias in each.names}  # fmt: skip
    imported |= {each.module for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)}
    assert imported <= {
        "collections.abc", "contextlib", "datetime", "decimal", "functools", "json", "pathlib",
        "socket", "struct", "time", "typing",
        "tests.entrypoint.raw_layouts", "tests.entrypoint.raw_peer", "tests.waiting",
    }  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
def test_there_are_the_same_messages(version):
    schema = bundled("entrypoint", version)
    known = {m.name: (m.id, m.block_length) for m in schema.messages if m.id}
    raw = {each.name: (each.template, each.size) for each in layouts(version).by_name.values()}
    assert raw == known


@pytest.mark.parametrize(("version", "name"), MESSAGES)
def test_both_read_the_same_values_from_any_block(version, name):
    layout, codec = layouts(version).by_name[name], SchemaCodec(bundled("entrypoint", version))
    dice = random.Random(f"{version} {name}")
    for _ in range(4):
        fields = {each.offset: each for each in layout.fields}
        block = bytearray(layout.size)
        for offset, each in fields.items():
            block[offset : each.end] = _any(each, dice)
        body = bytes(block)
        for group in layout.groups:
            entry = bytearray(group.size)
            for each in group.fields:
                entry[each.offset : each.end] = _any(each, dice)
            body += struct.pack("<HB", group.size, 2) + bytes(entry) * 2
        body += b"".join(b"\x03abc" for _ in layout.data)
        data = frame(layout.template, layout.size, body, version)
        decoded = codec.decode(data[4:])
        assert layouts(version).read(data) == (name, decoded.values)
        assert layouts(version).frame(name, decoded.values) == data


def _any(field, dice):
    """Bytes of a field: a member, null, zero or a number; letters for a text."""
    if field.text:
        return bytes(dice.choices(b"ABC", k=field.struct.size))
    if field.members:
        return field.struct.pack(dice.choice([*field.members.values(), field.null]))
    if field.null is not None and dice.random() < 0.3:
        return field.struct.pack(field.null)
    return field.struct.pack(dice.randrange(1, 200))
