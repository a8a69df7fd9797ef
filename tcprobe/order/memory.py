"""Where the operands of a call lie: arrays of NumPy, CuPy or PyTorch, filled and read as bits.

Elements are written as whole numbers of their own width, so that a library need not compute with a type to be asked
about it. A matrix may have its rows or its columns contiguous, and lines that are a multiple of some bytes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tcprobe.arithmetic.floats import FORMATS
from tcprobe.errors import EnvironmentUnfitError
from tcprobe.isa.dtypes import dtype
from tcprobe.layout.arrays import Array

WHOLE: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
INTEGERS: dict[str, Any] = {"s8": np.int8, "u8": np.uint8, "s32": np.int32}


def bytes_of(kind: str) -> int:
    """Bytes of an element of a type."""
    return dtype(kind).bits // 8


def numpy_type(kind: str) -> Any:
    """NumPy's type, or that of ml_dtypes."""
    return np.dtype(INTEGERS[kind] if kind in INTEGERS else FORMATS[kind].numpy)


class Memory(Protocol):
    """A library of arrays on one device. `kind` is tcprobe's name of an element type."""

    name: str
    device: str

    def zeros(self, shape: tuple[int, int], size: int) -> Any:
        """Whole numbers of `size` bytes."""

    def put(self, array: Array) -> Any:
        """A NumPy array of whole numbers, on the device."""

    def get(self, array: Any) -> Array:
        """The array as NumPy's, after all calls are done."""

    def cast(self, array: Any, like: Any) -> Any:
        """Truth values as whole numbers of the width of `like`."""

    def typed(self, array: Any, kind: str) -> Any:
        """The same memory as elements of a type."""

    def bits(self, array: Any) -> Any:
        """The same memory as whole numbers."""

    def kind_of(self, array: Any) -> str | None:
        """tcprobe's name of the element type, None for one that it has no name for."""

    def own(self, result: Any) -> Any:
        """An array of another library, by DLPack, as one of this; TypeError for what is none."""

    def wait(self) -> None:
        """Until all calls are done."""


class ArrayModule:
    """NumPy, or CuPy, which has the same functions."""

    def __init__(self, module: Any, device: str) -> None:
        self.module, self.name, self.device = module, module.__name__, device

    def zeros(self, shape: tuple[int, int], size: int) -> Any:
        """Whole numbers of `size` bytes."""
        return self.module.zeros(shape, WHOLE[size])

    def put(self, array: Array) -> Any:
        """A NumPy array of whole numbers, on the device."""
        return self.module.asarray(array)

    def get(self, array: Any) -> Array:
        """The array as NumPy's."""
        return np.array(array.get() if hasattr(array, "get") else array)

    def cast(self, array: Any, like: Any) -> Any:
        """Truth values as whole numbers."""
        return array.astype(like.dtype)

    def typed(self, array: Any, kind: str) -> Any:
        """The same memory as elements of a type."""
        try:
            return array.view(numpy_type(kind))
        except (TypeError, ValueError, KeyError) as error:
            raise EnvironmentUnfitError(f"{self.name} has no arrays of {kind} ({error}).") from None

    def bits(self, array: Any) -> Any:
        """The same memory as whole numbers."""
        return array.view(WHOLE[array.dtype.itemsize])

    def kind_of(self, array: Any) -> str | None:
        """tcprobe's name of the element type."""
        return next(
            (kind for kind in (*FORMATS, *INTEGERS) if kind != "tf32" and array.dtype == numpy_type(kind)), None
        )

    def own(self, result: Any) -> Any:
        """An array of another library, by DLPack."""
        if isinstance(result, self.module.ndarray):
            return self.module.asarray(result)  # of np.matrix and other kinds of array the plain one
        if not hasattr(result, "__dlpack__"):
            raise TypeError(f"it returned a {type(result).__name__}, which is no array")
        return self.module.from_dlpack(result)

    def wait(self) -> None:
        """Until all calls are done."""
        if self.name == "cupy":
            self.module.cuda.runtime.deviceSynchronize()


TORCH_TYPES = {
    "f64": "float64",
    "f32": "float32",
    "tf32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "s8": "int8",
    "u8": "uint8",
    "s32": "int32",
}


