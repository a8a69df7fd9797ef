"""tcgen05, PTX ISA 9.1, section 9.7.16, as rows: multiplies whose matrices are in shared and tensor memory, and moves.

M, N and the element types of a multiply are in a descriptor, not in its name: one form stands for all of them. Tensor
memory has 128 lanes of 512 columns of 32 bits. A load or store of .xNUM moves NUM times the columns of its shape.
Listed is that of the least NUM, under a name without it; with .xNUM behind it the name means that one.
The names are those of PTX's syntax: braces hold what may be left out, or one of several.
"""

import re
from itertools import product
from typing import NamedTuple

from tcprobe.isa.arch import WARP
from tcprobe.isa.forms import Forms, together
from tcprobe.isa.fragment import Shape
from tcprobe.isa.instruction import Instruction
from tcprobe.isa.operand import Operand, Place, Role, registers_for
from tcprobe.isa.target import Target

CELL_BITS = 32  # of tensor memory
LANES, COLUMNS = 128, 512


def _arch(ptx: str) -> Target:
    """sm_100 and sm_110 by `a` targets, and their families by `f` ones."""
    return Target("sm_100a", ptx, (("sm_110a", "9.0"), ("sm_100f", "8.8"), ("sm_110f", "9.0")))


EACH_ALONE = Target("sm_100a", "8.6", (("sm_103a", "8.8"), ("sm_107a", "9.4"), ("sm_110a", "9.0")))
BYTES = Target("sm_100a", "8.6", (("sm_110a", "9.0"),))
REDUCING = Target("sm_103f", "8.8", (("sm_110a", "9.0"), ("sm_110f", "9.0")))
EIGHTS, SIXTEENS = tuple(range(8, 257, 8)), tuple(range(16, 257, 16))
BYTE_N = (8, 16, 24, *range(32, 65, 16), *range(80, 257, 16))
NARROW = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")


class Kind(NamedTuple):
    """A .kind: `d` types of the accumulator, `ab` of A and B, k of the dense form; `sp` is for the sparse ones."""

    name: str
    d: tuple[str, ...]
    ab: tuple[str, ...]
    k: int
    target: Target
    sp: Target
    scales: tuple[str, ...] = ()


PLAIN = (
    Kind("f16", ("f16", "f32"), ("f16", "bf16"), 16, _arch("8.6"), _arch("8.6")),
    Kind("tf32", ("f32",), ("tf32",), 8, _arch("8.6"), _arch("8.6")),
    Kind("f8f6f4", ("f32", "f16"), NARROW, 32, _arch("8.6"), _arch("8.6")),
    Kind("i8", ("s32",), ("s8", "u8"), 32, BYTES, BYTES),
)
SCALED = (
    Kind("mxf8f6f4", ("f32",), NARROW, 32, _arch("8.6"), _arch("8.6"), ("ue8m0 1X",)),
    Kind("mxf4", ("f32",), ("e2m1",), 64, _arch("8.6"), EACH_ALONE, ("ue8m0 2X",)),
    Kind(
        "mxf4nvf4",
        ("f32",),
        ("e2m1",),
        64,
        _arch("8.7"),
        EACH_ALONE.at_least("8.7"),
        ("ue8m0 2X", "ue8m0 4X", "ue4m3 4X"),
    ),
)


class Variant(NamedTuple):
    """A way to multiply: qualifiers after tcgen05.mma, CTAs of a group, M and N (integers have fewer of them)."""

    qualifiers: str
    group: int
    m: tuple[int, ...]
    n: tuple[int, ...]
    n_i8: tuple[int, ...] = ()


WS = (64, 128, 256)
VARIANTS = (
    Variant("", 1, (64, 128), EIGHTS, BYTE_N),
    Variant("", 2, (128, 256), SIXTEENS, tuple(range(32, 257, 32))),
    Variant(".ws", 1, (32, 64, 128), WS, WS),
    Variant(".sp", 1, (64, 128), EIGHTS, BYTE_N),
    Variant(".sp", 2, (128, 256), SIXTEENS, tuple(range(32, 257, 32))),
    Variant(".ws.sp", 1, (32, 64, 128), WS[:2], WS[:2]),
)
SCALED_VARIANTS = (
    Variant("", 1, (128,), EIGHTS),
    Variant("", 2, (128, 256), SIXTEENS),
    Variant(".sp", 1, (128,), EIGHTS),
    Variant(".sp", 2, (256,), SIXTEENS),
)
K96 = Variant("", 2, (256,), SIXTEENS)
# K = 96: table 56 gives the scales that .block32 and .block16 mean then, beside other rows "of all supported K"
SCALES_96 = {"mxf4": ("ue8m0 3X",), "mxf4nvf4": ("ue8m0 3X", "ue8m0 6X", "ue4m3 6X")}
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


