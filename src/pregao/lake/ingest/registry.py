"""The protocols of the ingest by name; the first gets the packets that no other detects."""

from __future__ import annotations

from collections.abc import Sequence

from pregao.lake.ingest.protocol import IngestProtocol
from pregao.lake.ingest.protocols.entrypoint import ENTRYPOINT
from pregao.lake.ingest.protocols.legacy import LEGACY
from pregao.lake.ingest.protocols.umdf import UMDF

PROTOCOLS: dict[str, IngestProtocol] = {each.name: each for each in (UMDF, ENTRYPOINT, LEGACY)}


def first_protocol() -> IngestProtocol:
    """Return the protocol of undetected packets, and of lakes that do not name protocols."""
    return next(iter(PROTOCOLS.values()))


def prepare(schema_files: Sequence[str]) -> None:
    """Pass the user's schema files to all protocols."""
    for protocol in PROTOCOLS.values():
        protocol.prepare(schema_files)
