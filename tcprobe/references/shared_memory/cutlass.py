"""The shared-memory layouts of CUTLASS 2.x: offsets of elements (contiguous, strided), in elements, for a stride.

>>> import numpy as np
>>> layout = resolve("TensorOpMultiplicandCrosswise<16,32>")
>>> layout(np.array([0, 8, 0]), np.array([0, 0, 2]), 32).tolist(), layout.packed((32, 64))
([0, 8, 72], 32)

Source: include/cutlass/layout/ of CUTLASS 4.2: pitch_linear.h, matrix.h and tensor_op_multiplicand_sm70.h, sm75.h,
sm80.h. A name that begins with ColumnMajor or RowMajor views the same memory by (row, column): the contiguous
coordinate is the row, or the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from tcprobe.errors import UsageError
from tcprobe.layout.address import Pair
from tcprobe.layout.arrays import Ints

Coordinate = Any  # an integer from 0 on, or a NumPy array of them
ACCESS, LINE = 128, 1024  # bits of one vector access, and of a line of shared memory: every bank once
VECTORS = LINE // ACCESS
_NAME = re.compile(r"(ColumnMajor|RowMajor)?([A-Za-z0-9]*)(?:<([0-9]{1,4}(?:,[0-9]{1,4})*)>)?")


def pitch_linear(contiguous: Coordinate, strided: Coordinate, stride: int) -> Coordinate:
    """The contiguous coordinate, then the strided one."""
    return contiguous + strided * stride


def interleaved(contiguous: Coordinate, strided: Coordinate, stride: int, group: int) -> Coordinate:
    """`group` strided indices side by side, then the next contiguous index."""
    return strided // group * stride + contiguous * group + strided % group


def block_linear(contiguous: Coordinate, strided: Coordinate, stride: int, wide: int, high: int) -> Coordinate:
    """Blocks of `wide` x `high`, each linear, one after the other along the contiguous coordinate."""
    return contiguous % wide + strided % high * wide + contiguous // wide * wide * high + strided // high * stride


def multiplicand(contiguous: Coordinate, strided: Coordinate, stride: int, bits: int, crosswise: int) -> Coordinate:
    """16-byte vectors, 8 to a line of 128 bytes, XORed with the number of the line.

    A line has `crosswise` elements of each of kFactor = 1024 / bits / crosswise strided indices. The pattern repeats
    after kTileShapeStride = max(8 / kFactor, 4) lines: the low two bits of a vector's place are XORed with those of the
    line's number, the third bit with the third.
    """
    vector, factor = ACCESS // bits, LINE // bits // crosswise
    per, height = VECTORS // factor, max(VECTORS // factor, 32 // VECTORS)
    line, part = strided // factor, strided % factor
    key = line % height
    place = (contiguous // vector % per + part * per) ^ (key % 4) ^ (key // 4 % 2 * 4)
    return (contiguous // vector // per * VECTORS + place) * vector + contiguous % vector + line * stride * factor


def congruous(contiguous: Coordinate, strided: Coordinate, stride: int, bits: int, crosswise: int) -> Coordinate:
    """As `multiplicand`; but 32-bit elements XOR twice the low two bits of the line, for any `crosswise`."""
    if bits != 32:
        return multiplicand(contiguous, strided, stride, bits, crosswise)
    return ((contiguous // 4 % 8) ^ (2 * (strided % 4))) * 4 + contiguous // 32 * 32 + contiguous % 4 + strided * stride


def congruous_64(contiguous: Coordinate, strided: Coordinate, stride: int) -> Coordinate:
    """16 x 4 elements of 64 bits: contiguous bits 1 and 2 become the line, and are XORed into its places."""
    line = contiguous >> 1 & 3
    place = (((contiguous & 1) << 2 | line) ^ (strided & 1)) << 1 | (contiguous >> 3 & 1)
    return contiguous // 16 * 16 + (place ^ ((strided & 2) << 1)) + (strided // 4 * 4 + line) * stride


def crosswise_64(contiguous: Coordinate, strided: Coordinate, stride: int) -> Coordinate:
    """16 x 16 elements of 64 bits; two bits of each coordinate make the line.

    C's precedence puts + before ^, so the sum of the strided bits and the others is XORed as a whole.
    """
    k, pair = contiguous % 16 // 4, strided % 16 // 2
    place = ((k & 2) << 2) ^ ((strided % 2 << 3) + contiguous % 4 * 2 + pair // 4) ^ (k & 1)
    return (k * 4 + pair % 4 + contiguous // 16 * 16) * stride + strided // 16 * 16 + place


def congruous_128(contiguous: Coordinate, strided: Coordinate, stride: int) -> Coordinate:
    """8 x 4 elements of 128 bits: contiguous bits 1 and 2 become the line, and are XORed into its places."""
    line = contiguous >> 1 & 3
    return contiguous // 8 * 8 + ((contiguous & 1) << 2 | (strided & 3) ^ line) + (strided // 4 * 4 + line) * stride


def crosswise_128(contiguous: Coordinate, strided: Coordinate, stride: int) -> Coordinate:
    """8 x 8 elements of 128 bits. C's precedence puts + before ^ here too."""
    place = (contiguous % 4 + (strided & 1) * 4) ^ (contiguous & 4)
    line = (contiguous & 4) + strided % 8 // 4 * 2 + (strided >> 1 & 1)
    return (contiguous // 8 * 8 + line) * stride + strided // 8 * 8 + place


def volta_congruous(contiguous: Coordinate, strided: Coordinate, stride: int, bits: int) -> Coordinate:
    """8 x 4 vectors of 16 bytes: bits 1 and 2 of a vector's number become its line, and are XORed into its place."""
    vector = ACCESS // bits
    number = contiguous // vector % 8
    line = number >> 1
    return (
        (contiguous // vector // 8 * 8 + ((strided % 4) ^ line | (number & 1) << 2)) * vector
        + contiguous % vector
        + (strided // 4 * 4 + line) * stride
    )


def volta_b_congruous(contiguous: Coordinate, strided: Coordinate, stride: int, bits: int) -> Coordinate:
    """As `volta_congruous`, with bits 0 and 1 of a vector's number."""
    vector = ACCESS // bits
    number = contiguous // vector % 8
    line = number & 3
    return (
        (contiguous // vector // 8 * 8 + ((strided % 4) ^ line | number & 4)) * vector
        + contiguous % vector
        + (strided // 4 * 4 + line) * stride
    )


def volta_crosswise(contiguous: Coordinate, strided: Coordinate, stride: int, bits: int, block: int) -> Coordinate:
    """Vectors of 8 bytes; a line has one of each strided index, so `stride` counts these. `block` is not used."""
    vector = ACCESS // 2 // bits
    number = contiguous // vector
    place = (strided & ~15) + (strided & 3) * 4 + ((strided >> 2 ^ (strided & 16) >> 3) & 3)
    return (place ^ (number >> 1 & 3)) * vector + contiguous % vector + number * stride * vector


def tensor_op_interleaved(
    contiguous: Coordinate, strided: Coordinate, stride: int, bits: int, group: int
) -> Coordinate:
    """Lines of 128 elements; blocks of 16 are XORed with the lowest bit of the line. The place in a block is dropped.

    `stride` and `bits` have no effect.
    """
    rows = 128 // group
    line, column = strided // rows, strided % rows * group + contiguous
    return line * 128 + ((column >> 4 ^ line & 1) << 4)


class CutlassFormula(NamedTuple):
    """A definition: its formula, its template parameters, and the stride of a packed tile.

    That stride is the extent of coordinate `packed` (0 contiguous, 1 strided); with `times`, times the template
    arguments.
    """

    formula: Callable[..., Coordinate]
    parameters: tuple[str, ...] = ()
    packed: int = 0
    times: bool = False


SIZES, GROUPS, SIZE = ("ElementSize", "Crosswise"), ("ElementSize", "InterleavedK"), ("ElementSize",)
VIEWED = {  # also with the prefixes ColumnMajor and RowMajor
    "TensorOpMultiplicandCongruous": CutlassFormula(congruous, SIZES),
    "TensorOpMultiplicandCrosswise": CutlassFormula(multiplicand, SIZES),
    "TensorOpMultiplicandCongruous64b": CutlassFormula(congruous_64),
    "TensorOpMultiplicand64bCrosswise": CutlassFormula(crosswise_64, packed=1),
    "TensorOpMultiplicandCongruous128b": CutlassFormula(congruous_128),
    "TensorOpMultiplicandCrosswise128x4": CutlassFormula(crosswise_128, packed=1),
    "VoltaTensorOpMultiplicandCongruous": CutlassFormula(volta_congruous, SIZE),
    "VoltaTensorOpMultiplicandBCongruous": CutlassFormula(volta_b_congruous, SIZE),
    "VoltaTensorOpMultiplicandCrosswise": CutlassFormula(volta_crosswise, ("ElementSize", "KBlock"), packed=1),
}
PLAIN = VIEWED | {
    "PitchLinear": CutlassFormula(pitch_linear),
    "TensorOpMultiplicand": CutlassFormula(multiplicand, SIZES),
    "TensorOpMultiplicand64bCrosswise": CutlassFormula(crosswise_64),
    "TensorOpMultiplicandCrosswise128x4": CutlassFormula(crosswise_128),
    "TensorOpMultiplicandColumnMajorInterleaved": CutlassFormula(tensor_op_interleaved, GROUPS),
    "TensorOpMultiplicandRowMajorInterleaved": CutlassFormula(tensor_op_interleaved, GROUPS),
}
VIEWS = VIEWED | {
    "": CutlassFormula(pitch_linear),
    "Interleaved": CutlassFormula(interleaved, ("Interleave",), times=True),
    "BlockLinear": CutlassFormula(block_linear, ("BlockRows", "BlockColumns"), times=True),
}


class CutlassLayout(NamedTuple):
    """A layout with its template arguments; `view` says which of (first, second) is contiguous."""

    name: str
    definition: CutlassFormula
    arguments: tuple[int, ...]
    view: str

    @property
    def bits(self) -> int | None:
        """Bits of an element, None if the name does not say."""
        wide = re.search("(64|128)", self.name.partition("<")[0])
        return self.arguments[0] if "ElementSize" in self.definition.parameters else int(wide[0]) if wide else None

    def packed(self, extent: Pair) -> int:
        """The stride that CUTLASS gives a packed tile."""
        pitch: int = self._ordered(extent)[self.definition.packed]
        return pitch * prod(self.arguments) if self.definition.times else pitch

    def __call__(self, first: Ints, second: Ints, stride: int) -> Coordinate:
        """Offsets in elements."""
        block = self.definition.formula is block_linear and self.view == "RowMajor"
        arguments = self.arguments[::-1] if block else self.arguments
        return self.definition.formula(*self._ordered((first, second)), stride, *arguments)

    def _ordered(self, row_and_column: tuple[Coordinate, Coordinate]) -> tuple[Coordinate, Coordinate]:
        """(contiguous, strided)."""
        return row_and_column[::-1] if self.view == "RowMajor" else row_and_column


def resolve(name: str) -> CutlassLayout | None:
    """The layout that a name such as RowMajorTensorOpMultiplicandCrosswise<16,64> means; None if it is not such a name.

    UsageError if template arguments are missing, too many, or do not compile in CUTLASS.
    """
    text = re.sub(r"\s|^(?:cutlass::)?(?:layout::)?", "", name)
    match = _NAME.fullmatch(text)
    if not match:
        return None
    view, plain, template_arguments = match[1] or "", match[2], match[3]
    definition = (VIEWS if view else PLAIN).get(plain)
    if definition is None:
        return None
    arguments = tuple(int(number) for number in template_arguments.split(",")) if template_arguments else ()
    if len(arguments) != len(definition.parameters) or 0 in arguments or not _compiles(definition, arguments):
        parameters = f"<{','.join(definition.parameters)}>" if definition.parameters else " without arguments"
        raise UsageError(f"{name}: CUTLASS has {view}{plain}{parameters}, and no such one of it.")
    return CutlassLayout(text, definition, arguments, view)


def _compiles(definition: CutlassFormula, arguments: tuple[int, ...]) -> bool:
    """Whether no size that the definition divides by is 0, and elements have 2**n bits, at most those of an access."""
    sized = "ElementSize" in definition.parameters
    bits = arguments[0] if sized else 1
    access = ACCESS // 2 if definition.formula is volta_crosswise else ACCESS
    if bits & (bits - 1) or bits > access:
        return False
    if "Crosswise" in definition.parameters:
        return 0 < LINE // bits // arguments[1] <= VECTORS
    return "InterleavedK" not in definition.parameters or arguments[1] <= 128


def names() -> list[str]:
    """All names, with their template parameters."""
    rows = [(name, row) for name, row in PLAIN.items()]
    rows += [(view + name, row) for name, row in VIEWS.items() for view in ("ColumnMajor", "RowMajor")]
    return [f"{name}<{','.join(row.parameters)}>" if row.parameters else name for name, row in rows]