def _multiply(kind_row: Kind, variant: Variant, k: int = 0) -> Instruction:
    sparse = ".sp" in variant.qualifiers
    kind_row = kind_row._replace(scales=SCALES_96[kind_row.name]) if k else kind_row
    called = f"tcgen05.mma{variant.qualifiers}.cta_group::{variant.group}.kind::{kind_row.name}"
    n = variant.n_i8 if kind_row.name == "i8" else variant.n
    shape = Shape(variant.m[-1], n[-1], k or kind_row.k * (2 if sparse else 1))
    stated: dict[str, tuple[int | str, ...]] = {
        "m_values": variant.m,
        "n_values": n,
        "d_types": kind_row.d,
        "ab_types": kind_row.ab,
    }
    target = Target("sm_103a", "8.8") if k else kind_row.sp if sparse else kind_row.target
    return Instruction(
        "tcgen05",
        called + (".block_scale{.scale_vectorsize}" if kind_row.scales else ""),
        shape,
        _matrices(kind_row, shape, sparse),
        target,
        kind=kind_row.name,
        called=called + (f".k{k}" if k else ""),
        stated=stated | _scales_stated(kind_row) | ({"tables": TABLES_96} if k else {}),
    )


def _scales_stated(kind_row: Kind) -> dict[str, tuple[int | str, ...]]:
    """Types and numbers of scales, and how a size of their blocks is written; nothing for a kind without scales."""
    if not kind_row.scales:
        return {}
    return {"scales": kind_row.scales, "scale_vectorsize": _sizes_stated(kind_row.name)}


def _matrices(kind_row: Kind, shape: Shape, sparse: bool) -> tuple[Operand, ...]:
    """The matrices of the largest M and N, of the first types; no thread holds a part of them."""
    m, n, k = shape
    stored = k // 2 if sparse else k
    operands = [
        _placed("d", Role.RESULT, kind_row.d[0], (m, n), Place.TENSOR_MEMORY),
        _placed("a", Role.FACTOR, kind_row.ab[0], (m, stored), Place.SHARED),
        _placed("b", Role.FACTOR, kind_row.ab[0], (k, n), Place.SHARED),
    ]
    if sparse:
        operands.append(_placed("e", Role.METADATA, "b2", (m, stored), Place.TENSOR_MEMORY))
    if kind_row.scales:
        scale, vector = kind_row.scales[0].removesuffix("X").split()
        operands.append(_placed("scale_a", Role.SCALE, scale, (m, int(vector)), Place.TENSOR_MEMORY))
        operands.append(_placed("scale_b", Role.SCALE, scale, (int(vector), n), Place.TENSOR_MEMORY))
    return tuple(operands)


def _placed(name: str, role: Role, kind: str, size: tuple[int, int], place: Place) -> Operand:
    return Operand(name, role, kind, *size, 32, 0, place=place)


class Transfer(NamedTuple):
    """Loads and stores of a shape: TMEM lanes x columns of one repetition, and the repetitions."""

    shape: str
    lanes: int
    columns: int
    numbers: int  # powers of two from 1 on

    def repeated(self, least: int) -> tuple[int, ...]:
        """The values of NUM from `least` on."""
        return tuple(1 << j for j in range(self.numbers) if 1 << j >= least)


MOVES = (
    Transfer("32x32b", 32, 1, 8),
    Transfer("16x64b", 16, 2, 8),
    Transfer("16x32bx2", 16, 2, 8),  # two accesses of 16 x 32b, the second some columns further on
    Transfer("16x128b", 16, 4, 7),
    Transfer("16x256b", 16, 8, 6),
)


NAMES = {
    "ld": "tcgen05.ld.sync.aligned.{shape}.x{num}{{.pack::16b}}.b32",
    "st": "tcgen05.st.sync.aligned.{shape}.x{num}{{.unpack::16b}}.b32",
    "ld.red": "tcgen05.ld.red.sync.aligned.{shape}.x{num}.{{min|max}}{{.abs}}{{.NaN}}.{{f32|u32|s32}}",
}
LEAST = {"ld": 1, "st": 1, "ld.red": 2}  # the least NUM
REDUCED = ("32x32b", "16x32bx2")
_REPEATED = r"tcgen05\.(ld\.red|ld|st)\.(\w{1,9})\.x([1-9][0-9]{0,2})"


