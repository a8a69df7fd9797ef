"""A plan as a CUDA device function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import singledispatch

from tcprobe.ask.convert.casts import Cast
from tcprobe.ask.convert.plan import LANES, Movmatrix, Pack, Permute, Plan, PlanOp, Select, Shuffle
from tcprobe.ask.convert.units import Tiling, UnitPlace
from tcprobe.fit import Formula, fit
from tcprobe.layout.table import Axis, Space, Table, slot_table

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
    closed = _order_formula(order)
    body = f"return {closed};" if closed else f"constexpr short at[] = {{{', '.join(map(str, order))}}}; return at[k];"
    return [
        "/// which k of the matrix is at place k of this factor, and must be at place k of the other one, too",
        f"__host__ __device__ constexpr int {name}_k(int k) {{ {body} }}",
        "",
    ]


def _order_formula(order: Sequence[int]) -> Formula | None:
    """order[k] as a formula in `k`; None where there is no closed form."""
    return fit(Table(Space((Axis("k", len(order)),)), {"row": tuple(order)})).formulas["row"]
