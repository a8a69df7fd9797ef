"""Launches: a kernel, its grid and arguments; from LAUNCH.json, from a Python file, or from a call.

LAUNCH.json has "kernel", "grid", "block", "cluster", "shared" and "arguments"; an argument is one of

    {"buffer": "a.npy", "out": "d.npy"}   an array; "out": where it is written after the kernel has run
    {"zeros": bytes, "out": FILE}         a buffer of zeros
    {"u32": n} {"s32": n} {"u64": n} {"s64": n} {"f32": x} {"f64": x}
    {"bytes": HEX, "pointers": {offset: index}}   a struct, with the addresses of buffers in it; "maps": tensor maps
    {"tensor_map": {...}, "of": index}    as `tcprobe tensormap --json` prints it, over the buffer of an argument

Paths are relative to the file; no other file is read or written.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tcprobe.emulate.boxes import MAP_BYTES
from tcprobe.emulate.machine import MOST_THREADS, Shape
from tcprobe.emulate.memory import MOST_BYTES
from tcprobe.errors import DataError, UsageError
from tcprobe.isa.tensor_map import DATA_TYPES, FILLS, INTERLEAVES, PACKED, SWIZZLES
from tcprobe.layout.arrays import Array
from tcprobe.references.shared_memory.tensor_map import TensorMap, broken_rules
from tcprobe.system import files, npy
from tcprobe.text import quoted

SCALARS = {"u32": "<I", "s32": "<i", "u64": "<Q", "s64": "<q", "f32": "<f", "f64": "<d", "u16": "<H", "u8": "<B"}
MOST_ARGUMENTS = 256
MOST_STRUCT = 1 << 12
MOST_GRID = (2**31 - 1, 65535, 65535)
MOST_LAUNCH = 1 << 20  # bytes of LAUNCH.json


class BufferArgument(NamedTuple):
    """An array in global memory; `out` is the file that it is written to, `array` what it holds before."""

    array: Array
    out: Path | None = None


class ScalarArgument(NamedTuple):
    """The bytes of a number or struct; `pointers`: by offset the argument whose buffer's address is there; `maps`:
    whose tensor map.
    """

    raw: bytes
    pointers: Mapping[int, int] = {}
    maps: Mapping[int, int] = {}


class MapArgument(NamedTuple):
    """A tensor map over the buffer of argument `of`."""

    map: TensorMap
    of: int


Argument = BufferArgument | ScalarArgument | MapArgument


@dataclass
class Launch:
    """A kernel's name (None: the only one), its shape and its arguments."""

    kernel: str | None
    shape: Shape
    arguments: list[Argument] = field(default_factory=list)


def read(path: Path) -> Launch:
    """The launch in a file; DataError where it is none."""
    try:
        told = json.loads(files.read_text(path, MOST_LAUNCH))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is no JSON: {str(error)[:100]}.") from error
    return of_json(told, path.parent)


def of_json(told: Any, folder: Path) -> Launch:
    """The launch that plain data states."""
    if not isinstance(told, dict) or not _is_named(told):
        raise DataError("a launch is an object with kernel, grid, block and arguments.")
    if strange := set(told) - {"kernel", "grid", "block", "cluster", "shared", "arguments"}:
        raise DataError(f"a launch has no {quoted(min(strange))}.")
    kernel = told.get("kernel")
    if kernel is not None and not isinstance(kernel, str):
        raise DataError("kernel is a name.")
    shape = check_shape(
        _three(told, "grid"),
        _three(told, "block"),
        _three(told, "cluster"),
        _whole(told.get("shared", 0), "shared", 1 << 20),
    )
    listed = told.get("arguments", [])
    if not isinstance(listed, list) or len(listed) > MOST_ARGUMENTS:
        raise DataError(f"arguments is a list of at most {MOST_ARGUMENTS}.")
    arguments = [_argument(one, number, folder) for number, one in enumerate(listed)]
    return check_arguments(Launch(kernel, shape, arguments))


def _is_named(told: object) -> bool:
    """Whether all names in plain data are texts, as in JSON."""
    if isinstance(told, dict):
        return all(isinstance(name, str) and _is_named(value) for name, value in told.items())
    return not isinstance(told, list) or all(map(_is_named, told))


