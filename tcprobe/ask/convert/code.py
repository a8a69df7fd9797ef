"""A conversion as CUDA: casts between element types, the device function of a plan, and a header of several.

Casts have one row each: how many source elements one instruction takes, and its PTX. Source: PTX ISA 9.1, sections
9.7.9.21 (cvt) and 9.7.9.22 (cvt.pack), for instructions and least targets.

Two headers may be included together, also where they share helpers or a whole conversion. A compiler that knows no
device code (g++) sees nothing in them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import TYPE_CHECKING

from tcprobe import __version__
from tcprobe.ask.convert.moves import LANES, Movmatrix, Pack, Permute, Plan, PlanOp, Select, Shuffle, Tiling, UnitPlace
from tcprobe.code.cuda import origin
from tcprobe.code.names import guard_in
from tcprobe.errors import UsageError
from tcprobe.fit import fit
from tcprobe.isa.arch import Arch
from tcprobe.isa.dtypes import dtype
from tcprobe.isa.fragment import Fragment
from tcprobe.layout.table import Axis, Space, Table, slot_table
from tcprobe.text import comment, quoted

if TYPE_CHECKING:
    from tcprobe.ask.convert.conversion import Conversion


@dataclass(frozen=True)
class Cast:
    """`pair` converts two elements (low, high) into the low bits of a word, `single` one into a word of its own, `unit`
    two that are next to each other into the byte that they share.

    `bits` is the size of a converted element, `source` the C type of a source register, `target` the least arch.
    """

    name: str
    bits: int
    source: str
    pair: str = ""
    single: str = ""
    unit: str = ""
    target: int = 70

    @property
    def instruction(self) -> str:
        """The one instruction of PTX that a conversion is, such as cvt.rn.f16x2.f32; empty where it is several."""
        text = re.match(r'asm\("(cvt[\w.]+) [^;]*;"', self.pair or self.single)
        return text[1] if text else ""


def _cvt_pair(to: str, bits: int, least_arch: int) -> Cast:
    rounding, output = ("rn.satfinite", "=h") if bits == 8 else ("rn", "=r")
    text = f"cvt.{rounding}.{to}x2.f32 %0, %1, %2;"
    return Cast(
        f"f32 to {to}", bits, "float", pair=f'asm("{text}" : "{output}"(d) : "f"(high), "f"(low));', target=least_arch
    )


def _cvt_pack(to: str) -> Cast:
    text = f'asm("cvt.pack.sat.{to}.s32.b32 %0, %1, %2, 0;" : "=r"(d) : "r"(high), "r"(low));'
    return Cast(f"s32 to {to}", 8, "int", pair=text, target=72)


# two conversions and a move, for archs before cvt.f16x2
_TWO_HALVES = "{.reg .f16 l, h; cvt.rn.f16.f32 l, %2; cvt.rn.f16.f32 h, %1; mov.b32 %0, {l, h};}"

# two numbers of 4 bits in a byte, the first below; from sm_100a, sm_120a and their families on
_E2M1X2 = (
    'asm("{.reg .b8 both; cvt.rn.satfinite.e2m1x2.f32 both, %1, %2; cvt.u32.u8 %0, both;}" : "=r"(d) '
    ': "f"(high), "f"(low));'
)

CASTS = {
    ("f32", "f16"): _cvt_pair("f16", 16, 80),
    ("f32", "bf16"): _cvt_pair("bf16", 16, 80),
    ("f32", "e4m3"): _cvt_pair("e4m3", 8, 89),
    ("f32", "e5m2"): _cvt_pair("e5m2", 8, 89),
    ("f32", "tf32"): Cast(
        "f32 to tf32", 32, "float", single='asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(d) : "f"(x));', target=80
    ),
    ("f16", "e4m3"): Cast(
        "f16 to e4m3",
        8,
        "unsigned",
        pair='asm("cvt.rn.satfinite.e4m3x2.f16x2 %0, %1;" : "=h"(d) : "r"(both));',
        target=89,
    ),
    ("f16", "e5m2"): Cast(
        "f16 to e5m2",
        8,
        "unsigned",
        pair='asm("cvt.rn.satfinite.e5m2x2.f16x2 %0, %1;" : "=h"(d) : "r"(both));',
        target=89,
    ),
    ("f32", "e2m1"): Cast("f32 to e2m1", 8, "float", pair=f"{_E2M1X2} d = (d & 15) << 2 | (d & 240) << 6;", target=100),
    ("s32", "s8"): _cvt_pack("s8"),
    ("s32", "u8"): _cvt_pack("u8"),
}


# into elements of 4 bits; those in containers of 8 bits, which are shifted, are above
PACKED = {("f32", "e2m1"): Cast("f32 to packed e2m1", 8, "float", unit=_E2M1X2, target=100)}
OLDER = {
    ("f32", "f16"): Cast(
        "f32 to f16 in two", 16, "float", pair=f'asm("{_TWO_HALVES}" : "=r"(d) : "f"(high), "f"(low));'
    )
}


def cast(from_: Fragment, to: Fragment, device: Arch) -> Cast:
    """The conversion from the type of one fragment to that of another on an arch; of none for the same type.

    UsageError where no instruction does it, or the arch does not have it.
    """
    pair = (from_.type, to.type)
    same = from_.type == to.type or (from_.type, dtype(to.type).bits) == (f"b{from_.slot_bits}", from_.slot_bits)
    if same and from_.slot_bits == to.slot_bits:
        return Cast("bits", max(8, from_.slot_bits), "double" if from_.slot_bits == 64 else "unsigned")
    conversion = PACKED.get(pair) if to.slot_bits == 4 else CASTS.get(pair)
    if conversion is None or to.slot_bits not in (4, conversion.bits):
        conversions = ", ".join(f"{a} to {b}" for a, b in CASTS)
        raise UsageError(f"no conversion from {from_.type} to {to.type}; known: the same type, {conversions}.")
    if device.number < conversion.target:
        conversion = OLDER.get(pair, conversion)
    if device.number < conversion.target:
        raise UsageError(
            f"{device.name} has no instruction from {from_.type} to {to.type}; sm_{conversion.target} has."
        )
    return conversion


NAME = "convert"


def source(tiling: Tiling, plan: Plan, cast: Cast, name: str = NAME) -> str:
    """The function `name`(from, to): registers of every tile of the source, and of the target; what it calls first.

    Where k is in an order there is also the constexpr function `name`_k(k). Each helper stands between #ifndef and
    #endif, so that it is there once however many such texts are put together.
    """
    to, (word, from_parameter) = tiling.target.fragment, parameter(tiling, cast)
    body = [line for op in plan.ops for line in _lines(op, cast, word)]
    body += [f"to[{tile}][{register}] = w{w};" for (tile, register), w in plan.outputs.items()]
    if any("lane" in line for line in body):
        body = ["unsigned lane;", 'asm("mov.u32 %0, %%laneid;" : "=r"(lane));', *body]
    head = f"__device__ inline void {name}({from_parameter}, "
    head += f"{word} (&to)[{tiling.target_tiles}][{to.registers}]) {{"
    helpers = [*_helpers(plan, cast), *_order(tiling.order, name)]
    return "\n".join([*helpers, head, *(f"  {line}" for line in body), "}"])


def parameter(tiling: Tiling, cast: Cast) -> tuple[str, str]:
    """The C type of a word, and the parameter `from`: the registers of every tile of the source."""
    from_, word = tiling.source.fragment, "unsigned long long" if cast.bits == 64 else "unsigned"
    c_type = cast.source if cast.name != "bits" else word
    count = from_.elements if c_type in ("float", "int") else from_.registers
    return word, f"const {c_type} (&from)[{tiling.source_tiles}][{count}]"


@singledispatch
def _lines(op: PlanOp, cast: Cast, word: str) -> Iterator[str]:
    """The statements of an operation."""
    raise NotImplementedError(op)


@_lines.register
def _(pack: Pack, cast: Cast, word: str) -> Iterator[str]:
    yield f"const {word} w{pack.word} = {_pack_expression(pack, cast)};"


@_lines.register
def _(select: Select, _cast: Cast, word: str) -> Iterator[str]:
    yield f"const {word} w{select.word} = {_condition(select.mask)} ? w{select.yes} : w{select.no};"


@_lines.register
def _(shuffle: Shuffle, _cast: Cast, word: str) -> Iterator[str]:
    yield f"const {word} w{shuffle.word} = __shfl_sync(0xffffffffu, w{shuffle.sent}, {_of_lane(shuffle.lanes)});"


@_lines.register
def _(movmatrix: Movmatrix, _cast: Cast, word: str) -> Iterator[str]:
    yield f"{word} w{movmatrix.word};"
    text = "movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;"
    yield f'asm volatile("{text}" : "=r"(w{movmatrix.word}) : "r"(w{movmatrix.sent}));'


@_lines.register
def _(permute: Permute, _cast: Cast, word: str) -> Iterator[str]:
    size = len(permute.selectors[0])
    if size == 1:  # whole words: nothing but a choice
        mask = sum(1 << lane for lane, selector in enumerate(permute.selectors) if selector == (1,))
        yield f"const {word} w{permute.word} = {_condition(mask)} ? w{permute.high} : w{permute.low};"
        return
    lane_selectors = [_selector(selector) for selector in permute.selectors]
    first, *others = dict.fromkeys(lane_selectors)
    text = f"{first:#06x}u"
    for other in others:
        mask = sum(1 << lane for lane in range(LANES) if lane_selectors[lane] == other)
        text = f"({_condition(mask)} ? {other:#06x}u : {text})"
    yield f"const {word} w{permute.word} = __byte_perm(w{permute.low}, w{permute.high}, {text});"


def _selector(source_units: Sequence[int]) -> int:
    """prmt's selector: a nibble a byte."""
    width = 4 // len(source_units)
    return sum(
        (unit * width + byte) << 4 * (place * width + byte)
        for place, unit in enumerate(source_units)
        for byte in range(width)
    )