class Torch:
    """PyTorch's tensors on a GPU, or on the CPU."""

    name = "torch"

    def __init__(self, module: Any, device: str) -> None:
        self.module, self.device = module, device
        self._place = module.device("cpu" if device == "cpu" else "cuda")
        self._whole = {1: module.int8, 2: module.int16, 4: module.int32, 8: module.int64}
        self._kinds = {getattr(module, name): kind for kind, name in TORCH_TYPES.items() if kind != "tf32"}

    def zeros(self, shape: tuple[int, int], size: int) -> Any:
        """Whole numbers of `size` bytes."""
        return self.module.zeros(shape, dtype=self._whole[size], device=self._place)

    def put(self, array: Array) -> Any:
        """A NumPy array of whole numbers, on the device."""
        return self.module.from_numpy(np.ascontiguousarray(array)).to(self._place)

    def get(self, array: Any) -> Array:
        """The tensor as NumPy's."""
        made: Array = array.cpu().numpy()
        return made

    def cast(self, array: Any, like: Any) -> Any:
        """Truth values as whole numbers."""
        return array.to(like.dtype)

    def typed(self, array: Any, kind: str) -> Any:
        """The same memory as elements of a type."""
        return array.view(getattr(self.module, TORCH_TYPES[kind]))

    def bits(self, array: Any) -> Any:
        """The same memory as whole numbers."""
        return array.view(self._whole[array.element_size()])

    def kind_of(self, array: Any) -> str | None:
        """tcprobe's name of the element type."""
        return self._kinds.get(array.dtype)

    def own(self, result: Any) -> Any:
        """An array of another library, by DLPack."""
        if isinstance(result, self.module.Tensor):
            return result.detach()
        if not hasattr(result, "__dlpack__"):
            raise TypeError(f"it returned a {type(result).__name__}, which is no array")
        return self.module.from_dlpack(result)

    def wait(self) -> None:
        """Until all calls are done."""
        if self.device != "cpu":
            self.module.cuda.synchronize()


def matrix(memory: Memory, shape: tuple[int, int], kind: str, contiguous: str, apart: int = 1) -> Any:
    """A matrix of zero bits, its rows ("row") or columns ("col") contiguous, their starts a multiple of bytes apart."""
    (rows, cols), size = shape, bytes_of(kind)
    lines, length = (rows, cols) if contiguous == "row" else (cols, rows)
    whole = memory.zeros((lines, -(-length * size // apart) * apart // size), size)[:, :length]
    return whole if contiguous == "row" else whole.T


def patterns(kind: str, values: Any) -> Array:
    """Values as the whole numbers that have their bits; the type must hold them."""
    array = np.asarray(values, np.float64)
    made = np.ascontiguousarray(array.astype(numpy_type(kind)))
    return made.view(WHOLE[made.itemsize])


def pattern(kind: str, value: float) -> int:
    """One of them."""
    return int(patterns(kind, [value])[0])


def fill_from_samples(memory: Memory, whole: Any, samples: Array, axis: int) -> None:
    """Lines of a matrix along `axis` from a few, again and again."""
    lines = whole if axis == 0 else whole.T
    given = memory.put(samples if axis == 0 else np.ascontiguousarray(samples.T))
    count = int(lines.shape[0])
    filled = min(count, int(given.shape[0]))
    lines[:filled] = given[:filled]
    while filled < count:
        more = min(filled, count - filled)
        lines[filled : filled + more] = lines[:more]
        filled += more


def fill_with_masks(memory: Memory, lines: Any, at: Sequence[Array], values: Sequence[int]) -> None:
    """Write a column of `lines` (k x columns) for each mask.

    `at` has four arrays: x, y, and the first and the last but one of the units; `values` the bits of what x, y, units
    and all others become, the others zero where none are given.
    """
    x, y, start, stop = (memory.put(np.ascontiguousarray(each, np.int64)) for each in at)
    count, depth = len(at[0]), int(lines.shape[0])
    k, columns = memory.put(np.arange(depth)[:, None]), memory.put(np.arange(count))
    inside = (k >= start[None, :]) & (k < stop[None, :])
    rest = values[3] if len(values) > 3 else 0
    lines[...] = memory.cast(inside, lines) * (values[2] - rest) + rest
    lines[x, columns] = values[0]
    lines[y, columns] = values[1]
