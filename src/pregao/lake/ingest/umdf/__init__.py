"""Binary UMDF as a protocol of the ingest: the value `UMDF`, and the tables of its messages."""

from pregao.lake.ingest.umdf.value import UMDF

__all__ = ["UMDF"]
