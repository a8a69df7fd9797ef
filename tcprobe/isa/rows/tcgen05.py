"""tcgen05, PTX ISA 9.1, section 9.7.16, as rows: multiplies whose matrices are in shared and tensor memory, and moves.

M, N and the element types of a multiply are in a descriptor, not in its name: one form stands for all of them. Tensor
memory has 128 lanes of 512 columns of 32 bits. A load or store of .xNUM moves NUM times the columns of its shape.
Listed is that of the least NUM, under a name without it; with .xNUM behind it the name means that one.
The names are those of PTX's syntax: braces hold what may be left out, or one of several.
"""

import re
from functools import cache
from math import prod
from typing import NamedTuple

from tcprobe import facts
from tcprobe.isa.arch import WARP, Target, read_target
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.inventory import Forms, all_at_once
from tcprobe.isa.operand import Operand, Place, Role, registers_for

CELL_BITS = 32  # of tensor memory
LANES, COLUMNS = 128, 512


class TensorMultiplyRow(NamedTuple):
    """A line of tcgen05_multiplies.csv: `d` types of the accumulator, `ab` of A and B; `group` CTAs of a group.

    `scales` have their type and, before X, how many there are of a row of A.
    """

    form: str
    group: int
    kind: str
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: int
    d: tuple[str, ...]
    ab: tuple[str, ...]
    scales: tuple[str, ...]
    target: Target
    source: str


class TensorMoveRow(NamedTuple):
    """A line of tcgen05_moves.csv: lanes x columns of one repetition, the repetitions, what copies are multicast to."""

    op: str
    shape: str
    lanes: int
    columns: int
    numbers: tuple[int, ...]
    multicast: tuple[str, ...]
    target: Target
    source: str


K96 = 96  # beside the one K that a kind has in all other forms: their scales are "of all supported K"
TABLES_96 = (
    "PTX ISA 9.1, table 39: K = 96 with cta_group::2 and M = 256, whatever the scales; but CUTLASS, "
    "mma_sm100_umma.hpp, SM103_MXF4_ULTRA_SS_VS, has it with cta_group::1, M = 128 and N of 16 to 256 by 16",
    "PTX ISA 9.1, table 44: the ID of scales is 0 or 2; but section 9.7.16.10.7.2.4 has 0 to 3 for .block32 with "
    "K = 96",
    "PTX ISA 9.1, table 56: scale_A is M x 3 with .block32, M x 6 with .block16; but for all K M x 2 with "
    ".scale_vec::2X, which .block32 stands for, and M x 4 with .scale_vec::4X, which .block16 stands for",
)

# what may stand for .scale_vectorsize, "" for nothing, as ptxas 12.9.86, 13.0.88 and 13.5.37 take it: for targets with
# suffix f they refuse every .scale_vec, which PTX ISA 9.1 does not say
VECTOR_SIZES = {
    "mxf8f6f4": ("", ".scale_vec::1X", ".block32"),
    "mxf4": ("", ".scale_vec::2X", ".block32"),
    "mxf4nvf4": (".scale_vec::2X", ".scale_vec::4X", ".block16", ".block32"),
}
BLOCKS_SINCE = "8.8"  # PTX version that brought .block16 and .block32


def vector_sizes(kind: str, target: str) -> tuple[str, ...]:
    """What a target (sm_100a, sm_100f) takes for .scale_vectorsize; "" for nothing."""
    return tuple(size for size in VECTOR_SIZES[kind] if target.endswith("a") or not size.startswith(".scale_vec"))


def _sizes_stated(kind: str) -> tuple[str, ...]:
    """The same for all targets, in words."""
    family = vector_sizes(kind, "f")
    words = {True: f" (from PTX {BLOCKS_SINCE})", False: ""}
    return tuple(
        f"{size or 'none'}{words[size.startswith('.block')] if size in family else ' (targets with suffix a only)'}"
        for size in VECTOR_SIZES[kind]
    )


@cache
def multiplies() -> tuple[TensorMultiplyRow, ...]:
    """The lines of tcgen05_multiplies.csv."""
    return facts.read(
        __file__,
        "tcgen05_multiplies.csv",
        TensorMultiplyRow,
        group=facts.number,
        m=facts.numbers,
        n=facts.numbers,
        k=facts.number,
        d=facts.words_of(dtype),
        ab=facts.words_of(dtype),
        scales=facts.words,
        target=read_target,
    )


@cache
def moves() -> tuple[TensorMoveRow, ...]:
    """The lines of tcgen05_moves.csv."""
    return facts.read(
        __file__,
        "tcgen05_moves.csv",
        TensorMoveRow,
        op=facts.one_of(*NAMES),
        lanes=facts.number,
        columns=facts.number,
        numbers=facts.numbers,
        multicast=facts.words,
        target=read_target,
    )