def check_shape(grid: Sequence[int], block: Sequence[int], cluster: Sequence[int], shared: int) -> Shape:
    """A launch's shape; UsageError where a GPU refuses it."""
    shape = Shape(tuple(grid), tuple(block), tuple(cluster), shared)  # type: ignore[arg-type]
    if any(not 1 <= n <= most for n, most in zip(grid, MOST_GRID, strict=True)):
        raise UsageError(f"grid {list(grid)}: sides are 1 to {list(MOST_GRID)}.")
    if any(n < 1 for n in (*block, *cluster)) or shape.threads > 1024 or block[2] > 64:
        raise UsageError(f"block {list(block)}: 1 to 1024 threads are needed.")
    if shape.ranks > 16 or any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise UsageError(f"cluster {list(cluster)}: at most 16 blocks, whose sides divide the grid's {list(grid)}.")
    if shape.ranks * (shape.threads + 31) > MOST_THREADS:
        raise UsageError(f"cluster {list(cluster)} of {shape.threads} threads each is too large.")
    return shape


def check_arguments(launch: Launch) -> Launch:
    """The launch; DataError for an index that is no buffer's."""
    total = 0
    for number, argument in enumerate(launch.arguments):
        if isinstance(argument, BufferArgument):
            total += argument.array.nbytes
        wanted = (
            [argument.of]
            if isinstance(argument, MapArgument)
            else list(argument.pointers.values())
            if isinstance(argument, ScalarArgument)
            else []
        )
        for index in argument.maps.values() if isinstance(argument, ScalarArgument) else ():
            if not 0 <= index < len(launch.arguments) or not isinstance(launch.arguments[index], MapArgument):
                raise DataError(f"argument {number} names argument {index}, which is no tensor map.")
        for index in wanted:
            if not 0 <= index < len(launch.arguments) or not isinstance(launch.arguments[index], BufferArgument):
                raise DataError(f"argument {number} names argument {index}, which is no buffer.")
    if total > MOST_BYTES:
        raise UsageError(f"the buffers have {total} bytes; at most {MOST_BYTES} are emulated.")
    return launch


def _whole(value: object, name: str, most: int, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= most:
        raise DataError(f"{name} is a whole number from {least} to {most}.")
    return value


def _three(told: Mapping[str, Any], name: str) -> tuple[int, int, int]:
    value = told.get(name, [1, 1, 1])
    if not isinstance(value, list) or not 1 <= len(value) <= 3:
        raise DataError(f"{name} is a list of up to 3 numbers.")
    x, y, z = (_whole(n, name, 2**31 - 1) for n in [*value, 1, 1][:3])
    return x, y, z


def _argument(told: Any, number: int, folder: Path) -> Argument:
    if isinstance(told, np.ndarray):
        told = {"buffer": told}
    if not isinstance(told, dict) or not told:
        raise DataError(f"argument {number} is no object.")
    keys = set(told)
    if "buffer" in keys or "zeros" in keys:
        return _buffer(told, number, folder)
    if "tensor_map" in keys and keys <= {"tensor_map", "of"}:
        return MapArgument(tensor_map(told["tensor_map"]), _whole(told.get("of"), "of", MOST_ARGUMENTS))
    if "bytes" in keys and keys <= {"bytes", "pointers", "maps"}:
        return _struct(told, number)
    if len(keys) == 1 and (kind := next(iter(keys))) in SCALARS:
        return scalar(kind, told[kind])
    raise DataError(
        f"argument {number}: {', '.join(sorted(map(str, keys)))[:80]} is no argument; there are buffer, zeros, bytes, "
        f"tensor_map, {', '.join(SCALARS)}."
    )


def scalar(kind: str, value: Any) -> ScalarArgument:
    """A number as an argument."""
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, float) and kind[0] != "f"):
        raise DataError(f"{kind} takes a number, not {quoted(str(value)[:40])}.")
    try:
        return ScalarArgument(struct.pack(SCALARS[kind], value))
    except (struct.error, OverflowError) as error:
        raise DataError(f"{quoted(str(value)[:40])} is no {kind}.") from error


