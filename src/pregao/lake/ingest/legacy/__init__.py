"""The legacy feed (UMDF FIX/FAST) as a protocol of the ingest."""
