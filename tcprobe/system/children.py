"""Child processes that end: with the block that needs them, on Ctrl-C, and when this program is killed.

A worker ends with its standard input. Tools work in a `Scratch`: a folder and a process group that are gone
with the block, or, should this program be killed, at the hand of a guard.

A pool of threads is not waited for when a thread of it is gone: one that gets no memory may end without a word, also
between two works, and a future that it took never comes. Threads of a pool end with the pool alone, so one that ended
before means that there was no memory.

A second process can do a part of a large set of texts beside this one, for machines with two cores:

>>> from tcprobe.system.children import in_second_process
>>> texts = in_second_process(lambda: {"a": "1"})
>>> texts()
{'a': '1'}
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as Late
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, ParamSpec, Protocol, TypeVar

from tcprobe.errors import StarvedError

POSIX = os.name == "posix"
MOST_BYTES = 32 << 20  # of a file that a tool writes, its output included; real ones stay below 1 MB
SHELL = ("/bin/sh", "-c")
# waits for the end of its standard input, hence of this program; then ends its process group and removes the folder
GUARD = 'read _; trap "" TERM; kill -TERM 0; rm -rf "$1"; kill -KILL 0'
# lets no file grow beyond MOST_BYTES (ulimit counts blocks of 512), leaves no core
BOUNDED = f'ulimit -S -c 0; ulimit -S -f {MOST_BYTES >> 9}; exec "$@"'

MOST_WORDS = 300
STARVED = 71  # exit code of a worker that gets no memory: EX_OSERR of sysexits.h
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


class Child(Protocol):
    """What runs on its own."""

    def kill(self) -> None:
        """End it."""


_lock = threading.Lock()
_running: set[Child] = set()
_stopping = threading.Event()


class StoppedError(Exception):
    """What this thread waits for was ended, because the program stops."""


class HungError(Exception):
    """A tool gave no answer within its limit."""


def start(command: Sequence[str], **how: Any) -> subprocess.Popen[bytes]:
    """A process that `end` ends, or the end of this program; StoppedError once the program stops."""
    with _lock:
        if _stopping.is_set():
            raise StoppedError
        process = subprocess.Popen(command, **how)
        _running.add(process)
    return process


def end(child: Child) -> None:
    """Kill a child; whoever needs to know waits for it."""
    with _lock:
        _running.discard(child)
    child.kill()


def exit_code(code: int) -> int:
    """The exit code of a child that this process did not kill.

    StarvedError if it got no memory: it says so, or signal 9 ended it, with which systems reclaim memory.
    """
    if code in (STARVED, -9):
        raise StarvedError
    return code


def stopping() -> bool:
    """Whether the program stops: a child's end then says nothing about the child."""
    return _stopping.is_set()


@contextmanager
def threads(most: int) -> Iterator[Pool]:
    """A pool of threads that start processes. An exception, Ctrl-C among them, ends all processes and threads."""
    pool = Pool(most)
    try:
        yield pool
    except BaseException:
        with _lock:
            _stopping.set()
        for child in tuple(_running):
            end(child)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        _stopping.clear()


