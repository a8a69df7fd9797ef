"""What can stand in the place of a file: other kinds of file, links, what cannot be read, what is too large."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

GIGABYTE = 1 << 30
Change = Callable[[Path], object]


def replaced(make: Change) -> Change:
    """A change that puts what `make(path)` makes in the place of a file or folder."""

    def change(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        make(path)

    return change


def _sparse(path: Path) -> None:
    with open(path, "ab") as file:
        file.truncate(GIGABYTE)


def _socket(path: Path) -> None:
    """A socket of that name, bound by its bare name: an address has at most 107 bytes."""
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/s")
    os.close(here)
    (path.parent / "s").rename(path)


def _ring(path: Path) -> None:
    path.symlink_to("ring")
    path.with_name("ring").symlink_to(path.name)


def device(path: Path, minor: int) -> bool:
    """A device of its own like /dev/null (3), /dev/zero (5) or /dev/full (7); False where it cannot be made or opened.

    Never the machine's own: a program that replaces what it writes would replace that.
    """
    try:
        os.mknod(path, 0o020666, os.makedev(1, minor))
        path.chmod(0o666)
        os.close(os.open(path, os.O_RDWR))
    except OSError:
        path.unlink(missing_ok=True)
        return False
    return True


NODES: list[tuple[str, Change]] = [
    ("directory", replaced(Path.mkdir)),
    ("FIFO", replaced(os.mkfifo)),
    ("symlink to itself", replaced(lambda path: path.symlink_to(path.name))),
    ("symlink to nothing", replaced(lambda path: path.symlink_to("nothing"))),
    ("1 GB sparse", replaced(_sparse)),
    ("good, then 1 GB sparse", _sparse),
    ("symlink to /dev/zero", replaced(lambda path: path.symlink_to("/dev/zero"))),
    ("symlink to /dev/null", replaced(lambda path: path.symlink_to("/dev/null"))),
    ("symlink to a folder", replaced(lambda path: path.symlink_to("/"))),
    ("symlink to /proc/self/mem", replaced(lambda path: path.symlink_to("/proc/self/mem"))),
    ("socket", replaced(_socket)),
    ("symlinks in a ring", replaced(_ring)),
]
