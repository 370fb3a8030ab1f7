"""EntryPoint as a protocol of the ingest: `ENTRYPOINT` and its tables."""
