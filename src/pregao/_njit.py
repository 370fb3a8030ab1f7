"""Decorators and intrinsics of kernels: compiled by numba, or interpreted if it is not installed.

Kernels are in the ``_kernels.py`` of their package. Their arguments and results are flat arrays,
with the same results either way.
"""

from __future__ import annotations

from pregao.extras import kernels_compiled

if kernels_compiled():
    from pregao._compiled import (
        bytes_at,
        halves_at,
        leading_zeros,
        load_i32,
        load_i64,
        load_u8,
        load_u16,
        load_u32,
        load_u64,
        njit,
        njit_or,
        part,
        prefetch,
        prefetch_to_write,
        store_u64,
        swapped,
        trailing_zeros,
        words_at,
    )
else:
    from pregao._interpreted import (
        bytes_at,
        halves_at,
        leading_zeros,
        load_i32,
        load_i64,
        load_u8,
        load_u16,
        load_u32,
        load_u64,
        njit,
        njit_or,
        part,
        prefetch,
        prefetch_to_write,
        store_u64,
        swapped,
        trailing_zeros,
        words_at,
    )

__all__ = [
    "bytes_at",
    "halves_at",
    "leading_zeros",
    "load_i32",
    "load_i64",
    "load_u8",
    "load_u16",
    "load_u32",
    "load_u64",
    "njit",
    "njit_or",
    "part",
    "prefetch",
    "prefetch_to_write",
    "store_u64",
    "swapped",
    "trailing_zeros",
    "words_at",
]
