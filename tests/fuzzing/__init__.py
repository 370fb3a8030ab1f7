"""Damaged bytes for every kernel that reads untrusted bytes."""
