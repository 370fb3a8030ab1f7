"""All tables of a lake: those of the ingest itself, and those of each protocol."""

from __future__ import annotations

from pregao.lake.ingest.memory import MEMORY
from pregao.lake.ingest.protocols import PROTOCOLS
from pregao.lake.ingest.schemas import GAPS, INGESTS, PACKETS, REJECTS, bounded_spec
from pregao.lake.store import TableSpec

_ACCOUNTS = (
    ("packets", PACKETS, "A UDP payload seen."),
    ("rejects", REJECTS, "Bytes that could not be decoded."),
    ("gaps", GAPS, "A hole in a sequence."),
)


def table_specs() -> list[TableSpec]:
    """The tables of every lake, with the columns of every bundled version."""
    specs = [bounded_spec("ingests", INGESTS, "A capture taken in."), MEMORY]
    for protocol in PROTOCOLS.values():
        specs += [
            bounded_spec(protocol.account_table(name), schema, meaning)
            for name, schema, meaning in _ACCOUNTS
        ]
        specs += protocol.tables()
    return specs
