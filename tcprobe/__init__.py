"""tcprobe: which lane and register of a warp holds which matrix element of an NVIDIA tensor-core fragment.

Facts are rows (`arch`, `dtypes`, `inventory`), work is small pure functions, and the GPU is one argument:

    rows -> plan -> backend.run -> decode -> Table -> fit -> Layout, Formula -> compare / results / render

Reading, fitting and comparing need neither CuPy nor CUDA:

>>> from tcprobe.isa.names import resolve
>>> from tcprobe.store import results
>>> fragment = resolve("wmma.m16n16k16.d.f32").fragment
>>> fragment.rows, fragment.cols, fragment.elements
(16, 16, 8)
"""

__version__ = "0.1.0"
