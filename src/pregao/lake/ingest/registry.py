"""The protocols of the ingest by name; the first gets the packets that no other detects."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any

from pregao.lake.ingest.protocol import IngestProtocol


def _umdf() -> IngestProtocol:
    from pregao.lake.ingest.protocols.umdf import UMDF

    return UMDF


def _entrypoint() -> IngestProtocol:
    from pregao.lake.ingest.protocols.entrypoint import ENTRYPOINT

    return ENTRYPOINT


def _legacy() -> IngestProtocol:
    from pregao.lake.ingest.protocols.legacy import LEGACY

    return LEGACY


class _ImportedProtocols(UserDict[str, Any]):
    """Protocols by name, each imported when it is looked up: most commands need only one."""

    def __getitem__(self, name: str) -> IngestProtocol:
        found: IngestProtocol | Callable[[], IngestProtocol] = self.data[name]
        return found if isinstance(found, IngestProtocol) else found()


PROTOCOLS: MutableMapping[str, IngestProtocol] = _ImportedProtocols(
    {"umdf": _umdf, "entrypoint": _entrypoint, "legacy": _legacy}
)


def first_protocol() -> IngestProtocol:
    """Return the protocol of undetected packets, and of lakes that do not name protocols."""
    return PROTOCOLS[next(iter(PROTOCOLS))]


def prepare(schema_files: Sequence[str]) -> None:
    """Pass the user's schema files to all protocols."""
    for protocol in PROTOCOLS.values():
        protocol.prepare(schema_files)
