"""EntryPoint as a protocol of the ingest: `ENTRYPOINT` and its tables."""

from pregao.lake.ingest.entrypoint.value import ENTRYPOINT

__all__ = ["ENTRYPOINT"]
