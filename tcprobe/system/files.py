"""Files: what is read is regular and bounded, what is written is whole or as it was.

A regular file is written aside, as `.tcprobe-<process>-<random>.part` in its folder, and renamed. The part file is
locked meanwhile, where the system has locks. `sweep` removes such files whose writer is gone, and no others.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

from tcprobe.errors import DataError, EnvironmentUnfitError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 4 << 20  # of any file that is read
MOST_READ = 64 << 20  # of one with code; a larger one is mapped
MOST_NAME = 1000  # characters of a name in a message
DAY = 86_400.0  # seconds
TRIES = 10
MOST_WAIT = 2.0  # seconds
_PART = r"\.tcprobe-([1-9][0-9]*)-[0-9a-f]{16}\.part"
_THREADS = threading.Lock()


def _name(path: str | Path) -> str:
    """The name of a file for a message, or the beginning of an endless one."""
    return str(path) if len(str(path)) <= MOST_NAME else f"{str(path)[:MOST_NAME]}..."


def read(path: str | Path, most: int = MOST_BYTES) -> bytes | None:
    """The bytes of a regular file, None if there is none; a FIFO or a device is not waited for.

    DataError where it cannot be read, is not a regular file, or has more than `most` bytes.
    """
    raw = _contents(path, most, maps=False)
    assert not isinstance(raw, mmap.mmap)
    return raw


def contents(path: str | Path) -> bytes | mmap.mmap | None:
    """As `read`, of a file of any size: one of more than MOST_READ bytes is mapped, its parts are read where they are
    asked for. Nobody may cut it off meanwhile.
    """
    return _contents(path, MOST_READ, maps=True)


def _contents(path: str | Path, most: int, maps: bool) -> bytes | mmap.mmap | None:
    try:
        handle = _at_once(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        try:  # half as long as a file object takes, which counts where hundreds are read
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise DataError(f"{_name(path)}: not a regular file.")
            if status.st_size > most and maps:
                return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
            if status.st_size > most:
                raise DataError(f"{_name(path)}: {status.st_size} bytes; tcprobe reads files of at most {most}.")
            raw = b""
            while part := os.read(handle, status.st_size + 1 - len(raw)):
                raw += part
            if len(raw) > status.st_size:
                raise DataError(f"{_name(path)}: it grows while it is read.")
            return raw
        finally:
            os.close(handle)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{_name(path)}: cannot be read: {_reason(error)}.") from None


def read_input(most: int = MOST_BYTES) -> bytes:
    """The bytes of standard input; DataError where there are more than `most`, or none can be read."""
    try:
        raw = sys.stdin.buffer.read(most + 1)
    except (OSError, ValueError, AttributeError) as error:
        raise DataError(f"standard input cannot be read: {error}.") from None
    if len(raw) > most:
        raise DataError(f"standard input has more than the {most} bytes that tcprobe reads.")
    return raw


def read_text(path: str | Path, most: int = MOST_BYTES) -> str:
    """The text of a file that a user names, UTF-8 with line ends of any system; `-` is standard input.

    DataError where there is none, where `read` refuses it, and where it is no such text.
    """
    raw = read_input(most) if str(path) == "-" else read(path, most)
    if raw is None:
        raise DataError(f"{_name(path)}: cannot be read: no such file.")
    try:
        text = raw.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = len(re.split(b"\r\n|\r|\n", raw[: error.start]))
        raise DataError(f"{_name(path)}, line {line}: not UTF-8 text; save the file as UTF-8.") from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise DataError(f"{_name(path)}, line {line}: a zero byte, so this is not UTF-8 text; save the file as UTF-8.")
    return text


def is_folder(path: str | Path) -> bool:
    """Whether there is such a folder; DataError where that cannot be told: no permission, too long a name."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError) as error:
        raise DataError(f"{_name(path)}: cannot be read: {_reason(error)}.") from None


