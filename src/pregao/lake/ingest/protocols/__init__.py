"""The protocols that an ingest decodes, each a value that the pipeline receives."""
