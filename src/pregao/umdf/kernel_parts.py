"""Inlined kernel functions for kernels of other packages that walk packets themselves."""

from __future__ import annotations

from pregao.umdf._kernels import SOUND, frame_fault
from pregao.umdf._sequencing_kernels import continues, ends_event, event_number

__all__ = ["SOUND", "continues", "ends_event", "event_number", "frame_fault"]
