"""Whole kernels, put together from answers: every address and register in them is one of a proven table or path.

gemm                what is asked, and the one file
staged              what kernels share
mma_sync, wgmma     the kernels
explain             the way of an element through one
compiled, main_loop what nvcc makes of one, and what a round of its main loop takes
products            its products and its time on a GPU
question            the command
"""
