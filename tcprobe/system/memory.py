"""Want of memory, where Python cannot raise it: in NumPy's OpenBLAS, and in threads that end before they begin.

OpenBLAS ends the process that gets none. It also starts a thread for each core, each with a stack; nothing here
multiplies floats, so one is enough. A new thread without memory for its first frame ends without a word, since a hook
would need a frame too; `Thread.start` waits for it forever.
"""

from __future__ import annotations

import _thread
import os
import sys
import threading

CHECK, CHECKS = 0.2, 300  # seconds between looks at a thread that begins, and how many looks
NUMPY_BYTES = 128 << 20  # of the address space, with one thread; 85 MB where it was measured


def prepare() -> None:
    """Before NumPy is imported here or in a child: one thread, and MemoryError where there is no room for it.

    MemoryError, too, where a thread ends before it begins.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.meta_path.insert(0, _Room())
    threading.Thread.start = _start  # type: ignore[method-assign, assignment] # of pools and timers, too


_START = threading.Thread.start


def _start(thread: threading.Thread) -> None:
    """As `Thread.start`."""
    if not thread._started.is_set():  # type: ignore[attr-defined]
        thread._started = _Started()  # type: ignore[attr-defined]
    _START(thread)


class _Started(threading.Event):
    """What `Thread.start` waits for: that a new thread runs."""

    def wait(self, timeout: float | None = None) -> bool:
        """As `Event.wait`; MemoryError where the thread is gone, or does not run in CHECKS times CHECK seconds."""
        if timeout is not None:
            return super().wait(timeout)
        for _ in range(CHECKS):
            if super().wait(CHECK):
                return True
            if _running() <= _begun() and not self.is_set():
                break
        raise MemoryError("a thread ended before it began")


def _running() -> int:
    """Threads that the system runs for Python, without the first."""
    return _thread._count()


def _begun() -> int:
    """Threads that have begun and have not ended; those that others started are not counted by `_running`."""
    known = (t for t in threading.enumerate() if not isinstance(t, threading._DummyThread))
    return sum(t is not threading.main_thread() and t._started.is_set() for t in known)  # type: ignore[attr-defined]


class _Room:
    """Stands before the finders of modules, and finds none."""

    def find_spec(self, name: str, *_: object) -> None:
        """OSError where the address space has no room for NumPy."""
        if name == "numpy" and sys.platform != "win32":
            import mmap

            mmap.mmap(-1, NUMPY_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
