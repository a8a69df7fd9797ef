"""A tile in shared memory for wgmma: its descriptor with the reasons, how to step through it, and how to fill it.

>>> from tcprobe.ask.descriptor import tile
>>> found = tile((128, 64), "bf16", "k", 128)
>>> hex(found.descriptor.encode()), found.per_k, found.per_block
('0x4000004000010000', [32], 8192)

A tile is lines (m of A, n of B) x k. With major k an atom is 8 lines x one row of the pattern (16 bytes without a
swizzle), and atoms follow each other along the lines, then along k; with major mn an atom is a row of the pattern x 8
k, and they follow each other along k, then along the lines: so a box of TMA fills a row of atoms. Source: PTX ISA 9.1,
section 9.7.15.5.1.2; CUTLASS include/cute/atom/mma_traits_sm90_gmma.hpp.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Literal

import click

from tcprobe.errors import UsageError, check_choice
from tcprobe.isa.arch import BY_NAME
from tcprobe.isa.bit_fields import DecodedWord
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.names import likely
from tcprobe.isa.tensor_map import DATA_TYPE_OF
from tcprobe.layout.descriptor import REACH, SWIZZLES, UNIT, Descriptor, decode, linear_formula, offsets
from tcprobe.layout.swizzle import swizzle_named
from tcprobe.question import terminal, words
from tcprobe.question.answers import Answer, plain
from tcprobe.question.arguments import PlaceName, Sizes, TypeName, checked, element_type, given_names, place, sizes
from tcprobe.question.declare import Option, PlainArgument, command
from tcprobe.question.options import ElementType, Sides, SwizzleText
from tcprobe.question.shared import JsonOption
from tcprobe.text import Described, Whole
from tcprobe.values import Json

if TYPE_CHECKING:
    from tcprobe.ask.tcgen05_descriptor import Tcgen05Tile, WordAnswer
    from tcprobe.layout.arrays import Offset


K_BYTES = 32  # of one wgmma, dense
BLOCK = 64  # lines of A that one wgmma takes
MOST_SHARED = BY_NAME["sm_90"].shared_kib << 10  # bytes that a block can have
TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1")
# what CuTe calls PTX's types in C++; CUTLASS has the same names in its own namespace
CUTE_TYPES = {
    "f16": "cute::half_t",
    "bf16": "cute::bfloat16_t",
    "tf32": "cute::tfloat32_t",
    "f32": "float",
    "f64": "double",
    "e4m3": "cute::float_e4m3_t",
    "e5m2": "cute::float_e5m2_t",
    "s8": "int8_t",
    "u8": "uint8_t",
    "s32": "int32_t",
}
CPP = {kind: CUTE_TYPES[kind].replace("cute::", "cutlass::") for kind in TYPES if kind in CUTE_TYPES}


class DescriptorFields(Answer):
    """Every field in bytes."""

    start: int
    lbo: int
    sbo: int
    base_offset: int
    swizzle: int | Literal["none"]


class FieldReasons(Answer):
    """What the byte offsets are for."""

    lbo: str
    sbo: str


class BoxAnswer(Answer):
    """The box and modes of a tensor map whose copies fill the tile, one box beside the other."""

    data_type: str
    box: list[int]
    boxes: int
    box_bytes: int
    swizzle: str


class TileAnswer(Answer):
    """A tile in shared memory, and why its descriptor is what it is."""

    reasons: FieldReasons
    type: str
    lines: int
    k: int
    major: str
    bytes: int
    formula: str
    start_multiple_of: int
    advance_k: list[int]
    advance_block: int | None
    block: int
    cuda: str
    tma: BoxAnswer


class SharedTileAnswer(TileAnswer, before=True):
    """A tile and the descriptor that wgmma takes."""

    descriptor: str
    fields: DescriptorFields
    cute: dict[str, str]


class DescriptorAnswer(Answer):
    """What a descriptor of wgmma says."""

    descriptor: str
    start: int
    lbo: int
    sbo: int
    base_offset: int
    swizzle: int | Literal["none"]


@dataclass(frozen=True, repr=False)
class SharedTile(Described):
    """`lines` x `k` elements of `type`; `reasons` say why each stride is what it is."""

    lines: int
    k: int
    type: str
    major: str
    descriptor: Descriptor
    reasons: dict[str, str]
    block: int = BLOCK
    k_bytes: int = K_BYTES

    @property
    def in_words(self) -> Iterator[str]:
        """The tile, its descriptor and what each field of it is for, how addresses go on, the code, TMA's box."""
        fields, box = self.descriptor, tma(self)
        swizzle = f"swizzle {fields.swizzle}" if fields.swizzle else "no swizzle"
        yield f"{self.lines} x {self.k} of {self.type}, {self.major} contiguous, {swizzle}: {self.bytes} bytes"
        yield f"{fields.encode():#018x} with start address 0"
        yield f"  LBO {fields.lbo}: {self.reasons['lbo']}"
        yield f"  SBO {fields.sbo}: {self.reasons['sbo']}"
        base = f"; elsewhere, at a multiple of 128, base offset (address / 128) % {fields.swizzle // 16}"
        yield f"  start: a multiple of {self.alignment}" + (base if fields.swizzle else "")
        steps = ", ".join(f"+{n} bytes (+{n // 16})" for n in self.per_k)
        yield f"  each k step: {steps or 'only one'}"
        block = f"+{self.per_block} bytes (+{self.per_block // 16})" if self.per_block else "only one"
        yield f"  each block of {self.block} lines: {block}"
        yield f"  byte of element (line, k): {self.formula}"
        yield Whole(f"  CUDA: {cuda(self)}")
        yield from (Whole(f"  CuTe {name}: {text}") for name, text in cute(self).items())
        yield (
            f"  TMA: {box['boxes']} x box {box['box'][0]} x {box['box'][1]} ({box['box_bytes']} bytes), "
            f"{box['data_type']}, {box['swizzle']}"
        )

    @property
    def bits(self) -> int:
        """Of an element."""
        return dtype(self.type).bits

    @property
    def width(self) -> int:
        """Bytes of a row of the pattern, 16 without a swizzle."""
        return self.descriptor.swizzle or UNIT

    @property
    def bytes(self) -> int:
        """Of the whole tile."""
        return self.lines * self.k * self.bits // 8

    @property
    def _whole_map(self) -> Descriptor:
        """The descriptor whose map is the whole tile's: where the LBO is ignored, one that leads to the next atoms."""
        return self.descriptor._replace(lbo=self.width * self.lines) if self.major == "k" else self.descriptor

    def offset(self, line: "Offset", k: "Offset") -> "Offset":
        """Bytes from the start of the tile to element (line, k), numbers or arrays; of b1 the byte that has bit k % 8.

        The start is a multiple of `alignment`.
        """
        return offsets(self._whole_map, self.major, line, k, self.bits)

    @property
    def formula(self) -> str:
        """`offset` in C syntax, in line and k."""
        lbo, sbo, swizzle, *_ = self._whole_map
        linear = linear_formula(self.major, swizzle, self.bits, ("line", "k"), (lbo, sbo))
        return f"({linear}) ^ ((({linear}) >> 7 & {swizzle // UNIT - 1}) << 4)" if swizzle else linear

    @property
    def alignment(self) -> int:
        """What a start address is a multiple of, with base offset 0."""
        return 8 * self.descriptor.swizzle or UNIT

    @property
    def per_k(self) -> list[int]:
        """Bytes from each k step to the next: one number where all are equal."""
        step = self.k_bytes * 8 // self.bits
        starts = [self._at(0, k) for k in range(0, self.k, step)]
        steps = [later - before for before, later in pairwise(starts)]
        return steps[:1] if len(set(steps)) == 1 else steps

    @property
    def per_block(self) -> int | None:
        """Bytes to the next block of lines, None where there is only one."""
        return self._at(self.block, 0) if self.lines > self.block else None

    def _at(self, line: int, k: int) -> int:
        """Where a block that starts at (line, k) begins, before the swizzle, which the hardware applies."""
        position = (line * self.bits // 8, k) if self.major == "mn" else (line, k * self.bits // 8)
        return int(self._whole_map.linear(self.major, *position))

    @property
    def box(self) -> tuple[int, int]:
        """Elements of a TMA box: (contiguous, other)."""
        inner = self.width * 8 // self.bits
        return inner, self.lines if self.major == "k" else self.k

    @property
    def boxes(self) -> int:
        """How many of them fill the tile."""
        return self.bytes // (self.box[0] * self.box[1] * self.bits // 8)


def tile(
    size: tuple[int, int], kind: str, major: str, swizzle: int, multiply_size: tuple[int, int] = (BLOCK, K_BYTES)
) -> SharedTile:
    """A tile of `size` lines x k for wgmmas that take so many lines and bytes of k each.

    UsageError says why where no descriptor can describe it.
    """
    if kind not in TYPES:
        raise UsageError(f"wgmma takes no A or B of {kind!r}; it takes {', '.join(TYPES)}.")
    check_choice("major", major, ("k", "mn"))
    if major == "mn" and dtype(kind).bits != 16:
        raise UsageError(f"wgmma takes {kind} with k contiguous only: major mn is for f16 and bf16.")
    return lay_tile(size, kind, major, swizzle, multiply_size)


def block_of(name: str, kind: str | None = None) -> tuple[str, int, int]:
    """The type of a wgmma's operand, and the lines and bytes of k of one wgmma; UsageError without one."""
    from tcprobe.isa.names import resolve

    operand = resolve(name).shared_operand if resolve(name).says_shared else None
    if not operand and {form.family for form in resolve(name).instructions} == {"tcgen05"}:
        raise UsageError(
            "`instruction` is for wgmma: of tcgen05.mma give `tcgen05` and the type for the descriptor of a tile, or "
            "`idesc` for that of the instruction."
        )
    row = operand.instruction if operand else resolve(name).instruction
    if not row.described:
        raise UsageError(f"{row.id} has no operand behind a descriptor; wgmma instructions have.")
    matrix = (operand or row.described[-1]).held
    if kind not in (None, matrix.type):
        raise UsageError(f"{row.id} takes {matrix.type}, not {kind}.")
    lines, k = (matrix.rows, matrix.cols) if matrix.name == "a_smem" else (matrix.cols, matrix.rows)
    return matrix.type, lines, k * matrix.slot_bits // 8


def lay_tile(size: tuple[int, int], kind: str, major: str, swizzle: int, multiply_size: tuple[int, int]) -> SharedTile:
    """A tile of a type and major that the multiplies take; UsageError as `tile`."""
    (lines, k), (block, k_bytes) = size, multiply_size
    bits = dtype(kind).bits
    width = swizzle or UNIT
    inner = (k if major == "k" else lines) * bits // 8
    _check_size(size, bits, k_bytes)
    if inner % width:
        raise UsageError(
            f"{inner} bytes of {'k' if major == 'k' else 'lines'} are not whole rows of {width} bytes, as the "
            f"pattern needs: use `swizzle` {_fitting(inner)}, or a wider tile."
        )
    if lines % block:
        raise UsageError(f"{lines} lines are not a multiple of the {block} that one multiply takes.")
    taken_bytes = block * bits // 8
    if major == "mn" and swizzle and lines > block and taken_bytes % swizzle and swizzle % taken_bytes:
        raise UsageError(
            f"blocks of {block} lines are {taken_bytes} bytes: the second or third would begin in one row of {swizzle} "
            f"bytes and end in another, which no descriptor can express; use `swizzle` {_fitting(taken_bytes)}."
        )
    descriptor, reasons = _mn(k, swizzle, bits) if major == "mn" else _k(lines, swizzle, k_bytes)
    for name in ("lbo", "sbo"):
        if getattr(descriptor, name) >= REACH:
            raise UsageError(
                f"{name} {getattr(descriptor, name)} does not fit 14 bits of 16 bytes: the tile is too large."
            )
    return SharedTile(lines, k, kind, major, descriptor, reasons, block, k_bytes)


def _check_size(size: tuple[int, int], bits: int, k_bytes: int) -> None:
    lines, k = size
    if lines < 8 or lines % 8:
        raise UsageError(f"{lines} lines: a descriptor counts groups of 8, so a multiple of 8 is needed.")
    if k < 1 or k * bits % (8 * k_bytes):
        raise UsageError(
            f"k {k} is {k * bits / 8:g} bytes: one multiply takes {k_bytes}, so a multiple of that is needed."
        )
    if lines * k * bits // 8 > MOST_SHARED:
        raise UsageError(
            f"the tile has {lines * k * bits // 8} bytes; a block has at most {MOST_SHARED} of shared memory."
        )


def _fitting(inner: int) -> str:
    return " or ".join(str(w) if w else "none" for w in sorted(SWIZZLES) if inner % (w or UNIT) == 0) or "none"


def _k(line_count: int, swizzle: int, k_bytes: int) -> tuple[Descriptor, dict[str, str]]:
    if not swizzle:
        return Descriptor(16 * line_count, 128), {
            "lbo": f"from one 16 bytes of k to the next: all {line_count} lines of 16 bytes are between them",
            "sbo": "from 8 lines to the next 8: a core matrix of 8 x 16 bytes",
        }
    if k_bytes > swizzle:
        return Descriptor(swizzle * line_count, 8 * swizzle, swizzle), {
            "lbo": f"from {swizzle} bytes of k to the next: all {line_count} lines of {swizzle} bytes are between them",
            "sbo": f"from 8 lines to the next 8: 8 rows of {swizzle} bytes",
        }
    return Descriptor(UNIT, 8 * swizzle, swizzle), {
        "lbo": "ignored: k of one wgmma stays inside a row of the pattern (16 by custom)",
        "sbo": f"from 8 lines to the next 8: 8 rows of {swizzle} bytes",
    }


def _mn(k: int, swizzle: int, bits: int) -> tuple[Descriptor, dict[str, str]]:
    if not swizzle:
        return Descriptor(128, 16 * k), {
            "lbo": "from 8 k to the next 8: a core matrix of 8 k x 16 bytes",
            "sbo": f"from {UNIT * 8 // bits} lines to the next: all {k} k of 16 bytes are between them",
        }
    return Descriptor(swizzle * k, 8 * swizzle, swizzle), {
        "lbo": f"from {swizzle * 8 // bits} lines to the next: all {k} k of {swizzle} bytes are between them",
        "sbo": f"from 8 k to the next 8: 8 rows of {swizzle} bytes",
    }


def to_json(smem_tile: SharedTile) -> Json:
    """Plain data of everything that `tcprobe descriptor` says of a tile."""
    answer = SharedTileAnswer.of(
        smem_tile,
        descriptor=f"{smem_tile.descriptor.encode():#018x}",
        fields=fields(smem_tile.descriptor),
        start_multiple_of=smem_tile.alignment,
        advance_k=smem_tile.per_k,
        advance_block=smem_tile.per_block,
        cuda=cuda(smem_tile),
        cute=cute(smem_tile),
        tma=tma(smem_tile),
    )
    return plain(answer)


def fields(descriptor: Descriptor) -> Json:
    """Every field in bytes."""
    return {
        "start": descriptor.start,
        "lbo": descriptor.lbo,
        "sbo": descriptor.sbo,
        "base_offset": descriptor.base_offset,
        "swizzle": descriptor.swizzle or "none",
    }


def cuda(smem_tile: SharedTile) -> str:
    """The line that makes the descriptor of a tile at `smem`."""
    rest = smem_tile.descriptor._replace(start=0).encode()
    return f"uint64_t desc = {rest:#018x}ull | (uint64_t)((__cvta_generic_to_shared(smem) & 0x3ffff) >> 4);"


def cute(smem_tile: SharedTile) -> dict[str, str]:
    """CuTe's canonical layout in units of T elements (16 bytes), and the atom that makes it."""
    width = smem_tile.descriptor.swizzle
    name = f"SW{width}" if width else "INTER"
    rows = smem_tile.width // UNIT
    swizzle = {0: 0, 32: 1, 64: 2, 128: 3}[width]
    canonical = {
        ("k", False): "((8,m),(T,2)):((1T,SBO),(1,LBO))",
        ("k", True): f"Swizzle<{swizzle},4,3> o smem_ptr o ((8,m),(T,2)):(({rows}T,SBO),(1,T))",
        ("mn", False): "((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))",
        ("mn", True): f"Swizzle<{swizzle},4,3> o smem_ptr o ((T,{rows},m),(8,k)):((1,T,LBO),({rows}T,SBO))",
    }[smem_tile.major, bool(width)]
    if smem_tile.type not in CPP:
        return {"canonical": canonical, "layout": "CuTe has no wgmma of b1"}
    atom = f"GMMA::Layout_{smem_tile.major.upper()}_{name}_Atom<{CPP[smem_tile.type]}>"
    shape, order = (
        f"Shape<_{smem_tile.lines},_{smem_tile.k}>",
        "Step<_1,_2>" if smem_tile.major == "k" else "Step<_2,_1>",
    )
    return {"canonical": canonical, "layout": f"tile_to_shape({atom}{{}}, {shape}{{}}, {order}{{}})"}


def tma(smem_tile: SharedTile) -> Json:
    """The box and modes of a tensor map whose copies fill the tile, one box beside the other."""
    swizzle = smem_tile.descriptor.swizzle
    return {
        "data_type": f"CU_TENSOR_MAP_DATA_TYPE_{DATA_TYPE_OF.get(smem_tile.type, 'UINT8')}",
        "box": list(smem_tile.box) if smem_tile.bits >= 8 else [smem_tile.width, smem_tile.box[1]],
        "boxes": smem_tile.boxes,
        "box_bytes": smem_tile.bytes // smem_tile.boxes,
        "swizzle": f"CU_TENSOR_MAP_SWIZZLE_{f'{swizzle}B' if swizzle else 'NONE'}",
    }


def field_lines(descriptor: Descriptor) -> list[str]:
    """A descriptor in words, a line a field."""
    width = descriptor.swizzle
    return [
        f"swizzle      {width or 'none'}" + (f": 16-byte chunks exchanged in rows of {width} bytes" if width else ""),
        f"start        {descriptor.start} (bits 0 to 13, in 16 bytes; of addresses the low 18 bits)",
        f"lbo          {descriptor.lbo} bytes (bits 16 to 29)" + ("; ignored where k is contiguous" if width else ""),
        f"sbo          {descriptor.sbo} bytes (bits 32 to 45)"
        + ("" if descriptor.sbo else ": every group of 8 is the same"),
        f"base offset  {descriptor.base_offset} (bits 49 to 51)"
        + (": rows of 128 bytes that the pattern starts late" if descriptor.base_offset else ""),
        *(
            [
                f"{'':13}the start is not a multiple of {8 * width}: the pattern follows the address minus the base "
                "offset"
            ]
            if width and descriptor.start % (8 * width)
            else []
        ),
    ]


# the question

# the kind of tcgen05.mma that multiplies a type
KINDS = {"f16": "f16", "bf16": "f16", "tf32": "tf32", "s8": "i8", "u8": "i8"}
KINDS |= dict.fromkeys(("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"), "f8f6f4")
WITH_TILE = "; a tile needs `tile` LINESxK and `kind` or `instruction`"


@checked
def descriptor(
    value: Annotated[int | str | None, PlainArgument("[0xVALUE]", joined=True, among="one")] = None,
    *,
    tile: Annotated[
        Sizes | None,
        Option("--tile", "Lines (m of A, n of B) x k of a tile in shared memory: 128x64.", reads=Sides(2, "LINESxK")),
    ] = None,
    kind: Annotated[
        TypeName | None, Option("--type", "f16, bf16, tf32, e4m3, e5m2, s8, u8 or b1.", "TYPE", ElementType())
    ] = None,
    instruction: Annotated[
        str | None, Option("--instruction", "A wgmma, or its operand a_smem or b_smem: its type and its lines.", "NAME")
    ] = None,
    major: Annotated[
        Literal["k", "mn"] | None,
        Option("--major", "What is contiguous: k, or m and n.", default="k", word=words.MAJOR),
    ] = None,
    swizzle: Annotated[
        PlaceName | None,
        Option("--swizzle", "Bytes of a row of the pattern: none, 32, 64, 128.", reads=SwizzleText(), default="128"),
    ] = None,
    tcgen05: Annotated[bool, Option("--tcgen05", "The tile's descriptor for tcgen05 instead of wgmma.")] = False,
    idesc: Annotated[
        bool, Option("--idesc", "The instruction descriptor of tcgen05.mma; with 0xVALUE, decode it.")
    ] = False,
    zero_mask: Annotated[
        bool, Option("--zero-mask", "The zero-column mask of tcgen05.mma.ws; with 0xVALUE, decode it.")
    ] = False,
    mma_kind: Annotated[
        str | None, Option("--kind", "With --idesc: f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4 or mxf4nvf4.", "KIND")
    ] = None,
    m: Annotated[int | None, Option("--m", "With --idesc and --zero-mask: M.")] = None,
    n: Annotated[int | None, Option("--n", "With --idesc and --zero-mask: N.")] = None,
    a_type: Annotated[str | None, Option("--a-type", "With --idesc: type of A.", "TYPE")] = None,
    b_type: Annotated[str | None, Option("--b-type", "With --idesc: type of B.", "TYPE")] = None,
    d_type: Annotated[str | None, Option("--d-type", "With --idesc: type of D.", "TYPE")] = None,
    scale_type: Annotated[str | None, Option("--scale-type", "With --idesc: type of the block scales.", "TYPE")] = None,
    others: Annotated[
        tuple[str, ...],
        Option(
            "--set",
            "With --idesc: another field, such as b_major=mn, sparse=1, negate_a=1, max_shift=8, k=96. With "
            "--zero-mask: skip_span=3, use_span=4 (columns), first_span_0=1, start_count_0=2, column_shift=8.",
            "FIELD=VALUE",
            multiple=True,
        ),
    ] = (),
) -> "SharedTile | Tcgen05Tile | Descriptor | DecodedWord | WordAnswer":
    """Show the descriptor of a tile: the 64 bits with the reasons, the steps along k and along lines, and code for
    CUDA, CuTe and TMA.

    A value of 64 bits is decoded instead, for wgmma or, according to its version bits, for tcgen05. --idesc does the
    same for the 32-bit instruction descriptor of tcgen05.mma, both ways, --zero-mask for the 64 bits by which
    tcgen05.mma.ws leaves columns of B out.
    \f
    The type is `kind`, or that of a wgmma or its operand, `instruction`; bf16 without both.

    >>> import tcprobe
    >>> hex(tcprobe.descriptor(tile=(128, 64), kind="bf16").descriptor.encode())
    '0x4000004000010000'
    >>> tcprobe.descriptor(0x4000004000010000).sbo
    1024
    """
    named = isinstance(value, str) and not re.fullmatch(r"(?i)\s*(0x)?[0-9a-f_]*\s*", value)
    if value in ("a", "b", "A", "B") and tile is not None:
        value = None  # both have the same descriptor
    elif named and tile is not None and instruction is None:
        instruction = re.sub(r"(?i)(?<=[ .])([ab])$", r"\1_smem", str(value))
        value = None
    of_tile = {"tile": tile, "kind": kind, "instruction": instruction, "major": major, "swizzle": swizzle}
    of_tile |= {"tcgen05": tcgen05 or None}
    types = {"a_type": a_type, "b_type": b_type, "d_type": d_type, "scale_type": scale_type}
    word_fields: Json = {"mma_kind": mma_kind, "m": m, "n": n, **types, "others": others or None}
    if idesc and kind is not None and not given_names(mma_kind=mma_kind, **types) and kind in KINDS:
        of_type, sums = KINDS[str(kind)], "s32" if KINDS[str(kind)] == "i8" else "f32"
        if likely.say(f"kind::{of_type} with A and B of {kind} and D of {sums}", ["f16"] * (kind == "f16")):
            word_fields |= {"mma_kind": of_type, "a_type": kind, "b_type": kind, "d_type": sums}
            of_tile["kind"] = None
    if idesc or zero_mask:
        return _word(value, idesc, of_tile | {"zero_mask": zero_mask or None}, word_fields)
    if wrong := given_names(**word_fields):
        mask = " or `zero_mask`" if wrong[0] in ("`m`", "`n`", "`others`") else ""
        raise UsageError(f"{wrong[0]} needs `idesc`{mask}.")
    if value is not None and tile is None:
        return _decoded(value, instruction, given_names(**of_tile))
    if value is not None or tile is None:
        if instruction is not None:
            block_of(instruction, None if kind is None else element_type(kind))  # says what is wrong with that first
        raise UsageError("give a descriptor such as 0x4000004000010000, or `tile` 128x64 `kind` bf16.")
    return _described(sizes("tile", tile, 2), of_tile)


def _word(value: int | str | None, idesc: bool, beside: Json, word_fields: Json) -> "WordAnswer":
    """The instruction descriptor, or the mask; UsageError for what the other of them, or a tile, has."""
    from tcprobe.ask import tcgen05_descriptor as words

    others, m, n = word_fields["others"], word_fields["m"], word_fields["n"]
    if idesc:
        if wrong := given_names(**beside):
            raise UsageError(
                f"`idesc` describes an instruction, not a tile: remove {', '.join(wrong)}. Types of A and B are "
                "`a_type` and `b_type`, what is contiguous `others` a_major=mn and b_major=mn."
            )
        named = {name: field for name, field in word_fields.items() if name not in ("mma_kind", "others")}
        typed = {name: field for name, field in named.items() if field is not None}
        bits = None if value is None else words.bits_of(str(value), 32)
        return words.instruction_word(bits, word_fields["mma_kind"], typed | words.field_values_of(others or ()))
    unfit = {name: each for name, each in word_fields.items() if name not in ("m", "n", "others")} | beside
    if m is None or n is None or given_names(**unfit | {"zero_mask": None}):
        raise UsageError("`zero_mask` takes only `m`, `n`, and the fields with `others` or as a value.")
    if (value is None) == (not others):
        raise UsageError("`zero_mask`: give `others` skip_span=3 and the like, or a value of 64 bits.")
    bits = None if value is None else words.bits_of(str(value), 64)
    return words.mask_word(bits, m, n, words.field_values_of(others or ()))


def _decoded(value: int | str, instruction: str | None, beside: Sequence[str]) -> "Descriptor | DecodedWord":
    """What 64 bits say."""
    from tcprobe.ask.tcgen05_descriptor import bits_of
    from tcprobe.layout import descriptor as tcgen05_word

    quoting = "; a name of several words after `instruction` needs quotes" if instruction else WITH_TILE
    bits = value if isinstance(value, int) else bits_of(value, 64, quoting)
    if beside:
        raise UsageError(
            f"a descriptor's value holds every field: remove {beside[0]}, or give a `tile` instead of the value."
        )
    return tcgen05_word.read_tcgen05(bits) if tcgen05_word.is_tcgen05(bits) else decode(bits)


def _described(size: Sequence[int], of_tile: Json) -> "SharedTile | Tcgen05Tile":
    """The descriptor of a tile of lines x k."""
    if len(size) != 2:
        raise UsageError("give a value of 64 bits, or a tile of (lines, k) and its kind.")
    lines, k = size
    kind = None if of_tile["kind"] is None else element_type(of_tile["kind"])
    major, span = of_tile["major"] or "k", swizzle_named(place(of_tile["swizzle"] or "128")).span
    if of_tile["tcgen05"]:
        from tcprobe.ask import tcgen05_descriptor

        if of_tile["instruction"] is not None:
            raise UsageError("`tcgen05` needs `kind`, the tile's element type; `instruction` is for wgmma.")
        return tcgen05_descriptor.Tcgen05Tile(tcgen05_descriptor.tile((lines, k), kind or "bf16", major, span))
    named = of_tile["instruction"]
    block = block_of(named, kind) if named is not None else (kind or "bf16", min(64, lines), 32)
    return tile((lines, k), block[0], major, span, block[1:])


@command(descriptor, short="Descriptors of wgmma and tcgen05, and back.", json="tcprobe.ask.tcgen05_descriptor:PRINTED")
def print_descriptor(
    found: "SharedTile | Tcgen05Tile | Descriptor | DecodedWord | WordAnswer",
    *,
    value: int | str | None,
    tcgen05: bool,
    kind: str | None,
    instruction: str | None,
    as_json: JsonOption = False,
) -> None:
    """A tile, a word, or what 64 bits say; at the command line a tile's type has to be said."""
    from tcprobe.ask.tcgen05_descriptor import Tcgen05Tile, WordAnswer, bits_of, value_json

    if isinstance(found, SharedTile | Tcgen05Tile) and kind is None and instruction is None:
        if tcgen05:
            raise UsageError("`tcgen05` needs `kind`, the tile's element type; `instruction` is for wgmma.")
        raise UsageError("the tile's element type is missing: give `kind` or `instruction`.")
    if isinstance(found, DecodedWord):
        found = WordAnswer(value_json(bits_of(str(value), 64)))
    if isinstance(found, Descriptor):
        text = f"{found.encode():#018x}"
        if as_json:
            click.echo(json.dumps(plain(DescriptorAnswer(text, **fields(found)))))
        else:
            terminal.lines([text, *(f"  {line}" for line in field_lines(found))], text)
    elif as_json:
        click.echo(json.dumps(to_json(found) if isinstance(found, SharedTile) else found.to_json()))
    else:
        terminal.lines(found.in_words, _word_of(found))


def _word_of(found: "SharedTile | Tcgen05Tile | WordAnswer") -> str:
    """The 64 bits, which stand out."""
    if isinstance(found, SharedTile):
        return f"{found.descriptor.encode():#018x}"
    value = getattr(found, "value", None)
    return f"{value:#018x}" if value is not None else found.about  # type: ignore[union-attr]
