"""Simulated traders: a realistic flow of commands, drawn from one seed.

A profile defines how they behave, a pace when they act; market operations (bands, news, halts,
busts, settlement) are part of the day. They read the engine's market and use no feed.
"""
