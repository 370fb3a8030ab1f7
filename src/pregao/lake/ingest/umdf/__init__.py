"""Binary UMDF as a protocol of the ingest: `UMDF` and the tables of its messages."""