def write(path: Path, data: bytes, parents: bool = False) -> None:
    """Write a file whole; EnvironmentUnfitError if that fails, and the file is then as it was.

    The permissions of an existing file stay, a link stays and what it leads to is written. What is not a regular file
    (a FIFO, a device), or is open already (/dev/stdout), is written through. A regular file that has just these bytes
    is left alone. `parents` makes missing folders.
    """
    try:
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        mode = _mode(path)
        if mode is not None and (not stat.S_ISREG(mode) or _is_open(str(path))):
            with open(path, "ab", opener=_with_reader) as file:
                os.set_blocking(file.fileno(), True)
                file.write(data)
        else:
            _replace(os.path.realpath(path), data, mode)
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None


def sweep(folders: Iterable[Path]) -> None:
    """Remove the part files of writers that are gone: not locked, and of no process that is there or a day old.

    A writer that only looks gone (on another machine, without locks) writes again.
    """
    for part in (part for folder in folders for part in folder.glob(".tcprobe-*.part")):
        match = re.fullmatch(_PART, part.name)
        with suppress(OSError):  # locked, not to be opened, or removed by somebody else
            status = part.lstat()
            # a number that is in use may have been given to another process since
            gone = match and (not alive(int(match[1])) or time.time() - status.st_mtime > DAY)
            if gone and stat.S_ISREG(status.st_mode):
                with open(part, "rb", opener=_at_once) as file:
                    _lock(file.fileno())
                    if sys.platform == "win32":  # which removes no open file
                        file.close()
                    part.unlink()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Alone with `folder`, which is made where it is missing, among all that lock it: threads, and where the system has
    locks processes too. EnvironmentUnfitError if there can be no such folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY) if sys.platform != "win32" else None
    except (OSError, ValueError) as error:
        raise _unwritable(folder, error) from None
    with _THREADS, ExitStack() as stack:
        if sys.platform != "win32" and handle is not None:
            stack.callback(os.close, handle)
            with suppress(OSError):  # a file system without locks
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _at_once(path: str | Path, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _mode(path: Path) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _is_open(path: str) -> bool:
    """Whether a link on the way is one of /proc: it represents an open file, as /dev/stdout does."""
    while os.path.islink(path):
        folder = os.path.dirname(path)
        if os.path.realpath(folder).startswith("/proc/"):
            return True
        path = os.path.join(folder, os.readlink(path))
    return False


def _with_reader(path: str, flags: int) -> int:
    """Open an existing file for writing; OSError for a FIFO that nobody reads within `MOST_WAIT` seconds."""
    end = time.monotonic() + MOST_WAIT
    while True:
        try:
            return _at_once(path, flags & ~os.O_CREAT)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
                raise
            if time.monotonic() > end:
                raise OSError(errno.ENXIO, "nobody reads what is written there") from None
        time.sleep(0.02)


def _replace(path: str, data: bytes, mode: int | None) -> None:
    """Write aside and rename; again where the part file was taken away."""
    if mode is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if mode is not None and _has(path, data):
        return
    for left in reversed(range(TRIES)):
        part = os.path.join(os.path.dirname(path), f".tcprobe-{os.getpid()}-{os.urandom(8).hex()}.part")
        try:
            with open(part, "xb") as file:
                _lock(file.fileno())
                file.write(data)
                file.flush()
                if mode is not None:
                    os.chmod(part, stat.S_IMODE(mode))
                if sys.platform == "win32":  # which renames no open file
                    file.close()
                os.replace(part, path)
            return
        except (FileNotFoundError, BlockingIOError):
            if not left:
                raise
        finally:
            with suppress(OSError):
                os.unlink(part)


def _has(path: str, data: bytes) -> bool:
    """Whether a file has these bytes; not where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size == len(data) and file.read() == data
    except OSError:
        return False


def _lock(handle: int) -> None:
    """Lock a part file; BlockingIOError if somebody else has it. Nothing where the file system has no locks."""
    if sys.platform != "win32":
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            return


def alive(process: int) -> bool:
    """Whether a process of that number runs, as far as the system tells."""
    if sys.platform == "win32":  # there os.kill ends a process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _unwritable(path: Path, failure: OSError | ValueError) -> EnvironmentUnfitError:
    return EnvironmentUnfitError(f"cannot write {path}: {_reason(failure)}. Free space, or choose another place.")


def _reason(failure: OSError | ValueError) -> str:
    return (isinstance(failure, OSError) and failure.strerror) or str(failure)
