"""Arithmetic of sequence versions for kernels, compiled from the functions of `sequencing`."""

from __future__ import annotations

from pregao._njit import njit
from pregao.umdf import sequencing

version_distance = njit(sequencing.version_distance)
