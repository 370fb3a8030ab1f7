"""Simple Binary Encoding 1.0: XML → schema model → message codec → column kernels."""
