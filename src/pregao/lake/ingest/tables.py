"""All tables of the ingest: its own, and those of each protocol."""

from __future__ import annotations

from collections.abc import Iterable

from pregao.lake.ingest.history import STATE_CACHE
from pregao.lake.ingest.registry import PROTOCOLS, first_protocol
from pregao.lake.ingest.schemas import GAPS, INGESTS, PACKETS, REJECTS, bounded_spec
from pregao.lake.storage.commit_unit import TableSpec

_ACCOUNTS = (
    ("packets", PACKETS, "A captured payload: a UDP datagram, or a message of a TCP stream."),
    ("rejects", REJECTS, "Bytes that could not be decoded."),
    ("gaps", GAPS, "A gap in a sequence."),
)


def first_specs() -> list[TableSpec]:
    """Return the tables of every lake, with the columns of every bundled version."""
    own = [bounded_spec("ingests", INGESTS, "An ingested capture."), STATE_CACHE]
    return own + protocol_specs([first_protocol().name])


def table_specs() -> list[TableSpec]:
    """Return all tables that an ingest can create; other protocols' come with their captures."""
    others = [name for name in PROTOCOLS if name != first_protocol().name]
    return first_specs() + protocol_specs(others)


def protocol_specs(protocols: Iterable[str]) -> list[TableSpec]:
    """Return the tables of protocols."""
    specs = []
    for protocol in (PROTOCOLS[name] for name in protocols):
        specs += [
            bounded_spec(protocol.account_table(name), schema, meaning)
            for name, schema, meaning in _ACCOUNTS
        ]
        specs += protocol.tables()
    return specs