class Scratch:
    """A temporary folder, and tools at work in it. Both are gone after the `with` block, and after this program.

    OSError if there is no place for the folder, StoppedError once the program stops.
    """

    folder: Path

    def __init__(self) -> None:
        self._tools: set[subprocess.Popen[bytes]] = set()
        self._guard: subprocess.Popen[bytes] | None = None
        self._over: Exception | None = None  # why no tool may start here

    def __enter__(self) -> Scratch:
        stated = [os.environ.get(name, "") for name in ("TMPDIR", "TEMP", "TMP")]
        # the best first, as in `tempfile`, which tries them by leaving files there
        *others, last = (place for place in (*stated, "/tmp", "/var/tmp") if os.path.isabs(place))
        for place in others:
            with suppress(OSError):
                return self._open(place)
        return self._open(last)

    def __exit__(self, *_: object) -> None:
        end(self)
        if self._guard:
            self._guard.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def kill(self) -> None:
        """End all tools with their children; the folder goes too."""
        self._over = self._over or StoppedError()
        for tool in tuple(self._tools):
            tool.kill()
        if self._guard and self._guard.stdin:
            self._guard.stdin.close()

    def call(self, command: Sequence[str], limit: float) -> subprocess.CompletedProcess[str]:
        """Run a tool in the folder: its code, -n if signal n ended it, and what it printed.

        HungError after `limit` seconds, which ends all that runs here; OSError if it cannot be run; StoppedError if
        the block was left meanwhile.
        """
        with self._output() as out, self._output() as err:
            process = self._start(command, out, err)
            timer = threading.Timer(limit, self._hung, [limit])
            timer.daemon = True
            timer.start()
            try:
                code = process.wait()
            finally:
                timer.cancel()
                self._tools.discard(process)
            self._check()
            return subprocess.CompletedProcess(command, code, _text(out), _text(err))

    def _open(self, place: str) -> Scratch:
        """Make the folder there; the guard, which is to remove it, comes first."""
        self.folder = Path(place, f"tcprobe-{uuid.uuid4().hex}")
        with _lock:
            if _stopping.is_set():
                raise StoppedError
            self._guard = self._start_guard() if POSIX else None
            _running.add(self)
        try:
            self.folder.mkdir(mode=0o700)
            self._over = None
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_guard(self) -> subprocess.Popen[bytes]:
        """A guard that finds `rm` whatever PATH is, and holds on to no folder and no output of ours."""
        return subprocess.Popen(
            (*SHELL, GUARD, "tcprobe-guard", str(self.folder)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={**os.environ, "PATH": os.defpath},
            process_group=0,
        )

    def _output(self) -> IO[bytes]:
        self._check()
        return tempfile.TemporaryFile(dir=self.folder)

    def _start(self, command: Sequence[str], out: IO[bytes], err: IO[bytes]) -> subprocess.Popen[bytes]:
        group = self._guard.pid if self._guard else None
        bounded = (*SHELL, BOUNDED, "tcprobe-tool", *command) if POSIX else command
        try:
            process = subprocess.Popen(
                bounded, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=self.folder, process_group=group
            )
        except OSError:
            self._check()  # without its leader the group takes nobody
            raise
        self._tools.add(process)
        return process

    def _hung(self, limit: float) -> None:
        self._over = self._over or HungError(f"gave no answer within {limit:g} s")
        self.kill()

    def _check(self) -> None:
        if stopping():
            raise StoppedError
        if self._over:
            raise self._over


def one_line(text: str) -> str:
    r"""What a tool said, on one line of at most MOST_WORDS characters; what does not print is escaped, as in \x1b."""
    line = " ".join(text[: 4 * MOST_WORDS].split())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)[:MOST_WORDS]


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(MOST_BYTES).decode(errors="replace")


Texts = Mapping[str, str]


def in_second_process(act: Callable[[], Texts]) -> Callable[[], Texts]:
    """Begin `act` in a copy of this process; what comes back waits for its texts.

    It is run here, when its texts are asked for, where there can be no copy (no fork, other threads), and where the
    copy did not bring them: so that what it raises is raised here.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1 or (os.cpu_count() or 1) < 2:
        return act
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads that are not Python's
        child = os.fork()
    if not child:
        # the copy: its texts into the pipe, nothing else; it never returns
        code = 1
        try:
            os.close(receive)
            with os.fdopen(send, "wb") as stream:
                stream.write(json.dumps(dict(act()), ensure_ascii=False).encode("utf-8", "surrogatepass"))
            code = 0
        except BaseException:  # the other process says what is wrong, when it does the same
            pass
        finally:
            os._exit(code)
    os.close(send)
    return lambda: _receive_texts(child, receive, act)


def _receive_texts(child: int, receive: int, act: Callable[[], Texts]) -> Texts:
    with os.fdopen(receive, "rb") as stream:
        raw = stream.read()
    code = 1
    with suppress(ChildProcessError):
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        return act()
    texts: dict[str, str] = json.loads(raw.decode("utf-8", "surrogatepass"))
    return texts
