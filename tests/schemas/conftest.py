"""Comparing with the published schemas needs them next to the checkout.

Without them their facts still hold: the layouts are pinned in ``layouts_*.txt``.
"""

from __future__ import annotations

from pathlib import Path

REFERENCE = Path(__file__).parents[3] / "shared" / "reference" / "sbe"
collect_ignore = [] if REFERENCE.is_dir() else ["test_schemas_reference.py"]
