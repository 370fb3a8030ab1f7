"""Spreads, user-defined instruments, forwards, exercise, blocking and instrument changes."""
