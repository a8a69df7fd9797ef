"""A launch file: Python that a user names, which says how a kernel is launched. It runs with all that the user may do.

    import numpy as np

    def launch(kernel):                      # the kernel's name
        a = np.ones((128, 4096), np.float16)  # an array becomes a pointer: NumPy's are copied to the GPU
        return (1, 1, 1), (128, 1, 1), 99328, [a, np.int32(4096)]

It gives the grid, the block, bytes of dynamic shared memory, and the arguments in order. An argument is an array
(NumPy, CuPy, or what else has `__cuda_array_interface__`), a NumPy scalar, a number of Python's, which gets the size
that the kernel's parameter has, None for a null pointer, or bytes for a parameter of any other size, such as a tensor
map. ROUNDS, a number, says how often a launch runs the loop, where the code does not show it.
"""

from __future__ import annotations

import ctypes
import math
import runpy
import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcprobe.errors import TcprobeError, UsageError
from tcprobe.text import quoted

POINTER = 8  # bytes
MOST_THREADS, MOST_SHARED = 1024, 1 << 20
MOST_GRID = (2**31 - 1, 65535, 65535)


class LaunchError(TcprobeError):
    """A launch file that does not run, or gives no launch of the kernel. Exit code 1."""


class Launch(NamedTuple):
    """`arguments`: the bytes of each, or an array, whose address the parameter holds."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    arguments: tuple[Any, ...]
    rounds: int | None = None


def launch_of(path: Path, kernel: str, sizes: Sequence[int] | None) -> Launch:
    """What a launch file gives for a kernel whose parameters have `sizes`, None where the file does not say.

    UsageError where there is no such file or no `launch` in it, LaunchError for all else.
    """
    if not path.is_file():
        raise UsageError(f"`launch` {quoted(str(path))}: there is no such file.")
    names = _run(path)
    function = names.get("launch")
    if not callable(function):
        raise UsageError(f"`launch`: {quoted(path.name)} has no function launch(kernel).")
    try:
        given = function(kernel)
    except TcprobeError:
        raise
    except (Exception, SystemExit) as error:
        raise LaunchError(f"launch({kernel!r}) of {path.name} fails: {_words(error)}") from error
    if not isinstance(given, tuple | list) or len(given) != 4:
        raise LaunchError(
            f"launch() of {path.name} gives {_kind(given)}: (grid, block, shared bytes, arguments) is needed."
        )
    grid = _sides("grid", given[0], MOST_GRID)
    block = _sides("block", given[1], (MOST_THREADS,) * 3)
    if math.prod(block) > MOST_THREADS:
        raise LaunchError(f"block {'x'.join(map(str, block))}: a block has at most {MOST_THREADS} threads.")
    shared = _whole("shared bytes", given[2], 0, MOST_SHARED)
    if not isinstance(given[3], tuple | list):
        raise LaunchError(f"arguments: {_kind(given[3])} where a list is needed.")
    if sizes is not None and len(sizes) != len(given[3]):
        raise LaunchError(f"{len(given[3])} arguments; {kernel} takes {len(sizes)}.")
    arguments = tuple(
        _argument(number, value, None if sizes is None else sizes[number]) for number, value in enumerate(given[3])
    )
    rounds = names.get("ROUNDS")
    return Launch(grid, block, shared, arguments, None if rounds is None else _whole("ROUNDS", rounds, 2, 2**31))


def _run(path: Path) -> Mapping[str, Any]:
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        return runpy.run_path(str(path), run_name="tcprobe_launch")
    except TcprobeError:
        raise
    except (Exception, SystemExit) as error:
        raise LaunchError(f"{path.name} does not run: {_words(error)}") from error


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _kind(value: object) -> str:
    count = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"{type(value).__name__}{count}"


def _whole(name: str, value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise LaunchError(f"{name} {str(value)[:60]}: a whole number from {least} to {most} is needed.")
    return int(value)


def _sides(name: str, value: object, most: tuple[int, ...]) -> tuple[int, int, int]:
    """Three sides, of a number or up to three."""
    given = list(value) if isinstance(value, tuple | list) else [value]
    if not 1 <= len(given) <= 3:
        raise LaunchError(f"{name}: {_kind(value)} where one to three sides are needed.")
    x, y, z = (_whole(name, side, 1, limit) for side, limit in zip([*given, 1, 1][:3], most, strict=True))
    return x, y, z


def _argument(number: int, value: Any, size: int | None) -> Any:
    """An argument as bytes, or an array; LaunchError unless it has the size of its parameter."""
    found = _bytes(number, value, size)
    given = len(found) if isinstance(found, bytes) else POINTER
    if size is not None and given != size:
        raise LaunchError(f"argument {number}, {_kind(value)}, has {given} bytes; the parameter has {size}.")
    return found


def _bytes(number: int, value: Any, size: int | None) -> Any:
    if value is None:
        return bytes(POINTER)
    if isinstance(value, np.generic):
        return value.tobytes()
    if isinstance(value, np.ndarray) or hasattr(value, "__cuda_array_interface__"):
        return value
    if isinstance(value, bytes | bytearray | memoryview | ctypes.Structure | ctypes.Array | ctypes._SimpleCData):
        return bytes(value)
    if not isinstance(value, bool | int | float):
        raise LaunchError(
            f"argument {number}: {_kind(value)} is no array, NumPy scalar, number or bytes (of a tensor on the GPU, "
            "pass what has __cuda_array_interface__)."
        )
    if size not in (1, 2, 4, 8):
        raise LaunchError(
            f"argument {number}: a number of Python's has no size here; say np.int32({value}) or the like."
        )
    try:
        return struct.pack({4: "<f", 8: "<d"}[size], value) if isinstance(value, float) else _integer(value, size)
    except (KeyError, OverflowError, struct.error):
        raise LaunchError(f"argument {number}: {value} does not fit a parameter of {size} bytes.") from None


def _integer(value: int, size: int) -> bytes:
    return int(value).to_bytes(size, "little", signed=value < 0)
