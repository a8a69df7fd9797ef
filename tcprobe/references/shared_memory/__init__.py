"""Shared memory according to CUTLASS, CuTe and CUDA's tensor maps: address maps by name, and names of address maps."""
