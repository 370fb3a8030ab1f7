"""Kernels replaced by their twins over whole arrays: those that serve without numba."""

import types


def use_twins(patch, kernels, twins):
    """Let every public function of the twins take the place of the kernel of its name."""
    names = [
        name
        for name, found in vars(twins).items()
        if isinstance(found, types.FunctionType) and not name.startswith("_")
    ]
    assert names
    for name in names:
        assert hasattr(kernels, name)
        patch.setattr(kernels, name, getattr(twins, name))
