"""Damaged bytes for every kernel that reads bytes of others."""
