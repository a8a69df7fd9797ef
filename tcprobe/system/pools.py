"""Pools of threads whose work is not waited for when a thread of theirs is gone.

A thread that gets no memory may end without a word, also between two works, and a future that it took never comes.
Threads of a pool end with the pool alone, so one that ended before means that there was no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from typing import Any, ParamSpec, TypeVar

LOOK = 0.5  # seconds between looks at the threads
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class WatchedFuture(Future[Any]):
    """What a pool will answer."""

    pool: Pool

    def result(self, timeout: float | None = None) -> Any:
        """As `Future.result`; MemoryError where a thread of the pool is gone."""
        self._settle(timeout)
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `Future.exception`; MemoryError where a thread of the pool is gone."""
        self._settle(timeout)
        return super().exception(timeout)

    def _settle(self, timeout: float | None) -> None:
        while timeout is None and not self.done():
            try:
                super().exception(LOOK)
            except Late:
                if self.pool.is_broken and not self.done():
                    raise MemoryError("a thread ended before its work") from None


class Pool(ThreadPoolExecutor):
    """As ThreadPoolExecutor."""

    @property
    def is_broken(self) -> bool:
        """Whether a thread ended though the pool goes on."""
        return not self._shutdown and any(not thread.is_alive() for thread in tuple(self._threads))

    def submit(
        self, fn: Callable[Arguments, Answer], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Answer]:
        """As ThreadPoolExecutor's; the future notices that a thread is gone."""
        future: Any = super().submit(fn, *args, **kwargs)
        future.__class__, future.pool = WatchedFuture, self
        watched: Future[Answer] = future
        return watched
