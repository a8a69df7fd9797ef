"""Matrices in files of NumPy's format .npy, read without trust: no pickle, nothing but numbers, as many as it says.

Format: NEP 1, versions 1.0 to 3.0: magic, version, length of the header, a header that is a Python literal, the data.
"""

from __future__ import annotations

import math
import os
import re
import stat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tcprobe.errors import DataError
from tcprobe.system import files

MAGIC = b"\x93NUMPY"
MOST_HEADER = 4096
MOST_BYTES = 1 << 33
_HEADER = re.compile(
    r"\{\s*'descr':\s*'(?P<type>[<>|=](?:f[248]|[iu][1248]))',\s*'fortran_order':\s*(?P<fortran>True|False),"
    r"\s*'shape':\s*\((?P<shape>[0-9, ]{0,60})\),?\s*\}\s*"
)


def read_matrix(path: str | Path) -> NDArray[Any]:
    """The matrix in a file; DataError where it is no regular file of one, or not as long as it says."""
    found = read_array(path, "a matrix of numbers (two sides; no objects)")
    if found.ndim != 2:
        raise DataError(f"{path}: not a .npy file of a matrix of numbers (two sides; no objects).")
    return found


def read_array(path: str | Path, what: str = "numbers (no objects)") -> NDArray[Any]:
    """The array in a file, of up to 5 sides; DataError where it is no regular file of one, or has another length."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(f"{path}: cannot be read: {why}.") from None
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)  # a folder cannot be opened as a file
        raise DataError(f"{path}: not a regular file.")
    with open(handle, "rb") as file:
        try:
            head = file.read(MOST_HEADER)
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror}.") from None
        kind, fortran, shape, start = _header(str(path), head, what)
        size = math.prod(shape) * kind.itemsize
        if status.st_size != start + size or size > MOST_BYTES:
            raise DataError(
                f"{path}: {status.st_size} bytes; an array of {'x'.join(map(str, shape))} has {start + size}."
            )
        file.seek(start)
        numbers = np.fromfile(file, kind, math.prod(shape))
    if len(numbers) != math.prod(shape):
        raise DataError(f"{path}: it shrinks while it is read.")
    native: NDArray[Any] = numbers.astype(kind.newbyteorder("="), copy=False)
    return native.reshape(shape, order="F" if fortran else "C")


def _header(path: str, head: bytes, what: str) -> tuple[np.dtype[Any], bool, tuple[int, ...], int]:
    """Type, order, shape, and where the data begins."""
    version = head[6:8]
    wide = version in (b"\2\0", b"\3\0")
    start = 12 if wide else 10
    if head[:6] != MAGIC or version not in (b"\1\0", b"\2\0", b"\3\0"):
        raise DataError(f"{path}: not a .npy file.")
    end = start + int.from_bytes(head[8:start], "little")
    found = _HEADER.fullmatch(head[start:end].decode("latin-1")) if end <= len(head) else None
    sides = re.findall("[0-9]+", found["shape"]) if found else []
    if found is None or len(sides) > 5 or any(len(side) > 10 for side in sides):
        raise DataError(f"{path}: not a .npy file of {what}.")
    return np.dtype(found["type"]), found["fortran"] == "True", tuple(map(int, sides)), end


def write_matrix(path: Path, numbers: NDArray[Any]) -> None:
    """The file of a matrix, written whole."""
    write_array(path, numbers)


def write_array(path: Path, numbers: NDArray[Any]) -> None:
    """The file of an array, written whole."""
    from io import BytesIO

    held = BytesIO()
    np.lib.format.write_array(held, np.ascontiguousarray(numbers), version=(1, 0), allow_pickle=False)
    files.write(path, held.getvalue())
