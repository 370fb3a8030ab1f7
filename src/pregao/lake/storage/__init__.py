"""The store of a lake: Delta tables at a location, and units of files committed exactly once.

It is independent of the contents of the tables.
"""
