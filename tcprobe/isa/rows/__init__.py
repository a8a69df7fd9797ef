"""One file of rows per family of instructions: a module with INSTRUCTIONS. Adding a family is adding a file.

wmma, mma, mma_sp, mma_with_scales, moves, wgmma, tcgen05     a family each
"""
