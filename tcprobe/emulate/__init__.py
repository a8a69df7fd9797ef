"""Kernels on a CPU: PTX that is executed, its multiplies placed by the tables and computed to the bit."""
