"""Encoding of events as Binary UMDF messages of any version, driven by the version's schema."""
