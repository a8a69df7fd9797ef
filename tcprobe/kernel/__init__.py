"""Whole kernels, put together from answers: every address and register in them is one of a proven table or path.

gemm, staged, request, warpgroups      what is asked, and the one file
mma_sync, wgmma, quadrants             the kernels
copies, pieces                         parts that they share
explain                                the way of an element through one
"""
