"""The protocols that the ingest knows, by name. The first takes what no other recognises."""

from __future__ import annotations

from collections.abc import Sequence

from pregao.lake.ingest.entrypoint import ENTRYPOINT
from pregao.lake.ingest.legacy import LEGACY
from pregao.lake.ingest.protocol import Protocol
from pregao.lake.ingest.umdf import UMDF

PROTOCOLS: dict[str, Protocol] = {each.name: each for each in (UMDF, ENTRYPOINT, LEGACY)}


def first_protocol() -> Protocol:
    """The protocol of what no other recognises; that of lakes in which none is named."""
    return next(iter(PROTOCOLS.values()))


def prepare(schema_files: Sequence[str]) -> None:
    """Let all protocols know the schema files that a user named."""
    for protocol in PROTOCOLS.values():
        protocol.prepare(schema_files)
