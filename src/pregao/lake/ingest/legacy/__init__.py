"""The legacy feed (UMDF FIX/FAST) as a protocol of the ingest."""

from pregao.lake.ingest.legacy.value import LEGACY

__all__ = ["LEGACY"]
