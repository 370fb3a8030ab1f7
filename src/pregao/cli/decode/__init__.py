"""``pregao decode``: messages of captures as text, JSON lines, CSV, Parquet or Arrow."""
