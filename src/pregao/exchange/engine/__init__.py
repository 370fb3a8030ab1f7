"""Matching engine: instruments, phases, orders, auctions, protections and surveillance.

A pure state machine: the caller passes commands (``commands``) and a time, and receives private
reports (``reports``) and units of market events (``events``). It has no clock and no feed, and
reads no files except the catalogs and schedules that the caller names.
"""