def _moved(op: str, move: Transfer, number: int = 0) -> Instruction:
    """A load or store of .x`number`; without a number the listed one, which represents all."""
    rows, cols = move.lanes, move.columns * (number or LEAST[op])
    memory = _placed("memory", Role.SOURCE, "b32", (rows, cols), Place.TENSOR_MEMORY)
    role, letter = (Role.SOURCE, "a") if op == "st" else (Role.RESULT, "d")
    count = registers_for(rows * cols, CELL_BITS, WARP)
    operands = [Operand(letter, role, "b32", rows, cols, CELL_BITS, count), memory]
    if op == "ld.red":
        operands.append(Operand("redval", Role.RESULT, "b32", rows, move.columns, CELL_BITS, 1))
    return Instruction(
        "tcgen05",
        NAMES[op].format(shape=move.shape, num=number or "{num}"),
        Shape(rows, cols),
        tuple(operands),
        REDUCING if op == "ld.red" else _arch("8.6"),
        called=f"tcgen05.{op}.{move.shape}" + (f".x{number}" if number else ""),
        stated={"num": (number,) if number else move.repeated(LEAST[op])},
    )


class RepeatedForms(Forms):
    """Loads and stores with a number of repetitions are forms too; those without it represent them."""

    def unlisted(self, id_: str) -> Instruction | None:
        """The load or store of an id with its number of repetitions, None where PTX has none of that id."""
        if (read := re.fullmatch(_REPEATED, id_)) is None:
            return None
        op, shape, number = read[1], read[2], int(read[3])
        moves = (move for move in MOVES if move.shape == shape and (op != "ld.red" or shape in REDUCED))
        return next((_moved(op, move, number) for move in moves if number in move.repeated(LEAST[op])), None)


class Copy(NamedTuple):
    """Copies from shared into tensor memory: rows x columns of the source, and what a row may be multicast to."""

    shape: str
    rows: int
    columns: int
    multicast: tuple[str, ...] = ()


COPIES = (
    Copy("128x256b", 128, 8),
    Copy("4x256b", 4, 8),
    Copy("128x128b", 128, 4),
    Copy("64x128b", 64, 4, ("warpx2::02_13", "warpx2::01_23")),
    Copy("32x128b", 32, 4, ("warpx4",)),
)


def _copy(copy: Copy) -> Instruction:
    multicast = f".{'|'.join(copy.multicast)}" if copy.multicast else ""
    name = f"tcgen05.cp.cta_group::{{1|2}}.{copy.shape}{multicast}{{.b8x16.{{b6x16_p32|b4x16_p64}}}}"
    operands = tuple(
        _placed(operand, role, "b32", (copy.rows, copy.columns), place)
        for operand, role, place in (("memory", Role.RESULT, Place.TENSOR_MEMORY), ("a", Role.SOURCE, Place.SHARED))
    )
    stated = {"multicast": copy.multicast} if copy.multicast else {}
    called, shape = f"tcgen05.cp.{copy.shape}", Shape(copy.rows, copy.columns)
    return Instruction("tcgen05", name, shape, operands, _arch("8.6"), called=called, stated=stated)


def _shift() -> Instruction:
    operands = (_placed("memory", Role.RESULT, "b32", (LANES, 8), Place.TENSOR_MEMORY),)
    return Instruction(
        "tcgen05",
        "tcgen05.shift.cta_group::{1|2}.down",
        Shape(LANES, 8),
        operands,
        EACH_ALONE,
        called="tcgen05.shift.down",
    )


def _all() -> list[Instruction]:
    return [
        *(_multiply(kind, variant) for kind, variant in product(PLAIN, VARIANTS)),
        *(_multiply(kind, variant) for kind, variant in product(SCALED, SCALED_VARIANTS)),
        *(_multiply(kind, K96, 96) for kind in SCALED[1:]),
        *(_moved(op, move) for op in ("ld", "st") for move in MOVES),
        *(_moved("ld.red", move) for move in MOVES if move.shape in REDUCED),
        *map(_copy, COPIES),
        _shift(),
    ]


INSTRUCTIONS = RepeatedForms(("tcgen05",), ("tcgen05.",), together(_all))
