"""Kernels replaced by their fallback over whole arrays, which serves without numba."""

import types


def use_fallback(patch, kernels, fallback):
    """Replace each kernel by the public function of its name in the fallback."""
    names = [
        name
        for name, found in vars(fallback).items()
        if isinstance(found, types.FunctionType) and not name.startswith("_")
    ]
    assert names
    for name in names:
        assert hasattr(kernels, name)
        patch.setattr(kernels, name, getattr(fallback, name))
