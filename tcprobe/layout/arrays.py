"""Arrays by what they hold; the shape stands with each function."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]  # whole numbers
Words = NDArray[np.uint32]  # registers, 32 bits each
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Bits = NDArray[Any]  # raw bits, unsigned, of the width of their type
Bytes = NDArray[np.uint8]  # memory
Offset = TypeVar("Offset", int, Ints)  # a whole number, or an array of them
Array = NDArray[Any]  # numbers of a type that is known only as the program runs
