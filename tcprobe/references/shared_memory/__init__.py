"""What CUTLASS, CuTe and CUDA's tensor maps state of shared memory: address maps by name, and names of address maps."""
