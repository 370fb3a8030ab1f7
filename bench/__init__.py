"""Measurements: rates and ratios, side by side in one run."""
