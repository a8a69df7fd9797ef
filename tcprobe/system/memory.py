"""Want of memory, where Python cannot raise it: NumPy's OpenBLAS ends the process that gets none.

It also starts a thread for each core, each with a stack; nothing here multiplies floats, so one is enough.
"""

from __future__ import annotations

import os
import sys

NUMPY_BYTES = 128 << 20  # of the address space, with one thread; 85 MB where it was measured


def prepare() -> None:
    """Before NumPy is imported here or in a child: one thread, and MemoryError where there is no room for it."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, _Room())


class _Room:
    """Stands before the finders of modules, and finds none."""

    def find_spec(self, name: str, *_: object) -> None:
        """OSError where the address space has no room for NumPy."""
        if name == "numpy" and sys.platform != "win32":
            import mmap

            mmap.mmap(-1, NUMPY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
