"""The block-scaled forms of mma.sync and mma.sp, PTX ISA 9.1, section 9.7.14.3, as rows.

A row stands for pairs of A and B types. Of each row of A, and of each column of B, the elements along k are cut into
`vector` blocks of equal length; a block has one scale, so A's are m x vector and B's vector x n. A lane's register of
scales has four bytes. Two immediates choose: of every four lanes thread-id names the pair that gives A's scales, or the
one that gives B's; byte-id names the first byte.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import NamedTuple

from tcprobe.isa.forms import Forms, one_by_one
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.multiply import MultiplyRow, OperandTypes
from tcprobe.isa.operand import Operand, Role
from tcprobe.isa.rows.mma_sp import sparse_operands
from tcprobe.isa.target import Target

TYPES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
NARROW = tuple(product(TYPES, TYPES))
FP4 = (("e2m1", "e2m1"),)
SCALE_BYTES = 4  # of a lane's register
THREAD_IDS = {"scale_a": (0, 1), "scale_b": (0, 1, 2, 3)}  # pairs, and lanes, of four


class ScaledRow(NamedTuple):
    """One line of the manual's table of kinds: `vector` is N of scale_vec::NX. `sparse` is that of the sparse form."""

    k: int
    kind: str
    vector: int
    ab: tuple[tuple[str, str], ...]
    scale: str
    target: Target
    sparse: Target


def _family(ptx: str, least: str) -> Target:
    """sm_120 by the `a` target, its family by the `f` one."""
    return Target("sm_120a", ptx, (("sm_120f", least),))


def _single(ptx: str, least: str) -> Target:
    """sm_120 and sm_121 by `a` targets alone."""
    return Target("sm_120a", ptx, (("sm_121a", least),))


ROWS = (
    ScaledRow(32, "mxf8f6f4", 1, NARROW, "ue8m0", _family("8.7", "8.8"), _family("8.7", "8.8")),
    ScaledRow(64, "mxf4", 2, FP4, "ue8m0", _family("8.7", "8.8"), _single("8.7", "8.8")),
    ScaledRow(64, "mxf4nvf4", 2, FP4, "ue8m0", _family("8.7", "8.8"), _single("8.7", "8.8")),
    ScaledRow(64, "mxf4nvf4", 4, FP4, "ue4m3", _family("8.7", "8.8"), _single("8.7", "8.8")),
    ScaledRow(64, "mxf4nvf4", 4, FP4, "ue8m0", _family("9.1", "9.1"), _single("9.1", "9.1")),
)


def _forms() -> Iterator[tuple[str, Callable[[], Instruction]]]:
    for sparse, row in product((False, True), ROWS):
        for a, b in row.ab:
            form = (row, sparse, ("f32", a, b, "f32"))
            yield _name(*form), partial(_instruction, *form)


def _shape(scaled: ScaledRow, sparse: bool) -> Shape:
    return Shape(16, 8, 2 * scaled.k if sparse else scaled.k)


def _name(scaled: ScaledRow, sparse: bool, types: OperandTypes) -> str:
    op = "mma.sp::ordered_metadata" if sparse else "mma"
    qualifiers = f"{_shape(scaled, sparse)}.row.col.kind::{scaled.kind}.block_scale.scale_vec::{scaled.vector}X"
    return f"{op}.sync.aligned.{qualifiers}.{'.'.join(types)}.{scaled.scale}"


def _instruction(scaled: ScaledRow, sparse: bool, types: OperandTypes) -> Instruction:
    target = scaled.sparse if sparse else scaled.target
    multiply = MultiplyRow(_shape(scaled, sparse), types, ("row", "col"), target, kind=scaled.kind)
    operands = sparse_operands(multiply, 1) if sparse else multiply.operands()
    m, n, _ = multiply.shape
    scales = (_scale("scale_a", scaled, (m, scaled.vector)), _scale("scale_b", scaled, (scaled.vector, n)))
    return Instruction(
        "mma.sp.block_scale" if sparse else "mma.block_scale",
        _name(scaled, sparse, types),
        multiply.shape,
        (*operands, *scales),
        target,
        kind=scaled.kind,
    )


@cache  # many types have the same
def _scale(name: str, scaled: ScaledRow, size: tuple[int, int]) -> Operand:
    """A register of bytes; the bytes of one block row lie next to each other, so byte-id is a multiple of `vector`."""
    picks = (("byte_id", tuple(range(0, SCALE_BYTES, scaled.vector))), ("thread_id", THREAD_IDS[name]))
    selectors = tuple(range(len(picks[0][1]) * len(picks[1][1])))
    return Operand(name, Role.SCALE, scaled.scale, *size, 8, 1, selectors=selectors, picks=picks)


INSTRUCTIONS = Forms(
    ("mma.block_scale", "mma.sp.block_scale"),
    ("mma.m", "mma.sp::"),
    one_by_one(_forms),
)