def _buffer(told: Mapping[str, Any], number: int, folder: Path) -> BufferArgument:
    if strange := set(told) - {"buffer", "zeros", "out"}:
        raise DataError(f"argument {number}: a buffer has no {quoted(min(strange))}.")
    out = told.get("out")
    if out is not None and not isinstance(out, str):
        raise DataError(f"argument {number}: out is a file's name.")
    if "zeros" in told:
        array: Array = np.zeros(_whole(told["zeros"], "zeros", MOST_BYTES), np.uint8)
    else:
        given = told["buffer"]
        if not isinstance(given, str) and not (isinstance(given, np.ndarray) and given.dtype.kind in "biufV"):
            raise DataError(f"argument {number}: buffer is a file's name, or an array of numbers.")
        array = npy.read_array(folder / given) if isinstance(given, str) else np.ascontiguousarray(given)
    return BufferArgument(array, None if out is None else folder / out)


def _struct(told: Mapping[str, Any], number: int) -> ScalarArgument:
    try:
        raw = bytes.fromhex(told["bytes"])
    except (TypeError, ValueError) as error:
        raise DataError(f"argument {number}: bytes are hexadecimal digits.") from error
    if not 0 < len(raw) <= MOST_STRUCT:
        raise DataError(f"argument {number}: bytes are 1 to {MOST_STRUCT}.")
    return ScalarArgument(
        raw, _inside(told, number, "pointers", 8, len(raw)), _inside(told, number, "maps", MAP_BYTES, len(raw))
    )


def _inside(told: Mapping[str, Any], number: int, name: str, size: int, end: int) -> dict[int, int]:
    """By their offsets in a struct of `end` bytes the arguments that stand in it, in `size` bytes each."""
    listed = told.get(name, {})
    if not isinstance(listed, dict):
        raise DataError(f"argument {number}: {name} is an object.")
    for offset in listed:
        if not (offset.isdigit() and len(offset) < 6 and int(offset) + size <= end):
            raise DataError(f"argument {number}: {name} at {quoted(offset[:20])} is outside the {end} bytes.")
    return {int(offset): _whole(index, name, MOST_ARGUMENTS) for offset, index in listed.items()}


def tensor_map(told: Any) -> TensorMap:
    """The map that `tcprobe tensormap --json` printed; DataError where a driver refuses it."""
    if not isinstance(told, dict):
        raise DataError("a tensor map is an object as `tensormap --json` prints it.")

    def numbers(name: str) -> tuple[int, ...]:
        value = told.get(name, [])
        if not isinstance(value, list) or len(value) > 5:
            raise DataError(f"{name} of a tensor map is a list of up to 5 numbers.")
        return tuple(_whole(n, name, 1 << 40) for n in value)

    def mode(name: str, of: Mapping[str, int], default: str = "NONE") -> int:
        word = str(told.get(name, default)).rpartition("CU_TENSOR_MAP_")[2]
        for prefix in ("DATA_TYPE_", "SWIZZLE_", "INTERLEAVE_", "FLOAT_OOB_FILL_", "L2_PROMOTION_"):
            word = word.removeprefix(prefix)
        if word not in of:
            raise DataError(f"{name} of a tensor map is no {quoted(word[:40])}.")
        return of[word]

    kinds = {name: number for name, (number, _) in DATA_TYPES.items()} | dict(PACKED)
    dims = numbers("globalDim")
    made = TensorMap(
        mode("tensorDataType", kinds, ""),
        dims,
        numbers("globalStrides"),
        numbers("boxDim"),
        numbers("elementStrides") or (1,) * len(dims),
        mode("interleave", INTERLEAVES),
        mode("swizzle", SWIZZLES),
        0,
        mode("oobFill", FILLS),
        16,
    )
    if (
        len(made.box) != len(dims)
        or len(made.strides) != max(0, len(dims) - 1)
        or len(made.steps) != len(dims)
        or not dims
    ):
        raise DataError("a tensor map's globalDim, boxDim, elementStrides and globalStrides do not fit each other.")
    if wrong := broken_rules(made, 100):
        raise DataError(f"the driver refuses the tensor map: {wrong[0].argument}: {wrong[0].words}.")
    return made


def run_python(path: Path) -> Launch:
    """The launch that a Python file makes: its `launch` is an object as LAUNCH.json, where buffers may be arrays."""
    import runpy

    try:
        made = runpy.run_path(str(path)).get("launch")
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.") from error
    except Exception as error:
        raise UsageError(f"{path}: {type(error).__name__}: {str(error)[:200]}.") from error
    if made is None:
        raise UsageError(f"{path} sets no `launch`.")
    return of_json(made, path.parent)
