"""Signals, standard streams and memory of the process, before anything heavy is imported.

NumPy's OpenBLAS ends the process where it gets no memory, and Python cannot raise it. It also starts a thread for
each core, each with a stack; nothing here multiplies floats, so one is enough.
"""

from __future__ import annotations

import _thread
import io
import os
import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


# Ctrl-C, `kill`, and the terminal's end
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Stopped(KeyboardInterrupt):
    """A signal asks to stop; `code` is the exit code that says which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


def prepare() -> None:
    """Let signals stop the process in order, and text of any kind reach standard output, or fail to with an error."""
    for number in (getattr(signal, name) for name in SIGNALS if hasattr(signal, name)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup wants it
            signal.signal(number, _Stop())
    # standard streams that the caller closed: writing to stdout is an error, not silence, and no file takes its place.
    # The lowest number that is free is the stream's own
    if sys.stdin is None:
        _null(os.O_RDONLY)
    if sys.stdout is None:
        sys.stdout = _text(_null(os.O_RDONLY))  # what is written there fails
    if sys.stderr is None:
        sys.stderr = _text(_null(os.O_WRONLY))
    if isinstance(sys.stdout.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: a write that is cut short would go unnoticed
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(sys.stdout.buffer), sys.stdout.encoding)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    talk = io.BufferedWriter(_Talk(sys.stderr.fileno(), "w", closefd=False))
    sys.stderr = io.TextIOWrapper(talk, sys.stderr.encoding, errors="backslashreplace", line_buffering=True)


class _Talk(io.FileIO):
    """Standard error. Where it is full or gone, the exit code is all that is left: what is said there is no error."""

    def write(self, text: ReadableBuffer, /) -> int:
        """Bytes written, or dropped."""
        try:
            return super().write(text)
        except OSError:
            return memoryview(text).nbytes


class _Stop:
    """Raises Stopped at the first signal; a second one does not wait for the order."""

    asked = False

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if _Stop.asked:
            os._exit(128 + number)  # what was started ends all the same: see `children`
        _Stop.asked = True
        raise Stopped(number)


def _null(flags: int) -> int:
    """The null device, for children too."""
    number = os.open(os.devnull, flags)
    os.set_inheritable(number, True)
    return number


def _text(number: int) -> TextIO:
    """A stream to an open file that stays open for the children when another stream takes this one's place."""
    return open(number, "w", encoding="utf-8", closefd=False)


CHECK, CHECKS = 0.2, 300  # seconds between looks at a thread that begins, and how many looks
NUMPY_BYTES = 128 << 20  # of the address space, with one thread; 85 MB where it was measured


def reserve_numpy_room() -> None:
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
