"""Bundled schema files, derivation of their versions, and the registry that selects one."""