def _multiply(multiply: TensorMultiplyRow) -> Instruction:
    called = f"{multiply.form}.cta_group::{multiply.group}.kind::{multiply.kind}"
    stated: dict[str, tuple[int | str, ...]] = {
        "m_values": multiply.m,
        "n_values": multiply.n,
        "d_types": multiply.d,
        "ab_types": multiply.ab,
    }
    if multiply.scales:
        stated |= {"scales": multiply.scales, "scale_vectorsize": _sizes_stated(multiply.kind)}
    if multiply.k == K96:
        stated["tables"] = TABLES_96
    return Instruction(
        "tcgen05",
        called + (".block_scale{.scale_vectorsize}" if multiply.scales else ""),
        Shape(multiply.m[-1], multiply.n[-1], multiply.k),
        _matrices(multiply),
        multiply.target,
        kind=multiply.kind,
        called=called + (f".k{K96}" if multiply.k == K96 else ""),
        stated=stated,
    )


def _matrices(multiply: TensorMultiplyRow) -> tuple[Operand, ...]:
    """The matrices of the largest M and N, of the first types; no thread holds a part of them."""
    m, n, k, sparse = multiply.m[-1], multiply.n[-1], multiply.k, ".sp" in multiply.form
    stored = k // 2 if sparse else k
    operands = [
        _remote("d", Role.RESULT, multiply.d[0], (m, n), Place.TENSOR_MEMORY),
        _remote("a", Role.FACTOR, multiply.ab[0], (m, stored), Place.SHARED),
        _remote("b", Role.FACTOR, multiply.ab[0], (k, n), Place.SHARED),
    ]
    if sparse:
        operands.append(_remote("e", Role.METADATA, "b2", (m, stored), Place.TENSOR_MEMORY))
    if multiply.scales:
        scale, vector = multiply.scales[0].removesuffix("X").split()
        operands.append(_remote("scale_a", Role.SCALE, scale, (m, int(vector)), Place.TENSOR_MEMORY))
        operands.append(_remote("scale_b", Role.SCALE, scale, (int(vector), n), Place.TENSOR_MEMORY))
    return tuple(operands)


def _remote(name: str, role: Role, kind: str, size: tuple[int, int], place: Place) -> Operand:
    return Operand(name, role, kind, *size, 32, 0, place=place)


NAMES = {
    "ld": "tcgen05.ld.sync.aligned.{shape}.x{num}{{.pack::16b}}.b32",
    "st": "tcgen05.st.sync.aligned.{shape}.x{num}{{.unpack::16b}}.b32",
    "ld.red": "tcgen05.ld.red.sync.aligned.{shape}.x{num}.{{min|max}}{{.abs}}{{.NaN}}.{{f32|u32|s32}}",
    "cp": "tcgen05.cp.cta_group::{{1|2}}.{shape}{multicast}{{.b8x16.{{b6x16_p32|b4x16_p64}}}}",
    "shift": "tcgen05.shift.cta_group::{{1|2}}.{shape}",
}
_REPEATED = r"tcgen05\.(ld\.red|ld|st)\.(\w{1,9})\.x([1-9][0-9]{0,2})"


def _move(move: TensorMoveRow, number: int = 0) -> Instruction:
    """A copy, a shift; or a load or store of .x`number`, which without a number represents all."""
    multicast = f".{'|'.join(move.multicast)}" if move.multicast else ""
    cols = move.columns * (number or move.numbers[0] if move.numbers else 1)
    stated: dict[str, tuple[int | str, ...]] = {"num": (number,) if number else move.numbers}
    return Instruction(
        "tcgen05",
        NAMES[move.op].format(shape=move.shape, num=number or "{num}", multicast=multicast),
        Shape(move.lanes, cols),
        _moved(move, cols),
        move.target,
        called=f"tcgen05.{move.op}.{move.shape}" + (f".x{number}" if number else ""),
        stated=stated if move.numbers else {"multicast": move.multicast} if move.multicast else {},
    )


def _moved(move: TensorMoveRow, cols: int) -> tuple[Operand, ...]:
    """The matrix in tensor memory, and what is in registers or in shared memory of it."""
    size = (move.lanes, cols)
    role = Role.SOURCE if move.op in ("ld", "ld.red", "st") else Role.RESULT
    memory = _remote("memory", role, "b32", size, Place.TENSOR_MEMORY)
    if move.op == "shift":
        return (memory,)
    if move.op == "cp":
        return memory, _remote("a", Role.SOURCE, "b32", size, Place.SHARED)
    name, way = ("a", Role.SOURCE) if move.op == "st" else ("d", Role.RESULT)
    held = Operand(name, way, "b32", *size, CELL_BITS, registers_for(prod(size), CELL_BITS, WARP))
    reduced = Operand("redval", Role.RESULT, "b32", move.lanes, move.columns, CELL_BITS, 1)
    return (held, memory, reduced) if move.op == "ld.red" else (held, memory)


class RepeatedForms(Forms):
    """Loads and stores with a number of repetitions are forms too; those without it represent them."""

    def unlisted(self, id_: str) -> Instruction | None:
        """The load or store of an id with its number of repetitions, None where PTX has none of that id."""
        if (read := re.fullmatch(_REPEATED, id_)) is None:
            return None
        number = int(read[3])
        known = (move for move in moves() if (move.op, move.shape) == (read[1], read[2]) and number in move.numbers)
        return next((_move(move, number) for move in known), None)


INSTRUCTIONS = RepeatedForms(
    ("tcgen05",), ("tcgen05.",), all_at_once(lambda: [*map(_multiply, multiplies()), *map(_move, moves())])
)