def _condition(mask: int) -> str:
    """A test that holds in the lanes of `mask`; of one bit of the lane where that is enough."""
    for bit in range(5):
        ones = sum(1 << lane for lane in range(LANES) if lane >> bit & 1)
        if mask == ones:
            return f"(lane & {1 << bit})"
        if mask == ones ^ 0xFFFFFFFF:
            return f"!(lane & {1 << bit})"
    return f"({mask:#010x}u >> lane & 1)"


def _of_lane(values: Sequence[int]) -> str:
    """A value that depends on the lane, as a formula."""
    formula = fit(slot_table(LANES, 1, {"row": tuple(values)})).formulas["row"]
    if formula is not None:
        return str(formula)
    low, high = (sum(value << 5 * (lane % 12) for lane, value in enumerate(values) if lane // 12 == j) for j in (0, 1))
    third = sum(value << 5 * (lane % 12) for lane, value in enumerate(values) if lane // 12 == 2)
    parts = f"lane < 12 ? {low:#x}ull : lane < 24 ? {high:#x}ull : {third:#x}ull"
    return f"static_cast<int>(({parts}) >> 5 * (lane % 12) & 31)"


def _pack_expression(pack: Pack, cast: Cast) -> str:
    """The expression of a word of own units."""
    if cast.name == "bits":
        return _gather(pack.places)
    if cast.single:
        (place,) = pack.places
        return f"{_function(cast)}({_element(place)})"
    if cast.unit:
        shifted = (f" << {8 * byte}" if byte else "" for byte in range(len(pack.places)))
        return " | ".join(f"{_byte(place, cast)}{by}" for place, by in zip(pack.places, shifted, strict=True) if place)
    pairs = [_pair_expression(pair, cast) for pair in pack.pairs]
    return pairs[0] if len(pairs) == 1 else f"{pairs[0]} | {pairs[1]} << 16"


def _byte(place: UnitPlace, cast: Cast) -> str:
    """Two elements next to each other in the byte that they share."""
    tile, unit = place
    return f"{_function(cast)}({_element((tile, 2 * unit))}, {_element((tile, 2 * unit + 1))})"


def _pair_expression(pair: tuple[UnitPlace | None, UnitPlace | None], cast: Cast) -> str:
    if pair == (None, None):
        return "0u"
    low, high = (place or next(p for p in pair if p) for place in pair)
    if cast.source == "unsigned":
        return f"{_function(cast)}({_gather((low, high))})"
    return f"{_function(cast)}({_element(low)}, {_element(high)})"


def _gather(places: Sequence[UnitPlace | None]) -> str:
    """Units of packed source registers, put together by prmt."""
    size = len(places)
    units = [
        (tile, number // size, number % size) for tile, number in (p or next(q for q in places if q) for p in places)
    ]
    registers = list(dict.fromkeys((tile, register) for tile, register, _ in units))
    text = "from[{}][{}]".format(*registers[0])
    if len(registers) == 1 and [unit for *_, unit in units] == list(range(size)):
        return text
    positions = {(registers[0], unit): unit for unit in range(size)}
    for register in registers[1:] or registers:
        there = positions | {(register, unit): size + unit for unit in range(size) if (register, unit) not in positions}
        refs = [((tile, r), unit) for tile, r, unit in units]
        selector = _selector([there.get(ref, place) for place, ref in enumerate(refs)])
        text = f"__byte_perm({text}, from[{register[0]}][{register[1]}], {selector:#06x}u)"
        positions = {ref: place for place, ref in enumerate(refs) if ref in there}
    return text


def _element(place: UnitPlace | None) -> str:
    assert place is not None
    return f"from[{place[0]}][{place[1]}]"


def _function(cast: Cast) -> str:
    return re.sub(r"\W+", "_", cast.name)


def _helpers(plan: Plan, cast: Cast) -> list[str]:
    """The function that converts, where one is needed."""
    if cast.name == "bits" or not any(isinstance(op, Pack) for op in plan.ops):
        return []
    if cast.single:
        arguments, statement = "float x", cast.single
    elif cast.source == "unsigned":
        arguments, statement = "unsigned both", cast.pair
    else:
        arguments, statement = f"{cast.source} low, {cast.source} high", cast.unit or cast.pair
    d = "unsigned short d" if '"=h"' in statement else "unsigned d"
    guard = f"TCPROBE_{_function(cast).upper()}"
    return [
        f"#ifndef {guard}",
        f"#define {guard}",
        f"__device__ inline unsigned {_function(cast)}({arguments}) {{",
        f"  {d};",
        f"  {statement}",
        "  return d;",
        "}",
        "#endif",
        "",
    ]


def _order(order: Sequence[int], name: str) -> list[str]:
    """The function that says which k of the source is at a place of k."""
    if not order:
        return []
    closed = fit(Table(Space((Axis("k", len(order)),)), {"row": tuple(order)})).formulas["row"]
    body = f"return {closed};" if closed else f"constexpr short at[] = {{{', '.join(map(str, order))}}}; return at[k];"
    return [
        "/// which k of the matrix is at place k of this factor, and must be at place k of the other one, too",
        f"__host__ __device__ constexpr int {name}_k(int k) {{ {body} }}",
        "",
    ]


_HEAD = re.compile(r"^__device__ inline void (.*) {$", re.MULTILINE)


def header(conversions: Sequence[Conversion], namespace: str = "") -> str:
    """The header; UsageError where a conversion has no code, or the namespace is not a legal name."""
    by_head: dict[str, str | None] = {}
    for conversion in conversions:
        for head in _HEAD.findall(conversion.code or ""):
            if by_head.setdefault(head, conversion.code) != conversion.code:
                raise UsageError(f"two functions have the signature {quoted(head)}.", "function names")
    lines = [f"// made by tcprobe {__version__}", "#if defined(__CUDACC__) || defined(__CUDACC_RTC__)"]
    for conversion in conversions:
        lines += _section(conversion, namespace)
    return "\n".join([*lines, "#endif", ""])


def _section(conversion: Conversion, namespace: str) -> Iterator[str]:
    tiles = conversion.tiling
    if conversion.code is None:
        raise UsageError(f"no code: {conversion.summary} ({conversion.reason}).")
    code = guard_in(conversion.code, namespace) if namespace else conversion.code
    guard = f"TCPROBE_CONVERT_{hashlib.sha256(f'{namespace} {code}'.encode()).hexdigest()[:12]}"
    yield from ("", f"#ifndef {guard}", f"#define {guard}")
    ends = (("from", tiles.source_tiles, tiles.source), ("to", tiles.target_tiles, tiles.target))
    for name, count, cell in ends:
        yield comment(f"// {name}: {count} x {cell.fragment.id}, {origin(cell)}")
    yield comment(f"// {conversion.summary}; per lane: {conversion.words}")
    yield from [f"namespace {namespace} {{"] * bool(namespace)
    yield code
    yield from ["}"] * bool(namespace)
    yield "#endif"
