"""What documents claim of these layouts, each with a verdict computed from the tables.

>>> [claim.words for claim in CLAIMS if not claim.holds()]
['a block of four printed lines, 512 bytes, is one phase of a warp']

A phase is the part of a warp whose accesses one pass over the banks can serve: 128 bytes, so 8 lanes of 16 bytes each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

import numpy as np

from tcprobe.layout.arrays import Ints
from tcprobe.layout.swizzle import Swizzle
from tcprobe.references.shared_memory import cute, cutlass, tma

WIDTHS, FACTORS = (4, 8, 16, 32), (1, 2, 4, 8)
VECTOR, LINE = 16, 128  # bytes
SM75, SM80 = "CUTLASS, tensor_op_multiplicand_sm75.h", "CUTLASS, tensor_op_multiplicand_sm80.h"


class SharedClaim(NamedTuple):
    """A statement, its source, the computation that decides it, and the reason in words."""

    source: str
    words: str
    holds: Callable[[], bool]
    because: str

    @property
    def verdict(self) -> str:
        """ "confirmed" or "false", and why."""
        return f"{'confirmed' if self.holds() else 'false'}: {self.because}"


def _vectors(bits: int, factor: int, strided: int = 64) -> Ints:
    """Byte offsets of the vectors of TensorOpMultiplicand<bits, 1024 / bits / factor>, by [vector, strided index]."""
    crosswise = 1024 // bits // factor
    first, second = np.indices((8 // factor, strided))
    offsets: Ints = cutlass.multiplicand(first * (128 // bits), second, crosswise, bits, crosswise)
    return offsets * bits // 8


def _passes(offsets: Ints) -> int:
    """Passes over the banks that vectors need: the most vectors that share four banks."""
    return max(Counter((offsets // VECTOR % 8).ravel().tolist()).values())


def _phases(bits: int, factor: int) -> Iterator[Ints]:
    """What 8 lanes of a phase access: 8 strided indices of one vector (ldmatrix), or those that stores write."""
    offsets = _vectors(bits, factor)
    yield from (column[start : start + 8] for column in offsets for start in range(0, 64, 8))
    yield from (offsets[:, start : start + factor] for start in range(0, 64, factor))


def _factor_shares_lines() -> bool:
    return all(
        Counter((_vectors(bits, factor)[0] // LINE).tolist()) == dict.fromkeys(range(64 // factor), factor)
        for bits, factor in product(WIDTHS, FACTORS)
    )


def _free_of_conflicts() -> bool:
    return all(_passes(lanes) == 1 for bits, factor in product(WIDTHS, FACTORS) for lanes in _phases(bits, factor))


def _period() -> bool:
    """Whether the places of a line's 8 vectors repeat after max(8 / kFactor, 4) lines, and no earlier."""
    for bits, factor in product(WIDTHS, FACTORS):
        lines = (_vectors(bits, factor).T % LINE).reshape(-1, 8)
        period = next(size for size in range(1, len(lines)) if np.array_equal(lines[size:], lines[:-size]))
        if period != max(8 // factor, 4):
            return False
    return True


def _line_is_a_phase() -> bool:
    return all(_passes(np.arange(line, line + LINE, VECTOR)) == 1 for line in range(0, 4 * LINE, LINE))


def _block_is_a_phase() -> bool:
    return _passes(np.arange(0, 4 * LINE, VECTOR)) == 1


def _atoms_are_boxes() -> bool:
    """Whether K-major atoms, by (m, k), equal boxes, by (k, m)."""
    for span, bits in product(("SW32", "SW64", "SW128"), (8, 16, 32, 64)):
        mode, atom = tma.resolve(f"SWIZZLE_{span[2:]}B"), cute.resolve(f"Layout_K_{span}_Atom", bits)
        if not mode or not atom:
            return False
        rows, inner = np.indices(atom.shape)
        box = tma.Box((atom.shape[1], atom.shape[0]), bits, 0)
        if not np.array_equal(atom(rows, inner, atom.shape) * (bits // 8), mode(inner, rows, box)):
            return False
    return True


def _congruous_is_umma() -> bool:
    atom = cute.resolve("Layout_MN_SW128_32B_Atom", 32)
    first, second = np.indices((32, 16))
    return atom is not None and np.array_equal(
        cutlass.congruous(first, second, 32, 32, 32), atom(first, second, (32, 16))
    )


def _multiplicand_is(bits: int, factor: int, claimed: Swizzle) -> bool:
    crosswise = 1024 // bits // factor
    first, second = np.indices((crosswise, 64))
    plain = first + second * crosswise
    return np.array_equal(cutlass.multiplicand(first, second, crosswise, bits, crosswise), claimed(plain))


def _place_dropped() -> bool:
    first, second = np.indices((32, 64))
    return bool(np.all(cutlass.tensor_op_interleaved(first, second, 0, 8, 32) % 16 == 0))


def _packed_overlaps() -> bool:
    layout = cutlass.resolve("TensorOpMultiplicand64bCrosswise")
    first, second = np.indices((16, 32))
    return layout is not None and len(np.unique(layout(first, second, layout.packed((16, 32))))) < first.size


CLAIMS = (
    SharedClaim(
        SM75,
        "kFactor = 1024 / ElementSize / Crosswise strided indices share a line of 128 bytes",
        _factor_shares_lines,
        "counted for 4 to 32 bits and kFactor 1, 2, 4, 8",
    ),
    SharedClaim(
        SM75,
        "kTileShapeStride = max(8 / kFactor, 4) lines make the pattern",
        _period,
        "it repeats after as many lines and no fewer",
    ),
    SharedClaim(
        SM75,
        "accesses are free of conflicts, 8 lanes along either coordinate",
        _free_of_conflicts,
        "8 vectors of a phase have 8 places of 16 bytes",
    ),
    SharedClaim(
        "03_visualize_layout",
        "one printed line of 8 vectors, 128 bytes, is one phase of 16-byte accesses",
        _line_is_a_phase,
        "8 vectors hold each of the 32 banks once",
    ),
    SharedClaim(
        "write-ups of 03_visualize_layout",
        "a block of four printed lines, 512 bytes, is one phase of a warp",
        _block_is_a_phase,
        "four lines hold every bank four times, which takes four passes",
    ),
    SharedClaim(
        "CuTe, mma_traits_sm90_gmma.hpp",
        "the atoms SW32, SW64, SW128 are the tensor maps' modes",
        _atoms_are_boxes,
        "Layout_K atoms equal boxes of a whole span, for 8 to 64 bits",
    ),
    SharedClaim(
        "write-ups of CUTLASS",
        "TensorOpMultiplicandCrosswise<16,32> is Swizzle<2,3,3>",
        lambda: _multiplicand_is(16, 2, Swizzle(2, 3, 3)),
        "at its packed stride",
    ),
    SharedClaim(
        "write-ups of CUTLASS",
        "TensorOpMultiplicandCrosswise<16,64> is Swizzle<3,3,3>",
        lambda: _multiplicand_is(16, 1, Swizzle(3, 3, 3)),
        "at its packed stride",
    ),
    SharedClaim(
        SM75,
        "TensorOpMultiplicandCongruous<32,N>, for tf32, is what tcgen05 calls SW128_32B",
        _congruous_is_umma,
        "equal to Layout_MN_SW128_32B_Atom<float>: Swizzle<2,5,2> of bytes",
    ),
    SharedClaim(
        SM75,
        "TensorOpMultiplicand...Interleaved leaves out an element's place in its block of 16",
        _place_dropped,
        "all offsets are multiples of 16",
    ),
    SharedClaim(
        SM80,
        "TensorOpMultiplicand64bCrosswise::packed() gives a stride at which elements overlap",
        _packed_overlaps,
        "16 x 32 elements; its ColumnMajor and RowMajor views take the other extent",
    ),
)
