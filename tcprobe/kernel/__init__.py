"""Whole kernels, put together from answers: every address and register in them is one of a proven table or path."""
